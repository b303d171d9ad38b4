// SPDX-License-Identifier: Apache-2.0
// Ops that move or repeat elements and compute nothing.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kShapeAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
};

constexpr AttributeDef kTransposeAttributes[] = {
    {"perm", AttributeKind::kInts, true, "Result axis i is operand axis perm[i]."},
};

constexpr AttributeDef kSliceAttributes[] = {
    {"starts", AttributeKind::kExprs, true, "The first index per axis, one for every axis."},
    {"sizes", AttributeKind::kExprs, true, "The dims of the result."},
    {"steps", AttributeKind::kInts, true,
     "The step per axis, not 0; negative steps walk backwards from the "
     "start."},
};

constexpr AttributeDef kPadAttributes[] = {
    {"low", AttributeKind::kExprs, true, "Elements put before, per axis; at least 0."},
    {"high", AttributeKind::kExprs, true, "Elements put after, per axis; at least 0."},
    {"mode", AttributeKind::kString, false,
     "\"constant\" (the default), \"edge\", \"reflect\" (without the edge) or "
     "\"wrap\"."},
};

constexpr AttributeDef kConcatAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
};

constexpr OpDef kOps[] = {
    {
        .name = "broadcast",
        .doc = "Repeats dims of size 1. The operand's dims align with the last dims of "
               "the shape; each is 1 or the same; missing leading dims count as 1.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kShapeAttributes,
    },
    {
        .name = "reshape",
        .doc = "The same elements in row-major order under another shape of equal "
               "count.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kShapeAttributes,
    },
    {
        .name = "transpose",
        .doc = "Permutes the axes.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kTransposeAttributes,
    },
    {
        .name = "slice",
        .doc = "result[i...] = x[starts + i * steps], for i below sizes. Every index "
               "read must exist; clamping is the importer's work.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kSliceAttributes,
    },
    {
        .name = "pad",
        .doc = "Surrounds the operand. Operands: x, and in mode constant optionally "
               "the scalar value (default 0). Reflect needs pads below the dim.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = 2,
        .attributes = kPadAttributes,
    },
    {
        .name = "concat",
        .doc = "Joins operands of one dtype along an axis; the other dims are equal.",
        .traits = kView,
        .min_operands = 1,
        .max_operands = -1,
        .attributes = kConcatAttributes,
    },
};

}  // namespace

std::span<const OpDef> ViewOps() { return kOps; }

}  // namespace halyard::graph
