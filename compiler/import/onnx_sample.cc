// SPDX-License-Identifier: Apache-2.0
// Ops that read images at computed places: GridSample, AffineGrid and RoiAlign.
#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// A dim as a scalar.
V DimAs(NodeContext& c, Expr dim, DType dtype) { return c.Cast(c.Symbolic({dim}, {}), dtype); }

V Clamp(NodeContext& c, V x, V low, V high) {
  return c.Binary("min", c.Binary("max", x, low), high);
}

// The places along one spatial axis that a sample reads: indices, weights and, where reads outside
// give zeros, whether they lie inside. All are [n, points].
struct Tap {
  V index;
  V weight;
  V inside;
};

struct Axis {
  Expr size;
  bool aligns_corners = false;
  std::string padding;
};

// x mirrored at the borders, which are half a pixel outside, or the corners themselves.
V Reflect(NodeContext& c, V x, const Axis& axis) {
  const DType dtype = c.DTypeOf(x);
  if (axis.aligns_corners && c.exprs().IsConst(axis.size, 1)) return c.Like(x, 0);
  const V low = c.Number(dtype, axis.aligns_corners ? 0 : -0.5);
  const V high = DimAs(c, axis.size, dtype) - (axis.aligns_corners ? 1.0 : 0.5);
  const V range = high - low;
  const V below = c.Binary("lt", x, low);
  const V outside = c.Binary("max", low - x, x - high);
  const V turns = c.Unary("trunc", outside / range);
  const V rest = outside - turns * range;
  const V is_odd = c.Binary("ne", c.Binary("rem", turns, c.Like(turns, 2)), c.Like(turns, 0));
  const V from_low = c.Select(c.Binary("eq", is_odd, below), high - rest, low + rest);
  return c.Select(c.Binary("gt", outside, c.Like(outside, 0)), from_low, x);
}

// The tap at whole place `at`, given as a float.
Tap TapAt(NodeContext& c, V at, V weight, const Axis& axis) {
  const V zero = c.Like(at, 0);
  const V last = DimAs(c, axis.size, c.DTypeOf(at)) - 1.0;
  Tap tap = {at, weight, {&c, kNone}};
  if (axis.padding == "zeros") {
    tap.inside = c.Binary("and", c.Binary("ge", at, zero), c.Binary("le", at, last));
  } else if (axis.padding == "reflection") {
    tap.index = Reflect(c, at, axis);
  }
  tap.index = c.Cast(Clamp(c, tap.index, zero, last), DType::kI64);
  return tap;
}

