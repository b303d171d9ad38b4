// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling: windows over [n, c, spatial...].
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/excerpt.h"
#include "base/quantity.h"

#include "compiler/import/onnx_activation.h"
#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;

// The window attributes of a node, one value per spatial axis.
struct Window {
  std::vector<int64_t> size;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> low;
  std::vector<int64_t> high;
};

// Reads strides, dilations, pads and auto_pad for windows of `size` over `x`.
Window ReadWindow(NodeContext& c, V x, std::vector<int64_t> size) {
  const size_t n = size.size();
  Window w;
  w.size = std::move(size);
  w.strides = c.PerAxis("strides", n, 1, 1, kMaxWindow);
  w.dilations = c.PerAxis("dilations", n, 1, 1, kMaxWindow);
  w.low.assign(n, 0);
  w.high.assign(n, 0);
  const std::string auto_pad = c.String("auto_pad", "NOTSET");
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    const std::vector<int64_t> pads = c.PerAxis("pads", 2 * n, 0, -kMaxWindow, kMaxWindow);
    std::copy_n(pads.begin(), n, w.low.begin());
    std::copy_n(pads.begin() + static_cast<int64_t>(n), n, w.high.begin());
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    const std::vector<Expr> dims = c.Dims(x);
    for (size_t i = 0; i < n && c.ok(); ++i) {
      const int64_t reach = w.dilations[i] * (w.size[i] - 1) + 1;
      int64_t total = reach - 1;  // with stride 1, whatever the dim
      if (w.strides[i] != 1) {
        const std::optional<int64_t> dim = c.exprs().AsConst(dims[i + 2]);
        if (!dim.has_value()) {
          c.Fail(Unimplemented("auto_pad {} with stride {} needs a number as dim; it is {}.",
                               auto_pad, w.strides[i], c.exprs().Format(dims[i + 2])));
          return w;
        }
        const int64_t out = (*dim + w.strides[i] - 1) / w.strides[i];
        total = std::max<int64_t>(0, (out - 1) * w.strides[i] + reach - *dim);
      }
      w.low[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.high[i] = total - w.low[i];
    }
  } else if (auto_pad != "VALID") {
    c.Fail(InvalidArgument(
        "Attribute 'auto_pad' is '{}'; it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID.",
        auto_pad));
  }
  return w;
}

// Checks the rank; the spatial rank, or 0 after a failure.
size_t SpatialRank(NodeContext& c, V x) {
  if (!c.ok()) return 0;
  if (c.Rank(x) < 3) {
    c.Fail(InvalidArgument("Input 'X' has {}; {} needs at least 3.",
                           Counted(c.Rank(x), "dimension"), c.node.op_type));
    return 0;
  }
  return static_cast<size_t>(c.Rank(x) - 2);
}

V AddChannels(NodeContext& c, V y, V bias) {
  if (!c.ok()) return y;
  std::vector<Expr> dims(static_cast<size_t>(c.Rank(y)), c.Const(1));
  dims[1] = c.Dims(y)[1];
  return y + c.ReshapeTo(bias, dims);
}

// The spatial dims of the weights, which kernel_shape repeats.
std::vector<int64_t> KernelSize(NodeContext& c, V w, size_t spatial) {
  if (!c.ok()) return {};
  if (c.Rank(w) != static_cast<int64_t>(spatial) + 2) {
    c.Fail(InvalidArgument("Input 'W' has {}; input 'X' has {}.", Counted(c.Rank(w), "dimension"),
                           spatial + 2));
    return {};
  }
  const std::vector<int64_t> all = c.ConstDims(w, "Input 'W'");
  const std::vector<int64_t> size(all.begin() + 2, all.end());
  const std::vector<int64_t> given = c.Ints("kernel_shape", size);
  if (c.ok() && given != size) {
    c.Fail(InvalidArgument("Attribute 'kernel_shape' is [{}]; the weights have [{}].",
                           Excerpt(given), Excerpt(size)));
  }
  return size;
}

