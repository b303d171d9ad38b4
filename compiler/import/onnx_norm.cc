// SPDX-License-Identifier: Apache-2.0
// Normalisations as reductions and arithmetic. Narrow floats are computed in f32.
#include <numeric>

#include "base/quantity.h"

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {
namespace {

// A per-channel vector as [1, c, 1, ...].
V PerChannel(NodeContext& c, V v, V x) {
  if (!c.ok()) return v;
  if (c.Rank(v) != 1 || c.Rank(x) < 2) {
    return c.Fail(
        InvalidArgument("A channel parameter has {} and the input {}; they need 1 and at least 2.",
                        Counted(c.Rank(v), "dimension"), c.Rank(x)));
  }
  std::vector<Expr> dims(static_cast<size_t>(c.Rank(x)), c.Const(1));
  dims[1] = c.Dims(v)[0];
  return c.ReshapeTo(v, dims);
}

std::vector<int64_t> AxesFromTo(int64_t from, int64_t to) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(0, to - from)));
  std::iota(axes.begin(), axes.end(), from);
  return axes;
}

struct Moments {
  V centred;
  V mean;
  V inverse_deviation;
};

Moments Normalise(NodeContext& c, V x, const std::vector<int64_t>& axes, double epsilon) {
  const V mean = c.Mean(x, axes, true);
  const V centred = x - mean;
  const V variance = c.Mean(centred * centred, axes, true);
  return {centred, mean, c.Unary("rsqrt", variance + epsilon)};
}

std::vector<V> ImportBatchNormalization(NodeContext& c) {
  const V x = c.In(0);
  const double epsilon = c.Float("epsilon", 1e-5f);
  if (c.opset < 14 && c.WantsOutput(1)) {
    c.Fail(Unimplemented("Training mode is not supported before opset 14."));
    return {};
  }
  const DType wide = c.ComputeDType(x);
  V mean = c.Cast(c.In(3), wide);
  V variance = c.Cast(c.In(4), wide);
  V running_mean = {&c, kNone};
  V running_variance = {&c, kNone};
  if (c.Int("training_mode", 0) != 0) {
    // The statistics are those of the batch; the running ones take a part of them.
    if (c.ok() && c.Rank(x) < 2) {
      c.Fail(InvalidArgument("The input has {}; it must have at least 2.",
                             Counted(c.Rank(x), "dimension")));
      return {};
    }
    const double momentum = c.Float("momentum", 0.9f);
    std::vector<int64_t> axes = AxesFromTo(2, c.Rank(x));
    axes.insert(axes.begin(), 0);
    const V kept = c.Mean(c.Cast(x, wide), axes, true);
    const V centred = c.Cast(x, wide) - kept;
    const V batch_mean = c.ReshapeTo(kept, c.Dims(mean));
    const V batch_variance = c.Mean(centred * centred, axes, false);
    running_mean = c.Cast(mean * momentum + batch_mean * (1 - momentum), c.DTypeOf(c.In(3)));
    running_variance =
        c.Cast(variance * momentum + batch_variance * (1 - momentum), c.DTypeOf(c.In(4)));
    mean = batch_mean;
    variance = batch_variance;
  }
  if (c.opset < 9 && c.Int("spatial", 1) != 1) {
    c.Fail(Unimplemented("Attribute 'spatial' is 0; only statistics per channel are supported."));
    return {};
  }
  // One factor and one offset per channel, which fold when the parameters are constants.
  const V factor = c.Cast(c.In(1), wide) * c.Unary("rsqrt", variance + epsilon);
  const V offset = c.Cast(c.In(2), wide) - mean * factor;
  const V y = c.Cast(x, wide) * PerChannel(c, factor, x) + PerChannel(c, offset, x);
  return {c.Cast(y, c.DTypeOf(x)), running_mean, running_variance};
}

std::vector<V> ImportLayerNormalization(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", -1), c.Rank(x));
  (void)c.Int("stash_type", 1);
  const DType dtype = c.DTypeOf(x);
  const Moments m = Normalise(c, c.Cast(x, c.ComputeDType(x)), AxesFromTo(axis, c.Rank(x)),
                              c.Float("epsilon", 1e-5f));
  V y = c.Cast(m.centred * m.inverse_deviation, dtype) * c.In(1);
  if (c.Has(2)) y = y + c.In(2);
  return {y, m.mean, m.inverse_deviation};
}

