// SPDX-License-Identifier: Apache-2.0
// N-dimensional convolutions, channels first. Bias is an add after them.
#include <algorithm>

#include "compiler/ops/families.h"
#include "compiler/ops/reference.h"
#include "compiler/ops/shape_rules.h"
#include "compiler/ops/windows.h"

namespace halyard::graph {
namespace {

// Both convolutions: x[n, c, spatial...] of rank 3 or more, w of the same rank, floats of one
// dtype, and the channels divided by the groups.
Result<int64_t> CheckConvolution(const InferContext& context, size_t grouped_axis) {
  HY_TRY(RequireDType(context, 0, IsFloat(context.operand(0).type.dtype), "floats"));
  HY_TRY(RequireSameDType(context, 0, 1));
  HY_TRY(RequireRank(context, 0, 3, 8));
  const size_t rank = context.operand(0).type.dims.size();
  HY_TRY(RequireRank(context, 1, rank, rank));
  const int64_t groups = IntOr(context.node, "groups", 1);
  if (groups < 1 || groups > INT32_MAX) {
    return InvalidArgument("Attribute 'groups' of {} is {}; it lies in [1, 2^31)",
                           context.node.op->name, groups);
  }
  const Expr channels = context.operand(grouped_axis == 0 ? 1 : 0).type.dims[grouped_axis];
  const std::optional<int64_t> count = context.module.exprs.AsConst(channels);
  if (count && *count % groups != 0) {
    return InvalidArgument("{} channels do not divide into {} groups", *count, groups);
  }
  return groups;
}

Result<std::vector<Value>> InferConv(const InferContext& context) {
  HY_ASSIGN(const int64_t groups, CheckConvolution(context, 0));
  ExprArena& exprs = context.module.exprs;
  const std::vector<Expr>& x = context.operand(0).type.dims;
  const std::vector<Expr>& w = context.operand(1).type.dims;
  if (!AssumeEqual(context, x[1], exprs.Mul(w[1], exprs.Const(groups)))) {
    return InvalidArgument("{} does not suit {} with {} groups: the channels differ",
                           DescribeOperand(context, 1), DescribeOperand(context, 0), groups);
  }
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context, x.size() - 2, true));
  std::vector<Expr> dims = {x[0], w[0]};
  for (size_t i = 2; i < x.size(); ++i) {
    HY_ASSIGN(const Expr count, WindowCount(context, x[i], w[i], windows, i - 2));
    dims.push_back(count);
  }
  return OneResult(context.operand(0).type.dtype, std::move(dims));
}

Result<std::vector<Tensor>> EvaluateConv(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  const Tensor& w = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context.node));
  const int64_t groups = IntOr(context.node, "groups", 1);
  const int64_t channels = w.dims[1];
  const int64_t outputs_per_group = std::max<int64_t>(1, w.dims[0] / groups);
  if (x.dims[1] != channels * groups || w.dims[0] % groups != 0) {
    return InvalidArgument("conv of {} channels with weights for {} times {} (node '{}').",
                           x.dims[1], groups, channels, context.node.name);
  }
  const std::vector<int64_t> x_strides = RowMajorStrides(x.dims);
  const std::vector<int64_t> w_strides = RowMajorStrides(w.dims);
  const std::vector<int64_t> window(w.dims.begin() + 1, w.dims.end());  // c, spatial...
  int64_t at = 0;
  HY_TRY(ForEachIndex(result.dims, [&](const std::vector<int64_t>& to) {
    const int64_t first_channel = to[1] / outputs_per_group * channels;
    double sum = 0;
    Status status = ForEachIndex(window, [&](const std::vector<int64_t>& k) {
      int64_t x_at = to[0] * x_strides[0] + (first_channel + k[0]) * x_strides[1];
      for (size_t i = 1; i < k.size(); ++i) {
        const int64_t position = to[i + 1] * windows.strides[i - 1] +
                                 k[i] * windows.dilations[i - 1] - windows.pads_low[i - 1];
        if (position < 0 || position >= x.dims[i + 1]) return OkStatus();
        x_at += position * x_strides[i + 1];
      }
      int64_t w_at = to[1] * w_strides[0];
      for (size_t i = 0; i < k.size(); ++i) w_at += k[i] * w_strides[i + 1];
      sum += LoadFloat(x, x_at) * LoadFloat(w, w_at);
      return OkStatus();
    });
    StoreFloat(result, at++, sum);
    return status;
  }));
  return OneTensor(std::move(result));
}