V Convolve(NodeContext& c, V x, V w) {
  const size_t spatial = SpatialRank(c, x);
  const std::vector<int64_t> size = KernelSize(c, w, spatial);
  if (!c.ok()) return {&c, kNone};
  const Window window = ReadWindow(c, x, size);
  return c.Op("conv", {x, w},
              {{"strides", window.strides},
               {"dilations", window.dilations},
               {"pads_low", window.low},
               {"pads_high", window.high},
               {"groups", c.Int("group", 1)}});
}

std::vector<V> ImportConv(NodeContext& c) {
  const V y = Convolve(c, c.In(0), c.In(1));
  return {c.Has(2) ? AddChannels(c, y, c.In(2)) : y};
}

// A depthwise convolution in time over the last inputs of the step before and the new ones.
std::vector<V> ImportCausalConvWithState(NodeContext& c) {
  V x = c.In(0);
  const V w = c.In(1);
  const std::string activation = c.String("activation", "none");
  if (!c.ok()) return {};
  if (activation != "none" && activation != "silu" && activation != "swish") {
    c.Fail(InvalidArgument("Attribute 'activation' is '{}'; it must be none, silu or swish.",
                           activation));
    return {};
  }
  const std::vector<Expr> dims = c.Dims(x);
  const std::vector<int64_t> weights = c.ConstDims(w, "Input 'weight'");
  if (!c.ok()) return {};
  if (dims.size() != 3 || weights.size() != 3 || weights[1] != 1 || weights[2] < 1) {
    c.Fail(
        InvalidArgument("The input has {} and the weight dims [{}]; they need 3 and [channels, "
                        "1, k].",
                        Counted(dims.size(), "dimension"), Excerpt(weights)));
    return {};
  }
  const Expr kept = c.Const(weights[2] - 1);
  const V parts[] = {c.Has(3) ? c.In(3) : c.BroadcastTo(c.Like(x, 0), {dims[0], dims[1], kept}), x};
  x = weights[2] == 1 ? x : c.Concat(parts, 2);
  V y = c.Op("conv", {x, w},
             {{"strides", std::vector<int64_t>{1}},
              {"dilations", std::vector<int64_t>{1}},
              {"pads_low", std::vector<int64_t>{0}},
              {"pads_high", std::vector<int64_t>{0}},
              {"groups", weights[0]}});
  if (c.Has(2)) y = AddChannels(c, y, c.In(2));
  if (activation != "none") y = y * Sigmoid(y);
  return {y, c.SliceAxis(x, 2, dims[2], kept)};
}

// Exact in f64: products of 8-bit values, fewer than 2^37 of them.
V IntegerConvolve(NodeContext& c, V x, V x_zero, V w, V w_zero) {
  const auto centre = [&](V v, V zero, bool per_channel) {
    V wide = c.Cast(v, DType::kF64);
    if (!zero.valid() || !c.ok()) return wide;
    zero = c.Cast(zero, DType::kF64);
    if (per_channel && c.Rank(zero) == 1) {
      std::vector<Expr> dims(static_cast<size_t>(c.Rank(v)), c.Const(1));
      dims[0] = c.Dims(zero)[0];
      zero = c.ReshapeTo(zero, dims);
    }
    return wide - zero;
  };
  return c.Cast(Convolve(c, centre(x, x_zero, false), centre(w, w_zero, true)), DType::kI32);
}

std::vector<V> ImportConvInteger(NodeContext& c) {
  const V none = {&c, kNone};
  return {
      IntegerConvolve(c, c.In(0), c.Has(2) ? c.In(2) : none, c.In(1), c.Has(3) ? c.In(3) : none)};
}

