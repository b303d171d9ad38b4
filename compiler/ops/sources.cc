// SPDX-License-Identifier: Apache-2.0
// Ops that make tensors from nothing but attributes, shapes and a seed.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kSymbolicAttributes[] = {
    {"values", AttributeKind::kExprs, true, "The elements, row-major."},
    {"shape", AttributeKind::kInts, true,
     "The dims of the result; their product is the number of values."},
    {"dtype", AttributeKind::kDType, true, "i32 or i64."},
};

constexpr AttributeDef kIotaAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
    {"axis", AttributeKind::kInt, true, "The axis whose index is the value."},
    {"dtype", AttributeKind::kDType, true, "Any integer or float type."},
};

constexpr AttributeDef kRandomAttributes[] = {
    {"shape", AttributeKind::kExprs, true, "The dims of the result."},
    {"stream", AttributeKind::kInt, false,
     "Tells apart the random ops that share a seed: the upper 64 bits of the "
     "counter. Default 0."},
};

constexpr OpDef kOps[] = {
    {
        .name = "constant",
        .doc = "The value of a stored constant. The node names it; there are no "
               "operands and attributes.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
    },
    {
        .name = "symbolic",
        .doc = "Integers computed from the symbols of the module, such as a dim or a "
               "product of dims. What remains of shape arithmetic after its "
               "propagation.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
        .attributes = kSymbolicAttributes,
    },
    {
        .name = "shape_of",
        .doc = "The dims of the operand, i64[rank].",
        .traits = kHostOnly,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "iota",
        .doc = "Each element is its index along the axis. Range and one-hot are made "
               "from it.",
        .traits = 0,
        .min_operands = 0,
        .max_operands = 0,
        .attributes = kIotaAttributes,
    },
    {
        .name = "random_bits",
        .doc = "u32 bits of Philox4x32-10. Operand: the seed, u64[] (the key, low word "
               "first). Element i is word i % 4 of the block with counter i / 4 (lower "
               "64 bits) and `stream` (upper 64 bits). Uniform and normal numbers are "
               "arithmetic on top.",
        .traits = 0,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kRandomAttributes,
    },
};

}  // namespace

std::span<const OpDef> SourceOps() { return kOps; }

}  // namespace halyard::graph