Result<std::vector<Value>> InferConvTranspose(const InferContext& context) {
  HY_ASSIGN(const int64_t groups, CheckConvolution(context, 1));
  ExprArena& exprs = context.module.exprs;
  const std::vector<Expr>& x = context.operand(0).type.dims;
  const std::vector<Expr>& w = context.operand(1).type.dims;
  if (!AssumeEqual(context, x[1], w[0])) {
    return InvalidArgument("{} does not suit {}: the channels differ", DescribeOperand(context, 1),
                           DescribeOperand(context, 0));
  }
  const size_t spatial = x.size() - 2;
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context, spatial, true));
  std::vector<int64_t> extra(spatial, 0);
  if (context.node.attributes.count("output_padding") != 0) {
    HY_ASSIGN(extra, IntsPerAxis(context, "output_padding", spatial, 0));
  }
  std::vector<Expr> dims = {x[0], exprs.Mul(w[1], exprs.Const(groups))};
  for (size_t i = 0; i < spatial; ++i) {
    const Expr one = exprs.Const(1);
    const Expr spread = exprs.Mul(exprs.Sub(x[i + 2], one), exprs.Const(windows.strides[i]));
    const Expr reach = exprs.Mul(exprs.Sub(w[i + 2], one), exprs.Const(windows.dilations[i]));
    const Expr rest = exprs.Const(1 + extra[i] - windows.pads_low[i] - windows.pads_high[i]);
    dims.push_back(exprs.Add(exprs.Add(spread, reach), rest));
  }
  return OneResult(context.operand(0).type.dtype, std::move(dims));
}

Result<std::vector<Tensor>> EvaluateConvTranspose(const EvalContext& context) {
  const Tensor& x = context.operands[0];
  const Tensor& w = context.operands[1];
  HY_ASSIGN(Tensor result, MakeResult(context));
  HY_ASSIGN(const WindowAttributes windows, WindowsOf(context.node));
  const int64_t groups = IntOr(context.node, "groups", 1);
  if (x.dims[1] != w.dims[0] || x.dims[1] % groups != 0) {
    return InvalidArgument("conv_transpose of {} channels with weights for {} (node '{}').",
                           x.dims[1], w.dims[0], context.node.name);
  }
  const int64_t channels_per_group = std::max<int64_t>(1, x.dims[1] / groups);
  const std::vector<int64_t> out_strides = RowMajorStrides(result.dims);
  const std::vector<int64_t> w_strides = RowMajorStrides(w.dims);
  const std::vector<int64_t> window(w.dims.begin() + 1, w.dims.end());  // m / groups, spatial...
  std::vector<double> sums(static_cast<size_t>(result.elements()), 0.0);
  int64_t at = 0;
  HY_TRY(ForEachIndex(x.dims, [&](const std::vector<int64_t>& from) {
    const double value = LoadFloat(x, at++);
    const int64_t first_output = from[1] / channels_per_group * w.dims[1];
    return ForEachIndex(window, [&](const std::vector<int64_t>& k) {
      int64_t to = from[0] * out_strides[0] + (first_output + k[0]) * out_strides[1];
      for (size_t i = 1; i < k.size(); ++i) {
        const int64_t position = from[i + 1] * windows.strides[i - 1] +
                                 k[i] * windows.dilations[i - 1] - windows.pads_low[i - 1];
        if (position < 0 || position >= result.dims[i + 1]) return OkStatus();
        to += position * out_strides[i + 1];
      }
      int64_t w_at = from[1] * w_strides[0];
      for (size_t i = 0; i < k.size(); ++i) w_at += k[i] * w_strides[i + 1];
      sums[static_cast<size_t>(to)] += value * LoadFloat(w, w_at);
      return OkStatus();
    });
  }));
  for (size_t i = 0; i < sums.size(); ++i) StoreFloat(result, static_cast<int64_t>(i), sums[i]);
  return OneTensor(std::move(result));
}

