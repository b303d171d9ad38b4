// SPDX-License-Identifier: Apache-2.0
// Windowed reductions over [n, c, spatial...].
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kMaxPoolAttributes[] = {
    {"window", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
};

constexpr AttributeDef kAvgPoolAttributes[] = {
    {"window", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"strides", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"pads_low", AttributeKind::kInts, true, "Elements before, per spatial axis."},
    {"pads_high", AttributeKind::kInts, true, "Elements after, per spatial axis."},
    {"dilations", AttributeKind::kInts, true, "Per spatial axis, at least 1."},
    {"count_include_pad", AttributeKind::kInt, false,
     "1 divides by the whole window, 0 by the elements inside the operand. "
     "Default 0."},
};

constexpr OpDef kOps[] = {
    {
        .name = "max_pool",
        .doc = "Greatest element of each window; padding never wins; NaN wins. Result "
               "dims as in conv. Rounding up is more high padding. Floats and "
               "integers.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kMaxPoolAttributes,
    },
    {
        .name = "avg_pool",
        .doc = "Mean of each window. Result dims as in conv. Floats.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kAvgPoolAttributes,
    },
};

}  // namespace

std::span<const OpDef> PoolingOps() { return kOps; }

}  // namespace halyard::graph
