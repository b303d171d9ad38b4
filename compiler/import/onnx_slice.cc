// SPDX-License-Identifier: Apache-2.0
// Slices and pads, whose bounds may be expressions over symbols.
#include <algorithm>
#include <numeric>

#include "base/quantity.h"

#include "compiler/expr/largest_symbol.h"
#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

// A bound of a slice as an index in [low, dim + low_end]; `low` is 0, or -1 for the end of a slice
// that walks backwards. Fails where the sign of an expression is not known.
Expr Bound(NodeContext& c, Expr bound, Expr dim, int64_t low, int64_t high_below_dim) {
  ExprArena& e = c.exprs();
  const Expr high = e.Sub(dim, c.Const(high_below_dim));
  if (const std::optional<int64_t> number = e.AsConst(bound)) {
    if (*number > kLargestSymbol && !e.AsConst(dim).has_value()) return high;
    if (*number < -kLargestSymbol && !e.AsConst(dim).has_value()) return c.Const(low);
    if (const std::optional<int64_t> size = e.AsConst(dim)) {
      int64_t at = *number;
      if (at < 0) at = at < -*size ? low : at + *size;
      return c.Const(std::min(std::max(at, low), *size - high_below_dim));
    }
  }
  const ExprRange range = e.RangeOf(bound);
  if (range.lo >= 0) return e.KnownLessOrEqual(bound, high) ? bound : e.Min(bound, high);
  if (range.hi < 0) {
    const Expr at = e.Add(bound, dim);
    return e.RangeOf(at).lo >= low ? at : e.Max(at, c.Const(low));
  }
  c.Fail(Unimplemented("A bound of the slice is {}, whose sign is not known before the run.",
                       e.Format(bound)));
  return bound;
}

// Whether numbers tell the order of both bounds in any dim: they count from the same end.
bool AreOnOneSide(std::optional<int64_t> start, std::optional<int64_t> end) {
  return start && end && (*start < 0) == (*end < 0);
}

// Whether the slice is empty whatever its open dim is.
bool HasNone(std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  if (step > 0) {
    return start.value_or(0) > kLargestSymbol || end.value_or(0) < -kLargestSymbol ||
           (AreOnOneSide(start, end) && *start >= *end);
  }
  // A start before the dim is its first element, which an end before the dim does not leave out.
  return end.value_or(0) > kLargestSymbol ||
         (AreOnOneSide(start, end) && *start >= 0 && *start <= *end);
}

// Whether the slice of an open dim holds its first element wherever that lies in the dim. Bounds
// that count from different ends may cross; of those that count from the end, both may lie before
// the dim.
bool HasItsFirst(std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  if (step > 0) {
    return end.value_or(0) > kLargestSymbol ||
           (AreOnOneSide(start, end) && *start >= 0 && *start < *end);
  }
  return end.value_or(0) < -kLargestSymbol ||
         (AreOnOneSide(start, end) && *start < 0 && *start > *end);
}