V RmsNormalise(NodeContext& c, V x, int64_t axis, double epsilon) {
  const V wide = c.Cast(x, c.ComputeDType(x));
  const V square = c.Mean(wide * wide, AxesFromTo(axis, c.Rank(x)), true);
  return c.Cast(wide * c.Unary("rsqrt", square + epsilon), c.DTypeOf(x));
}

std::vector<V> ImportRmsNormalization(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", -1), c.Rank(x));
  return {RmsNormalise(c, x, axis, c.Float("epsilon", 1e-5f)) * c.In(1)};
}

std::vector<V> ImportInstanceNormalization(NodeContext& c) {
  const V x = c.In(0);
  const Moments m = Normalise(c, c.Cast(x, c.ComputeDType(x)), AxesFromTo(2, c.Rank(x)),
                              c.Float("epsilon", 1e-5f));
  const V y = c.Cast(m.centred * m.inverse_deviation, c.DTypeOf(x));
  return {y * PerChannel(c, c.In(1), x) + PerChannel(c, c.In(2), x)};
}

std::vector<V> ImportGroupNormalization(NodeContext& c) {
  const V x = c.In(0);
  const int64_t groups = c.Int("num_groups", 0);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  if (dims.size() < 2 || groups < 1 || !c.exprs().KnownMultipleOf(dims[1], groups)) {
    c.Fail(InvalidArgument("The {} channels do not divide into {} groups.",
                           dims.size() < 2 ? "missing" : c.exprs().Format(dims[1]), groups));
    return {};
  }
  // [n, groups, c / groups, spatial...]
  std::vector<Expr> split = dims;
  split[1] = c.exprs().FloorDiv(dims[1], c.Const(groups));
  split.insert(split.begin() + 1, c.Const(groups));
  const V wide = c.ReshapeTo(c.Cast(x, c.ComputeDType(x)), split);
  const Moments m = Normalise(c, wide, AxesFromTo(2, static_cast<int64_t>(split.size())),
                              c.Float("epsilon", 1e-5f));
  V y = c.Cast(m.centred * m.inverse_deviation, c.DTypeOf(x));
  if (c.opset < 21) {  // one scale and bias per group
    y = y * PerChannel(c, c.In(1), y) + PerChannel(c, c.In(2), y);
    return {c.ReshapeTo(y, dims)};
  }
  y = c.ReshapeTo(y, dims);
  return {y * PerChannel(c, c.In(1), x) + PerChannel(c, c.In(2), x)};
}

// Sums squares over a window of channels by pooling [n, 1, c, rest].
std::vector<V> ImportLrn(NodeContext& c) {
  const V x = c.In(0);
  const int64_t size = c.Int("size", 0);
  if (!c.ok()) return {};
  const std::vector<Expr> dims = c.Dims(x);
  if (dims.size() < 3 || size < 1) {
    c.Fail(InvalidArgument("The input has {} and size is {}; they need at least 3 and 1.",
                           Counted(dims.size(), "dimension"), size));
    return {};
  }
  Expr rest = c.Const(1);
  for (size_t i = 2; i < dims.size(); ++i) rest = c.exprs().Mul(rest, dims[i]);
  const V square = c.ReshapeTo(x * x, {dims[0], c.Const(1), dims[1], rest});
  using List = std::vector<int64_t>;
  const V mean = c.Op("avg_pool", {square},
                      {{"window", List{size, 1}},
                       {"strides", List{1, 1}},
                       {"dilations", List{1, 1}},
                       {"pads_low", List{(size - 1) / 2, 0}},
                       {"pads_high", List{size - 1 - (size - 1) / 2, 0}},
                       {"count_include_pad", int64_t{1}}});
  const V base = c.ReshapeTo(mean * c.Float("alpha", 1e-4f) + c.Float("bias", 1), dims);
  return {x / c.Binary("pow", base, c.Like(x, c.Float("beta", 0.75)))};
}