std::vector<V> ImportQLinearConv(NodeContext& c) {
  V sum = IntegerConvolve(c, c.In(0), c.In(2), c.In(3), c.In(5));
  if (c.Has(8)) sum = AddChannels(c, sum, c.In(8));
  if (!c.ok()) return {};
  V w_scale = c.Cast(c.In(4), DType::kF32);
  if (c.Rank(w_scale) == 1) {
    std::vector<Expr> dims(static_cast<size_t>(c.Rank(sum)), c.Const(1));
    dims[1] = c.Dims(w_scale)[0];
    w_scale = c.ReshapeTo(w_scale, dims);
  }
  const V scale = c.Cast(c.In(1), DType::kF32) * w_scale / c.Cast(c.In(6), DType::kF32);
  const V zero = c.In(7);
  const V y = c.Unary("round_even", c.Cast(sum, DType::kF32) * scale) + c.Cast(zero, DType::kF32);
  return {c.Cast(y, c.DTypeOf(zero))};
}

std::vector<V> ImportConvTranspose(NodeContext& c) {
  const V x = c.In(0);
  const V w = c.In(1);
  const size_t n = SpatialRank(c, x);
  const std::vector<int64_t> size = KernelSize(c, w, n);
  if (!c.ok()) return {};
  Window window;
  window.size = size;
  window.strides = c.PerAxis("strides", n, 1, 1, kMaxWindow);
  window.dilations = c.PerAxis("dilations", n, 1, 1, kMaxWindow);
  std::vector<int64_t> extra = c.PerAxis("output_padding", n, 0, 0, kMaxWindow);
  const std::vector<int64_t> pads = c.PerAxis("pads", 2 * n, 0, -kMaxWindow, kMaxWindow);
  window.low.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  window.high.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  const std::string auto_pad = c.String("auto_pad", "NOTSET");
  const bool is_same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (auto_pad == "VALID") {
    window.low.assign(n, 0);
    window.high.assign(n, 0);
  } else if (c.HasAttribute("output_shape") || is_same) {
    const std::vector<int64_t> dims = c.ConstDims(x, "Input 'X' with output_shape or auto_pad");
    std::vector<int64_t> wanted = c.Ints("output_shape");
    if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (!c.ok()) return {};
    if (c.HasAttribute("output_shape") && wanted.size() != n) {
      c.Fail(InvalidArgument("Attribute 'output_shape' has {}; there are {} spatial axes.",
                             Counted(wanted.size(), "element"), n));
      return {};
    }
    for (size_t i = 0; i < n; ++i) {
      const int64_t out = wanted.empty() ? dims[i + 2] * window.strides[i] : wanted[i];
      if (out < 0 || out > kMaxWindow || dims[i + 2] > kMaxWindow) {
        c.Fail(OutOfRange("Attribute 'output_shape' holds {}; it must lie in [0, {}].", out,
                          kMaxWindow));
        return {};
      }
      const int64_t total = window.strides[i] * (dims[i + 2] - 1) + extra[i] +
                            (size[i] - 1) * window.dilations[i] + 1 - out;
      if (total < 0) {
        extra[i] -= total;
        window.low[i] = window.high[i] = 0;
      } else {
        window.low[i] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        window.high[i] = total - window.low[i];
      }
    }
  } else if (auto_pad != "NOTSET" && !auto_pad.empty()) {
    c.Fail(InvalidArgument(
        "Attribute 'auto_pad' is '{}'; it must be NOTSET, SAME_UPPER, SAME_LOWER or VALID.",
        auto_pad));
  }
  const V y = c.Op("conv_transpose", {x, w},
                   {{"strides", window.strides},
                    {"dilations", window.dilations},
                    {"pads_low", window.low},
                    {"pads_high", window.high},
                    {"output_padding", extra},
                    {"groups", c.Int("group", 1)}});
  return {c.Has(2) ? AddChannels(c, y, c.In(2)) : y};
}

