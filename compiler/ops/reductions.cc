// SPDX-License-Identifier: Apache-2.0
// Reductions and scans along axes. The order of combination is free; f16 and bf16 accumulate in
// f32.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kReduceAttributes[] = {
    {"axes", AttributeKind::kInts, true,
     "Distinct axes in ascending order, each in [0, rank). Empty: nothing is "
     "reduced."},
    {"keep_dims", AttributeKind::kInt, false, "1 keeps the reduced axes with size 1. Default 0."},
};

constexpr AttributeDef kArgAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank); its dim is at least 1."},
    {"keep_dims", AttributeKind::kInt, false, "1 keeps the axis with size 1. Default 0."},
    {"select_last", AttributeKind::kInt, false,
     "1 takes the last of equal elements instead of the first. Default 0."},
};

constexpr AttributeDef kCumsumAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"exclusive", AttributeKind::kInt, false, "1 leaves the element itself out. Default 0."},
    {"reverse", AttributeKind::kInt, false, "1 runs from the end. Default 0."},
};

constexpr OpDef kOps[] = {
    {
        .name = "reduce_sum",
        .doc = "Sum; 0 of nothing. Integers wrap.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "reduce_prod",
        .doc = "Product; 1 of nothing. Integers wrap.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "reduce_max",
        .doc = "Greatest; NaN when one is NaN; of nothing -inf or the least integer.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "reduce_min",
        .doc = "Least; NaN when one is NaN; of nothing +inf or the greatest integer.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "reduce_any",
        .doc = "Whether one bool is true; false of nothing.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "reduce_all",
        .doc = "Whether all bools are true; true of nothing.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kReduceAttributes,
    },
    {
        .name = "argmax",
        .doc = "Index (i64) of the greatest element; NaN counts as the greatest.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kArgAttributes,
    },
    {
        .name = "argmin",
        .doc = "Index (i64) of the least element; NaN counts as the least.",
        .traits = kReduction,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kArgAttributes,
    },
    {
        .name = "cumsum",
        .doc = "Running sum along an axis. Integers wrap.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kCumsumAttributes,
    },
};

}  // namespace

std::span<const OpDef> ReductionOps() { return kOps; }

}  // namespace halyard::graph