constexpr AttributeDef kConvAttributes[] = {
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"groups", AttributeKind::kInt, false, "Channel groups. Default 1."},
    {"filled_channels", AttributeKind::kInt, false,
     "How many channels at the end are zeros that stand there for alignment; what is counted as "
     "the work of the model leaves them out. Default 0."},
};

constexpr AttributeDef kConvTransposeAttributes[] = {
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"output_padding", AttributeKind::kInts, false,
     "Added to the high side of the result, per spatial axis. Default 0."},
    {"groups", AttributeKind::kInt, false, "Channel groups. Default 1."},
};

constexpr OpCase kConvCases[] = {
    {"f32[1, 1, 3, 3]{0, 1, 2, 3, 4, 5, 6, 7, 8}; f32[1, 1, 2, 2]{1, 1, 1, 1}",
     "strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], dilations = [1, 1]",
     "f32[1, 1, 2, 2]{8, 12, 20, 24}"},
    {"f32[1, 1, 3]{1, 2, 3}; f32[1, 1, 3]{1, 10, 100}",
     "strides = [2], pads_low = [1], pads_high = [1], dilations = [1]", "f32[1, 1, 2]{210, 32}"},
    {"f32[1, 2, 2]{1, 2, 3, 4}; f32[2, 1, 1]{10, 100}",
     "strides = [1], pads_low = [0], pads_high = [0], dilations = [1], groups = 2",
     "f32[1, 2, 2]{10, 20, 300, 400}"},
    {"f32[1, 1, 5]{1, 2, 3, 4, 5}; f32[1, 1, 2]{1, 1}",
     "strides = [1], pads_low = [0], pads_high = [0], dilations = [3]", "f32[1, 1, 2]{5, 7}"},
};

constexpr OpCase kConvTransposeCases[] = {
    {"f32[1, 1, 2]{1, 2}; f32[1, 1, 3]{1, 10, 100}",
     "strides = [2], pads_low = [0], pads_high = [0], dilations = [1]",
     "f32[1, 1, 5]{1, 10, 102, 20, 200}"},
    {"f32[1, 1, 2]{1, 2}; f32[1, 1, 3]{1, 10, 100}",
     "strides = [2], pads_low = [1], pads_high = [1], dilations = [1], output_padding = [1]",
     "f32[1, 1, 4]{10, 102, 20, 200}"},
    {"f32[1, 1, 1]{2}; f32[1, 2, 2]{1, 2, 3, 4}",
     "strides = [1], pads_low = [0], pads_high = [0], dilations = [1]", "f32[1, 2, 2]{2, 4, 6, 8}"},
};

constexpr OpDef kConvolutionOps[] = {
    {
        .name = "conv",
        .doc = "Operands: x[n, c, spatial...], w[m, c / groups, window...]. Cross- "
               "correlation with zero padding: result[n, m, floor((d + low + high - "
               "dilation * (window - 1) - 1) / stride) + 1 ...]. Negative pads crop. "
               "Floats.",
        .traits = kTemplate,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kConvAttributes,
        .infer = InferConv,
        .evaluate = EvaluateConv,
        .cases = kConvCases,
    },
    {
        .name = "conv_transpose",
        .doc = "Operands: x[n, c, spatial...], w[c, m / groups, window...]. The "
               "gradient of conv by its input: result dim = (d - 1) * stride + "
               "dilation * (window - 1) + 1 + output_padding - low - high. Floats.",
        .traits = kTemplate,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kConvTransposeAttributes,
        .infer = InferConvTranspose,
        .evaluate = EvaluateConvTranspose,
        .cases = kConvTransposeCases,
    },
};

}  // namespace

std::span<const OpDef> ConvolutionOps() { return kConvolutionOps; }

}  // namespace halyard::graph