std::vector<V> ImportLpNormalization(NodeContext& c) {
  const V x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", -1), c.Rank(x));
  const int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) c.Fail(InvalidArgument("Attribute 'p' is {}; it must be 1 or 2.", p));
  V norm = p == 1 ? c.Reduce("reduce_sum", c.Unary("abs", x), {axis}, true)
                  : c.Unary("sqrt", c.Reduce("reduce_sum", x * x, {axis}, true));
  // A norm of 0 gives zeros, not NaN.
  norm = c.Select(c.Binary("eq", norm, c.Like(norm, 0)), c.Like(norm, 1), norm);
  return {x / norm};
}

std::vector<V> ImportMeanVarianceNormalization(NodeContext& c) {
  const V x = c.In(0);
  const std::vector<int64_t> axes = c.Axes(c.Ints("axes", {0, 2, 3}), c.Rank(x));
  const V centred = x - c.Mean(x, axes, true);
  const V deviation = c.Unary("sqrt", c.Mean(centred * centred, axes, true));
  return {centred / (deviation + 1e-9)};
}

// com.microsoft: normalises x + skip (+ bias); output 3 is that sum.
std::vector<V> ImportSkipLayerNormalization(NodeContext& c) {
  const bool is_simplified = c.node.op_type == "SkipSimplifiedLayerNormalization";
  const size_t bias_input = is_simplified ? 3 : 4;
  V sum = c.In(0) + c.In(1);
  if (c.Has(bias_input)) sum = sum + c.In(bias_input);
  const double epsilon = c.Float("epsilon", 1e-12f);
  const V none = {&c, kNone};
  if (is_simplified) {
    return {RmsNormalise(c, sum, c.Rank(sum) - 1, epsilon) * c.In(2), none, none, sum};
  }
  const Moments m = Normalise(c, c.Cast(sum, c.ComputeDType(sum)),
                              AxesFromTo(c.Rank(sum) - 1, c.Rank(sum)), epsilon);
  V y = c.Cast(m.centred * m.inverse_deviation, c.DTypeOf(sum)) * c.In(2);
  if (c.Has(3)) y = y + c.In(3);
  return {y, m.mean, m.inverse_deviation, sum};
}

constexpr ImportRow kNormRows[] = {
    {"BatchNormalization", 7, 0, 5, 5, 5, "epsilon momentum spatial training_mode",
     ImportBatchNormalization, "training mode from opset 14"},
    {"GroupNormalization", 18, 0, 3, 3, 1, "epsilon num_groups stash_type",
     ImportGroupNormalization},
    {"InstanceNormalization", 6, 0, 3, 3, 1, "epsilon", ImportInstanceNormalization},
    {"LRN", 1, 0, 1, 1, 1, "alpha beta bias size", ImportLrn},
    // ONNX Runtime's models use it from opset 1 on.
    {"LayerNormalization", 1, 0, 2, 3, 3, "axis epsilon stash_type", ImportLayerNormalization},
    {"LpNormalization", 1, 0, 1, 1, 1, "axis p", ImportLpNormalization},
    {"MeanVarianceNormalization", 9, 0, 1, 1, 1, "axes", ImportMeanVarianceNormalization},
    {"RMSNormalization", 23, 0, 2, 2, 1, "axis epsilon stash_type", ImportRmsNormalization},
    {"SimplifiedLayerNormalization", 1, 0, 2, 2, 1, "axis epsilon stash_type",
     ImportRmsNormalization},
};

constexpr ImportRow kMicrosoftNormRows[] = {
    {"SkipLayerNormalization", 1, 0, 3, 5, 4, "epsilon", ImportSkipLayerNormalization},
    {"SkipSimplifiedLayerNormalization", 1, 0, 3, 4, 4, "epsilon", ImportSkipLayerNormalization},
};

}  // namespace

std::span<const ImportRow> NormRows() { return kNormRows; }
std::span<const ImportRow> MicrosoftNormRows() { return kMicrosoftNormRows; }

}  // namespace halyard::onnx