// Extra padding at the high side for ceil_mode, so that the last partial window counts. A window
// that would start in the high padding is left out.
std::vector<int64_t> CeilExtra(NodeContext& c, V x, const Window& w) {
  std::vector<int64_t> extra(w.size.size(), 0);
  if (c.Int("ceil_mode", 0) == 0 || !c.ok()) return extra;
  const std::vector<Expr> dims = c.Dims(x);
  for (size_t i = 0; i < extra.size(); ++i) {
    if (w.strides[i] == 1) continue;
    const std::optional<int64_t> dim = c.exprs().AsConst(dims[i + 2]);
    if (!dim.has_value()) {
      c.Fail(Unimplemented("ceil_mode with stride {} needs a number as dim; it is {}.",
                           w.strides[i], c.exprs().Format(dims[i + 2])));
      return extra;
    }
    const int64_t reach = w.dilations[i] * (w.size[i] - 1) + 1;
    const int64_t span = *dim + w.low[i] + w.high[i] - reach;
    if (span < 0) continue;
    int64_t out = (span + w.strides[i] - 1) / w.strides[i] + 1;
    if ((out - 1) * w.strides[i] >= *dim + w.low[i]) --out;
    extra[i] = std::max<int64_t>(0, (out - 1) * w.strides[i] - span);
  }
  return extra;
}

std::vector<int64_t> PoolSize(NodeContext& c, V x) {
  const size_t n = SpatialRank(c, x);
  if (!c.ok()) return {};
  if (!c.HasAttribute("kernel_shape")) {
    c.Fail(InvalidArgument("Attribute 'kernel_shape' is missing."));
    return {};
  }
  return c.PerAxis("kernel_shape", n, 1, 1, kMaxWindow);
}

Attributes PoolAttributes(const Window& w) {
  return {{"window", w.size},
          {"strides", w.strides},
          {"dilations", w.dilations},
          {"pads_low", w.low},
          {"pads_high", w.high}};
}

void Widen(Window& w, const std::vector<int64_t>& extra) {
  for (size_t i = 0; i < extra.size(); ++i) w.high[i] += extra[i];
}