// The weights of cubic convolution at distance t of the second of four places.
std::vector<V> CubicWeights(V t) {
  constexpr double a = -0.75;
  const auto near = [&](V x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  const auto far = [&](V x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

std::vector<Tap> TapsOf(NodeContext& c, V x, const std::string& mode, const Axis& axis) {
  if (mode == "nearest") x = c.Unary("round_even", x);
  if (axis.padding == "border") {
    const double margin = axis.aligns_corners ? 0 : 0.5;
    const V size = DimAs(c, axis.size, c.DTypeOf(x));
    const V outside = c.Binary("or", c.Binary("lt", x, c.Like(x, -margin)),
                               c.Binary("gt", x, size + (margin - 1)));
    x = c.Select(outside, Clamp(c, x, c.Like(x, 0), size - 1.0), x);
  } else if (axis.padding == "reflection") {
    x = Reflect(c, x, axis);
  }
  if (mode == "nearest") return {TapAt(c, x, c.Like(x, 1), axis)};
  const V base = c.Unary("floor", x);
  const V t = x - base;
  const std::vector<V> weights = mode == "cubic" ? CubicWeights(t) : std::vector<V>{1.0 - t, t};
  const double first = mode == "cubic" ? -1 : 0;
  std::vector<Tap> taps;
  for (size_t i = 0; i < weights.size(); ++i) {
    taps.push_back(TapAt(c, base + (first + static_cast<double>(i)), weights[i], axis));
  }
  return taps;
}

std::vector<V> ImportGridSample(NodeContext& c) {
  const V x = c.In(0);
  const V grid = c.In(1);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  const std::vector<Expr> grid_dims = c.Dims(grid);
  const auto spatial = static_cast<int64_t>(dims.size()) - 2;
  if (spatial < 1 || grid_dims.size() != dims.size() ||
      !c.exprs().IsConst(grid_dims.back(), spatial)) {
    c.Fail(InvalidArgument("The input is {} and the grid {}; n spatial axes need n coordinates.",
                           graph::FormatType(c.exprs(), c.TypeOf(x)),
                           graph::FormatType(c.exprs(), c.TypeOf(grid))));
    return {};
  }
  std::string mode = c.String("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  Axis axis;
  axis.padding = c.String("padding_mode", "zeros");
  axis.aligns_corners = c.Int("align_corners", 0) != 0;
  if ((mode != "linear" && mode != "nearest" && mode != "cubic") ||
      (axis.padding != "zeros" && axis.padding != "border" && axis.padding != "reflection")) {
    c.Fail(InvalidArgument(
        "Attributes 'mode' and 'padding_mode' are '{}' and '{}'; they must be linear, nearest or "
        "cubic, and zeros, border or reflection.",
        mode, axis.padding));
    return {};
  }
  if (spatial > 3) {
    c.Fail(Unimplemented("The input has {} spatial axes; at most 3 are supported.", spatial));
    return {};
  }
  ExprArena& e = c.exprs();
  Expr points = c.Const(1);
  Expr pixels = c.Const(1);
  for (int64_t i = 0; i < spatial; ++i) {
    points = e.Mul(points, grid_dims[static_cast<size_t>(i) + 1]);
    pixels = e.Mul(pixels, dims[static_cast<size_t>(i) + 2]);
  }
  const DType wide = c.ComputeDType(grid);
  const V places = c.ReshapeTo(c.Cast(grid, wide), {dims[0], points, c.Const(spatial)});
  // One tap per combination of the axes' taps, built up axis by axis.
  std::vector<Tap> taps = {{{&c, kNone}, {&c, kNone}, {&c, kNone}}};
  for (int64_t i = 0; i < spatial && c.ok(); ++i) {
    axis.size = dims[static_cast<size_t>(i) + 2];
    // Coordinates come from the last axis to the first.
    const V g = c.Squeeze(c.SliceAxis(places, 2, c.Const(spatial - 1 - i), c.Const(1)), {2});
    const V size = DimAs(c, axis.size, wide);
    const V at =
        axis.aligns_corners ? (g + 1.0) / 2.0 * (size - 1.0) : ((g + 1.0) * size - 1.0) / 2.0;
    std::vector<Tap> next;
    for (const Tap& before : taps) {
      for (const Tap& tap : TapsOf(c, at, mode, axis)) {
        if (!before.index.valid()) {
          next.push_back(tap);
          continue;
        }
        const bool checks = tap.inside.valid();
        next.push_back({before.index * c.Symbolic({axis.size}, {}) + tap.index,
                        before.weight * tap.weight,
                        checks ? c.Binary("and", before.inside, tap.inside) : tap.inside});
      }
    }
    taps = std::move(next);
  }
  const V flat = c.ReshapeTo(x, {dims[0], dims[1], pixels});
  const std::vector<Expr> shape = {dims[0], dims[1], points};
  V sum = {&c, kNone};
  for (const Tap& tap : taps) {
    const V index = c.BroadcastTo(c.Unsqueeze(tap.index, {1}), shape);
    V value = c.Op("gather_elements", {flat, index}, {{"axis", int64_t{2}}});
    if (tap.inside.valid()) {
      value = c.Select(c.Unsqueeze(tap.inside, {1}), value, c.Like(value, 0));
    }
    if (mode != "nearest") value = c.Cast(value, wide) * c.Unsqueeze(tap.weight, {1});
    sum = sum.valid() ? sum + value : value;
  }
  std::vector<Expr> out = {dims[0], dims[1]};
  out.insert(out.end(), grid_dims.begin() + 1, grid_dims.end() - 1);
  return {c.ReshapeTo(c.Cast(sum, c.DTypeOf(x)), out)};
}

std::vector<V> ImportAffineGrid(NodeContext& c) {
  const V theta = c.In(0);
  const std::vector<Expr> size = c.ExprsOf(1, "size");
  if (!c.ok()) return {};
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  const std::vector<Expr> dims = c.Dims(theta);
  if ((spatial != 2 && spatial != 3) || dims.size() != 3 || !c.exprs().IsConst(dims[1], spatial) ||
      !c.exprs().IsConst(dims[2], spatial + 1)) {
    c.Fail(InvalidArgument("Theta is {} and size has {}; they need [n, k, k + 1] and k + 2.",
                           graph::FormatType(c.exprs(), c.TypeOf(theta)),
                           Counted(size.size(), "element")));
    return {};
  }
  const bool aligns = c.Int("align_corners", 0) != 0;
  const std::vector<Expr> space(size.begin() + 2, size.end());
  Expr points = c.Const(1);
  for (const Expr dim : space) points = c.exprs().Mul(points, dim);
  const DType dtype = c.DTypeOf(theta);
  const DType wide = c.ComputeDType(theta);
  // Rows of coordinates in [-1, 1], the last axis first, then a row of ones.
  std::vector<V> rows;
  for (int64_t i = spatial; i-- > 0;) {
    const V at = c.Iota(wide, space, i);
    const V count = DimAs(c, space[static_cast<size_t>(i)], wide);
    const V row = aligns ? 2.0 * at / c.Binary("max", count - 1.0, c.Number(wide, 1)) - 1.0
                         : (2.0 * at + 1.0) / count - 1.0;
    rows.push_back(c.ReshapeTo(row, {c.Const(1), points}));
  }
  rows.push_back(c.BroadcastTo(c.Number(wide, 1), {c.Const(1), points}));
  const V grid = c.Op("matmul", {c.Cast(theta, wide), c.Concat(rows, 0)});
  std::vector<Expr> out = space;
  out.insert(out.begin(), dims[0]);
  out.push_back(c.Const(spatial));
  return {c.Cast(c.ReshapeTo(c.Transpose(grid, {0, 2, 1}), out), dtype)};
}

// Where the samples of regions lie along one axis: [regions, bins * samples], and their taps.
struct RoiAxis {
  V low, high;  // i64
  V low_weight, high_weight;
  V inside;  // a sample outside is 0, whatever its taps read
};

RoiAxis RoiTaps(NodeContext& c, V rois, int64_t column, Expr size, int64_t bins, int64_t samples) {
  RoiAxis out;
  const double scale = c.Float("spatial_scale", 1);
  const std::string coordinates =
      c.String("coordinate_transformation_mode", c.opset < 16 ? "output_half_pixel" : "half_pixel");
  const bool is_half = coordinates == "half_pixel";
  if (!is_half && coordinates != "output_half_pixel") {
    c.Fail(
        InvalidArgument("Attribute 'coordinate_transformation_mode' is '{}'; it must be "
                        "half_pixel or output_half_pixel.",
                        coordinates));
    return out;
  }
  const auto edge = [&](int64_t at) {
    return c.SliceAxis(rois, 1, c.Const(at), c.Const(1)) * scale - (is_half ? 0.5 : 0.0);
  };
  const V start = edge(column);
  V extent = edge(column + 2) - start;
  if (!is_half) extent = c.Binary("max", extent, c.Like(extent, 1));
  const DType dtype = c.DTypeOf(rois);
  const V sample = c.Iota(dtype, {c.Const(1), c.Const(bins * samples)}, 1);
  const V at = start + (sample + 0.5) * (extent / static_cast<double>(bins * samples));
  const V zero = c.Like(at, 0);
  const V count = DimAs(c, size, dtype);
  out.inside = c.Binary("and", c.Binary("ge", at, c.Like(at, -1)), c.Binary("le", at, count));
  const V place = Clamp(c, at, zero, count - 1.0);
  const V low = c.Unary("floor", place);
  const V t = place - low;
  out.low = c.Cast(low, DType::kI64);
  out.high = c.Cast(c.Binary("min", low + 1.0, count - 1.0), DType::kI64);
  out.low_weight = 1.0 - t;
  out.high_weight = t;
  return out;
}

std::vector<V> ImportRoiAlign(NodeContext& c) {
  const V x = c.In(0);
  const V rois = c.In(1);
  const V batches = c.In(2);
  const int64_t height = c.Int("output_height", 1);
  const int64_t width = c.Int("output_width", 1);
  const int64_t samples = c.Int("sampling_ratio", 0);
  const std::string mode = c.String("mode", "avg");
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  constexpr int64_t kMost = 1 << 15;
  if (dims.size() != 4 || c.Rank(rois) != 2 || c.Rank(batches) != 1 || height < 1 || width < 1 ||
      height > kMost || width > kMost || samples < 0 || samples > kMost ||
      (mode != "avg" && mode != "max")) {
    c.Fail(
        InvalidArgument("The inputs have {}, {} and {}; they need 4, 2 and 1, with output sizes in "
                        "[1, {}] and mode "
                        "avg or max.",
                        dims.size(), c.Rank(rois), Counted(c.Rank(batches), "dimension"), kMost));
    return {};
  }
  if (samples == 0) {
    c.Fail(
        Unimplemented("Attribute 'sampling_ratio' is 0, which takes the number of samples from the "
                      "regions' sizes; "
                      "it must be above 0."));
    return {};
  }
  const DType wide = c.ComputeDType(x);
  const V wide_rois = c.Cast(rois, wide);
  const RoiAxis ys = RoiTaps(c, wide_rois, 1, dims[2], height, samples);
  const RoiAxis xs = RoiTaps(c, wide_rois, 0, dims[3], width, samples);
  ExprArena& e = c.exprs();
  // Pixels as rows of channels.
  const V pixels =
      c.ReshapeTo(c.Transpose(x, {0, 2, 3, 1}), {e.Mul(e.Mul(dims[0], dims[2]), dims[3]), dims[1]});
  const Expr regions = c.Dims(rois)[0];
  const V checked = c.CheckIndex(batches, dims[0], "entry of 'batch_indices'");
  const V batch = c.ReshapeTo(c.Cast(checked, DType::kI64), {regions, c.Const(1), c.Const(1)});
  const V inside =
      c.Unsqueeze(c.Binary("and", c.Unsqueeze(ys.inside, {2}), c.Unsqueeze(xs.inside, {1})), {3});
  const auto corner = [&](V y, V y_weight, V x_at, V x_weight) {
    const V row = batch * c.Symbolic({dims[2]}, {}) + c.Unsqueeze(y, {2});
    const V index = row * c.Symbolic({dims[3]}, {}) + c.Unsqueeze(x_at, {1});
    const V weight = c.Unsqueeze(y_weight, {2}) * c.Unsqueeze(x_weight, {1});
    const V value = c.Op("gather", {pixels, index}, {{"axis", int64_t{0}}});
    return c.Select(inside, c.Cast(value, wide) * c.Unsqueeze(weight, {3}), c.Number(wide, 0));
  };
  const V corners[] = {corner(ys.low, ys.low_weight, xs.low, xs.low_weight),
                       corner(ys.low, ys.low_weight, xs.high, xs.high_weight),
                       corner(ys.high, ys.high_weight, xs.low, xs.low_weight),
                       corner(ys.high, ys.high_weight, xs.high, xs.high_weight)};
  if (!c.ok()) return {};
  const bool is_max = mode == "max";
  V value = corners[0];
  for (int i = 1; i < 4; ++i)
    value = is_max ? c.Binary("max", value, corners[i]) : value + corners[i];
  const Expr n = c.Const(samples);
  value = c.ReshapeTo(value, {regions, c.Const(height), n, c.Const(width), n, dims[1]});
  value = is_max ? c.Reduce("reduce_max", value, {2, 4}, false) : c.Mean(value, {2, 4}, false);
  return {c.Cast(c.Transpose(value, {0, 3, 1, 2}), c.DTypeOf(x))};
}

constexpr ImportRow kSampleRows[] = {
    {"AffineGrid", 20, 0, 2, 2, 1, "align_corners", ImportAffineGrid, "size known before the run"},
    {"GridSample", 16, 0, 2, 2, 1, "align_corners mode padding_mode", ImportGridSample,
     "at most 3 spatial axes"},
    {"RoiAlign", 10, 0, 3, 3, 1,
     "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
     ImportRoiAlign, "sampling_ratio above 0"},
};

}  // namespace

std::span<const ImportRow> SampleRows() { return kSampleRows; }

}  // namespace halyard::onnx
