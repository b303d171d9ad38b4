// SPDX-License-Identifier: Apache-2.0
// Ops that order or select elements by value.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kSortAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"descending", AttributeKind::kInt, false, "1: greatest first. Default 0."},
};

constexpr AttributeDef kTopkAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"k", AttributeKind::kExprs, true, "One expression: how many; at most the dim."},
    {"largest", AttributeKind::kInt, false, "0 takes the least. Default 1."},
};

constexpr AttributeDef kNonzeroAttributes[] = {
    {"count", AttributeKind::kExprs, true,
     "One expression: a dim symbol of its own, bound to the number found."},
};

constexpr OpDef kOps[] = {
    {
        .name = "sort",
        .doc = "Results: the values in order along the axis, and their indices (i64). "
               "Stable; NaN is the greatest. Integers and floats.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kSortAttributes,
    },
    {
        .name = "topk",
        .doc = "Results: the k greatest (or least) values along the axis in order, and "
               "their indices (i64). The first of equal elements comes first; NaN is "
               "the greatest.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kTopkAttributes,
    },
    {
        .name = "nonzero",
        .doc = "i64[rank, count]: the indices of the elements that are not 0, in row- "
               "major order. The count is data, so the result's dim is a symbol that "
               "running the node binds.",
        .traits = 0,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kNonzeroAttributes,
    },
};

}  // namespace

std::span<const OpDef> OrderingOps() { return kOps; }

}  // namespace halyard::graph