std::vector<V> ImportSlice(NodeContext& c) {
  const V x = c.In(0);
  std::vector<Expr> starts;
  std::vector<Expr> ends;
  std::vector<int64_t> axes;
  std::vector<int64_t> steps;
  if (c.opset < 10) {
    starts = c.Consts(c.Ints("starts"));
    ends = c.Consts(c.Ints("ends"));
    axes = c.Ints("axes");
    if (!c.HasAttribute("axes")) {
      axes.resize(starts.size());
      std::iota(axes.begin(), axes.end(), int64_t{0});
    }
  } else {
    starts = c.ExprsOf(1, "starts");
    ends = c.ExprsOf(2, "ends");
    if (c.Has(3)) {
      axes = c.IntsOf(3, "axes");
    } else {
      axes.resize(starts.size());
      std::iota(axes.begin(), axes.end(), int64_t{0});
    }
    if (c.Has(4)) steps = c.IntsOf(4, "steps");
  }
  if (!c.ok()) return {};
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    c.Fail(InvalidArgument("There are {}, {}, {} and {}; their numbers must agree.",
                           Counted(starts.size(), "start"), Counted(ends.size(), "end"),
                           Counted(axes.size(), "axis"), Counted(steps.size(), "step")));
    return {};
  }
  ExprArena& e = c.exprs();
  // Beyond any dim, and still a number when one is added.
  constexpr int64_t kBeyond = int64_t{1} << 62;
  for (std::vector<Expr>* bounds : {&starts, &ends}) {
    for (Expr& bound : *bounds) {
      if (const std::optional<int64_t> number = e.AsConst(bound))
        bound = c.Const(std::clamp(*number, -kBeyond, kBeyond));
    }
  }
  std::vector<Expr> sizes = c.Dims(x);
  std::vector<Expr> firsts(sizes.size(), c.Const(0));
  std::vector<int64_t> strides(sizes.size(), 1);
  std::vector<bool> seen(sizes.size(), false);
  std::vector<size_t> maybe_empty;
  bool changes = false;
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(c.Axis(axes[i], c.Rank(x)));
    if (!c.ok()) return {};
    // No dim is larger, so that a step beyond takes one element, too.
    const int64_t step = std::clamp(steps[i], -kMost, kMost);
    if (step == 0 || seen[axis]) {
      c.Fail(InvalidArgument("Axis {} has step {}; a step is not 0 and an axis is given once.",
                             axis, step));
      return {};
    }
    seen[axis] = true;
    const Expr dim = sizes[axis];
    Expr size;
    if (step > 0) {
      const Expr first = Bound(c, starts[i], dim, 0, 0);
      const Expr end = Bound(c, ends[i], dim, 0, 0);
      firsts[axis] = first;
      Expr span = e.Sub(end, first);
      if (e.RangeOf(starts[i]).hi < 0) {
        // The same as a minimum: of the last k elements there are min(k, dim).
        span = e.Min(e.Sub(end, e.Add(starts[i], dim)), end);
      }
      size = e.CeilDiv(span, c.Const(step));
    } else {
      const Expr first = Bound(c, starts[i], dim, 0, 1);
      const Expr end = Bound(c, ends[i], dim, -1, 1);
      firsts[axis] = first;
      size = e.CeilDiv(e.Sub(first, end), c.Const(-step));
      // An axis without elements has no last one to begin at.
      if (e.RangeOf(dim).lo < 1) size = e.Min(size, e.CeilDiv(dim, c.Const(-step)));
    }
    if (!c.ok()) return {};
    size = e.RangeOf(size).lo >= 0 ? size : e.Max(size, c.Const(0));
    const std::optional<int64_t> start = e.AsConst(starts[i]), end = e.AsConst(ends[i]);
    if (!e.AsConst(size) && HasNone(start, end, step)) size = c.Const(0);
    // What holds one element at most holds one: a dim of 1 is repeated where shapes are joined, one
    // that may be 0 is not. One that is empty is refused when it comes: its first element would lie
    // outside, or is taken from what it holds.
    if (e.RangeOf(size).lo == 0 && e.RangeOf(size).hi == 1) {
      if (HasItsFirst(start, end, step) || (step > 0 && e.KnownLessOrEqual(dim, ends[i]))) {
        size = c.Const(1);
      } else {
        maybe_empty.push_back(axis);
      }
    }
    if (e.IsConst(size, 0)) firsts[axis] = c.Const(0);  // reads nothing, so any start will do
    changes |= size != dim || step != 1;
    sizes[axis] = size;
    strides[axis] = e.IsConst(size, 0) ? 1 : step;
  }
  if (!changes) return {x};
  V y = c.Op("slice", {x}, {{"starts", firsts}, {"sizes", sizes}, {"steps", strides}});
  for (const size_t axis : maybe_empty)
    y = c.SliceAxis(y, static_cast<int64_t>(axis), c.Const(0), c.Const(1));
  return {y};
}