// Where the greatest element of each window is in x as one row of elements. The windows are
// gathered, which costs their size times the result.
V MaxPoolIndices(NodeContext& c, V x, const Window& w) {
  const std::vector<int64_t> dims = c.ConstDims(x, "The input of a MaxPool with indices");
  if (!c.ok()) return {&c, kNone};
  const size_t n = w.size.size();
  const bool is_column_major = c.Int("storage_order", 0) != 0;
  std::vector<int64_t> counts, strides(n, 1), stored(n, 1);
  int64_t pixels = 1, places = 1;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = w.dilations[i] * (w.size[i] - 1) + 1;
    const int64_t span = dims[i + 2] + w.low[i] + w.high[i] - reach;
    counts.push_back(span < 0 ? 0 : span / w.strides[i] + 1);
    if (pixels * places > kMaxWindow / std::max<int64_t>(1, dims[i + 2] * w.size[i]) ||
        dims[i + 2] > kMaxWindow) {
      return c.Fail(
          OutOfRange("The image times the window of a MaxPool with indices has more than {} "
                     "elements.",
                     kMaxWindow));
    }
    pixels *= dims[i + 2];
    places *= w.size[i];
  }
  for (size_t i = n; i-- > 1;) strides[i - 1] = strides[i] * dims[i + 2];
  for (size_t i = 1; i < n; ++i) stored[i] = stored[i - 1] * dims[i + 1];
  if (!is_column_major) stored = strides;
  // The places of all windows, [windows..., window...]: row-major, as stored, and whether inside.
  std::vector<Expr> shape = c.Consts(counts);
  for (const int64_t size : w.size) shape.push_back(c.Const(size));
  const V zero = c.Integer(DType::kI64, 0);
  V from = zero, shown = zero, inside = c.Number(DType::kBool, 1);
  int64_t windows = 1;
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int64_t>(i);
    const V at = c.Iota(DType::kI64, shape, axis) * static_cast<double>(w.strides[i]) +
                 c.Iota(DType::kI64, shape, axis + static_cast<int64_t>(n)) *
                     static_cast<double>(w.dilations[i]) -
                 static_cast<double>(w.low[i]);
    const V last = c.Integer(DType::kI64, dims[i + 2] - 1);
    inside = c.Binary("and", inside,
                      c.Binary("and", c.Binary("ge", at, zero), c.Binary("le", at, last)));
    const V safe = c.Binary("max", c.Binary("min", at, last), zero);
    from = from + safe * static_cast<double>(strides[i]);
    shown = shown + safe * static_cast<double>(stored[i]);
    windows *= counts[i];
  }
  const std::vector<Expr> rows = {c.Const(windows), c.Const(places)};
  from = c.ReshapeTo(from, rows);
  inside = c.ReshapeTo(inside, rows);
  const V flat = c.ReshapeTo(x, {c.Const(dims[0]), c.Const(dims[1]), c.Const(pixels)});
  const V values = c.Op("gather", {flat, from}, {{"axis", int64_t{2}}});
  // Padding never wins: of places that are as good the first one inside does.
  const DType dtype = c.DTypeOf(x);
  const V least = IsFloat(dtype)    ? c.Like(x, -HUGE_VAL)
                  : IsSigned(dtype) ? c.Integer(dtype, INT64_MIN >> (64 - BitWidth(dtype)))
                                    : c.Like(x, 0);
  const V best = c.Op("argmax", {c.Select(inside, values, least)},
                      {{"axis", int64_t{3}}, {"keep_dims", int64_t{1}}});
  const std::vector<Expr> all = {c.Const(dims[0]), c.Const(dims[1]), rows[0], rows[1]};
  const V index =
      c.Squeeze(c.Op("gather_elements", {c.BroadcastTo(c.ReshapeTo(shown, rows), all), best},
                     {{"axis", int64_t{3}}}),
                {3});
  const std::vector<Expr> planes = {all[0], all[1], c.Const(1)};
  const V plane = c.Iota(DType::kI64, planes, 0) * static_cast<double>(dims[1]) +
                  c.Iota(DType::kI64, planes, 1);
  std::vector<Expr> out = {all[0], all[1]};
  for (const int64_t count : counts) out.push_back(c.Const(count));
  return c.ReshapeTo(index + plane * static_cast<double>(pixels), out);
}

std::vector<V> ImportMaxPool(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> size = PoolSize(c, x);
  if (!c.ok()) return {};
  Window w = ReadWindow(c, x, size);
  Widen(w, CeilExtra(c, x, w));
  if (c.WantsOutput(1)) return {c.Op("max_pool", {x}, PoolAttributes(w)), MaxPoolIndices(c, x, w)};
  return {c.Op("max_pool", {x}, PoolAttributes(w))};
}

// Counts the padding that the node asks for, but not what ceil_mode adds: so the former becomes a
// pad op.
V AveragePool(NodeContext& c, V x, Window w, bool counts_pads) {
  const std::vector<int64_t> extra = CeilExtra(c, x, w);
  const bool has_extra = std::any_of(extra.begin(), extra.end(), [](int64_t e) { return e != 0; });
  if (counts_pads && has_extra) {
    std::vector<Expr> low(2, c.Const(0));
    std::vector<Expr> high(2, c.Const(0));
    for (size_t i = 0; i < w.size.size(); ++i) {
      low.push_back(c.Const(w.low[i]));
      high.push_back(c.Const(w.high[i]));
      w.low[i] = w.high[i] = 0;
    }
    x = c.Op("pad", {x}, {{"low", low}, {"high", high}, {"mode", std::string("constant")}});
    counts_pads = false;
  }
  Widen(w, extra);
  Attributes attributes = PoolAttributes(w);
  attributes["count_include_pad"] = int64_t{counts_pads};
  return c.Op("avg_pool", {x}, std::move(attributes));
}

