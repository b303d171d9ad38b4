// SPDX-License-Identifier: Apache-2.0
// N-dimensional convolutions, channels first. Bias is an add after them.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kConvAttributes[] = {
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"groups", AttributeKind::kInt, false, "Channel groups. Default 1."},
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

constexpr OpDef kOps[] = {
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
    },
};

}  // namespace

std::span<const OpDef> ConvolutionOps() { return kOps; }

}  // namespace halyard::graph