// Pads axis by axis; negative pads crop first.
std::vector<V> ImportPad(NodeContext& c) {
  V x = c.In(0);
  const std::string mode = c.String("mode", "constant");
  std::vector<Expr> pads;
  V value = {&c, kNone};
  std::vector<int64_t> axes;
  if (c.opset < 11) {
    pads = c.Consts(c.Ints("pads"));
    if (c.HasAttribute("value")) value = c.Like(x, c.Float("value", 0));
  } else {
    pads = c.ExprsOf(1, "pads");
    if (c.Has(2)) value = c.ReshapeTo(c.In(2), {});
    if (c.Has(3)) axes = c.IntsOf(3, "axes");
  }
  if (!c.ok()) return {};
  const auto rank = static_cast<size_t>(c.Rank(x));
  if (!c.Has(3)) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), int64_t{0});
  }
  if (pads.size() != 2 * axes.size()) {
    c.Fail(InvalidArgument("There are {}; {} need {}.", Counted(pads.size(), "pad"),
                           Counted(axes.size(), "axis"), 2 * axes.size()));
    return {};
  }
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    c.Fail(InvalidArgument("Attribute 'mode' is '{}'; it must be constant, edge, reflect or wrap.",
                           mode));
    return {};
  }
  ExprArena& e = c.exprs();
  std::vector<Expr> low(rank, c.Const(0));
  std::vector<Expr> high(rank, c.Const(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(c.Axis(axes[i], c.Rank(x)));
    if (!c.ok()) return {};
    const Expr zero = c.Const(0);
    Expr crop_low = zero;
    Expr crop_high = zero;
    const auto part = [&](Expr pad, Expr& grow, Expr& crop) {
      const ExprRange range = e.RangeOf(pad);
      if (const int64_t size = e.AsConst(pad).value_or(0); size < -kMost || size > kMost) {
        c.Fail(OutOfRange("A pad is {}; it must lie in [-2^40, 2^40].", size));
        return;
      }
      if (range.lo >= 0) {
        grow = pad;
      } else if (range.hi <= 0) {
        crop = e.Sub(zero, pad);
      } else {
        c.Fail(
            Unimplemented("A pad is {}, whose sign is not known before the run.", e.Format(pad)));
      }
    };
    part(pads[i], low[axis], crop_low);
    part(pads[axes.size() + i], high[axis], crop_high);
    if (!c.ok()) return {};
    if (crop_low != zero || crop_high != zero) {
      const Expr size = e.Sub(e.Sub(c.Dims(x)[axis], crop_low), crop_high);
      x = c.SliceAxis(x, static_cast<int64_t>(axis), crop_low, size);
    }
  }
  const std::vector<Expr> none(rank, c.Const(0));
  if (low == none && high == none) return {x};
  const Attributes attributes = {{"low", low}, {"high", high}, {"mode", mode}};
  if (mode == "constant" && value.valid()) return {c.Op("pad", {x, value}, attributes)};
  return {c.Op("pad", {x}, attributes)};
}

std::vector<V> ImportCenterCropPad(NodeContext& c) {
  V x = c.In(0);
  const std::vector<int64_t> shape = c.IntsOf(1, "shape");
  std::vector<int64_t> axes = c.Ints("axes");
  if (!c.ok()) return {};
  if (!c.HasAttribute("axes")) {
    axes.resize(static_cast<size_t>(c.Rank(x)));
    std::iota(axes.begin(), axes.end(), int64_t{0});
  }
  if (axes.size() != shape.size()) {
    c.Fail(InvalidArgument("Input 'shape' has {} for {}.", Counted(shape.size(), "element"),
                           Counted(axes.size(), "axis")));
    return {};
  }
  const std::vector<int64_t> dims = c.ConstDims(x, "The input");
  const auto rank = static_cast<size_t>(c.Rank(x));
  std::vector<Expr> low(rank, c.Const(0));
  std::vector<Expr> high(rank, c.Const(0));
  bool pads = false;
  for (size_t i = 0; i < axes.size() && c.ok(); ++i) {
    const auto axis = static_cast<size_t>(c.Axis(axes[i], c.Rank(x)));
    if (!c.ok()) return {};
    const int64_t dim = dims[axis];
    if (shape[i] < 0) {
      c.Fail(InvalidArgument("Input 'shape' holds {}; it must be at least 0.", shape[i]));
    } else if (shape[i] < dim) {
      x = c.SliceAxis(x, static_cast<int64_t>(axis), c.Const((dim - shape[i]) / 2),
                      c.Const(shape[i]));
    } else if (shape[i] > dim) {
      low[axis] = c.Const((shape[i] - dim) / 2);
      high[axis] = c.Const(shape[i] - dim - (shape[i] - dim) / 2);
      pads = true;
    }
  }
  if (!pads) return {x};
  return {c.Op("pad", {x}, {{"low", low}, {"high", high}, {"mode", std::string("constant")}})};
}

constexpr ImportRow kSliceRows[] = {
    {"CenterCropPad", 18, 0, 2, 2, 1, "axes", ImportCenterCropPad, "static shapes"},
    {"Pad", 2, 0, 1, 4, 1, "mode pads value", ImportPad, "pads known before the run"},
    {"Slice", 1, 0, 1, 5, 1, "axes ends starts", ImportSlice, "bounds known before the run"},
};

}  // namespace

std::span<const ImportRow> SliceRows() { return kSliceRows; }

}  // namespace halyard::onnx