std::vector<V> ImportAveragePool(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> size = PoolSize(c, x);
  if (!c.ok()) return {};
  return {AveragePool(c, x, ReadWindow(c, x, size), c.Int("count_include_pad", 0) != 0)};
}

// |x|^p, and the root of a sum of such.
V Power(NodeContext& c, V x, int64_t p) {
  const V y = c.Unary("abs", x);
  if (p == 1) return y;
  return p == 2 ? x * x : c.Binary("pow", y, c.Like(x, static_cast<double>(p)));
}
V Root(NodeContext& c, V x, int64_t p) {
  if (p == 1) return x;
  return p == 2 ? c.Unary("sqrt", x) : c.Binary("pow", x, c.Like(x, 1.0 / static_cast<double>(p)));
}

std::vector<V> ImportLpPool(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> size = PoolSize(c, x);
  const int64_t p = c.Int("p", 2);
  if (!c.ok()) return {};
  double count = 1;
  for (const int64_t s : size) count *= static_cast<double>(s);
  Window w = ReadWindow(c, x, size);
  // A window's sum is its mean over all places times their number, so zeros in the padding do no
  // harm.
  Widen(w, CeilExtra(c, x, w));
  Attributes attributes = PoolAttributes(w);
  attributes["count_include_pad"] = int64_t{1};
  return {Root(c, c.Op("avg_pool", {Power(c, x, p)}, std::move(attributes)) * count, p)};
}

std::vector<int64_t> SpatialAxes(NodeContext& c, V x) {
  std::vector<int64_t> axes(SpatialRank(c, x));
  std::iota(axes.begin(), axes.end(), int64_t{2});
  return axes;
}

std::vector<V> ImportGlobalAveragePool(NodeContext& c) {
  const V x = c.In(0);
  return {c.Mean(x, SpatialAxes(c, x), true)};
}
std::vector<V> ImportGlobalMaxPool(NodeContext& c) {
  const V x = c.In(0);
  return {c.Reduce("reduce_max", x, SpatialAxes(c, x), true)};
}
std::vector<V> ImportGlobalLpPool(NodeContext& c) {
  const V x = c.In(0);
  const int64_t p = c.Int("p", 2);
  return {Root(c, c.Reduce("reduce_sum", Power(c, x, p), SpatialAxes(c, x), true), p)};
}

constexpr ImportRow kConvRows[] = {
    {"AveragePool", 7, 0, 1, 1, 1,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", ImportAveragePool},
    {"CausalConvWithState", 27, 0, 2, 4, 2, "activation", ImportCausalConvWithState},
    {"Conv", 1, 0, 2, 3, 1, "auto_pad dilations group kernel_shape pads strides", ImportConv},
    {"ConvInteger", 10, 0, 2, 4, 1, "auto_pad dilations group kernel_shape pads strides",
     ImportConvInteger},
    {"ConvTranspose", 1, 0, 2, 3, 1,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
     ImportConvTranspose,
     "an infinite weight that only a run tells gives NaN where its tap reads nothing"},
    {"GlobalAveragePool", 1, 0, 1, 1, 1, "", ImportGlobalAveragePool},
    {"GlobalLpPool", 2, 0, 1, 1, 1, "p", ImportGlobalLpPool},
    {"GlobalMaxPool", 1, 0, 1, 1, 1, "", ImportGlobalMaxPool},
    {"LpPool", 2, 0, 1, 1, 1, "auto_pad ceil_mode dilations kernel_shape p pads strides",
     ImportLpPool},
    {"MaxPool", 1, 0, 1, 1, 2,
     "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", ImportMaxPool,
     "indices of static shapes only"},
    {"QLinearConv", 10, 0, 8, 9, 1, "auto_pad dilations group kernel_shape pads strides",
     ImportQLinearConv},
};

}  // namespace

std::span<const ImportRow> ConvRows() { return kConvRows; }

}  // namespace halyard::onnx
