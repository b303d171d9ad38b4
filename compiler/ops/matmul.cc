// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kMatmulAttributes[] = {
    {"transpose_a", AttributeKind::kInt, false, "1: a is [..., k, m]. Default 0."},
    {"transpose_b", AttributeKind::kInt, false, "1: b is [..., n, k]. Default 0."},
};

constexpr OpDef kOps[] = {
    {
        .name = "matmul",
        .doc = "result[..., i, j] = sum over l of a[..., i, l] * b[..., l, j]. Rank at "
               "least 2; the batch dims are equal, or one operand has rank 2 and "
               "serves all batches. Floats and integers of one dtype (integers wrap; "
               "f16 and bf16 accumulate in f32).",
        .traits = kTemplate,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kMatmulAttributes,
    },
};

}  // namespace

std::span<const OpDef> MatmulOps() { return kOps; }

}  // namespace halyard::graph
