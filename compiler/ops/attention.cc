// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kAttentionAttributes[] = {
    {"scale", AttributeKind::kFloat, true, "Multiplies the scores."},
    {"causal", AttributeKind::kInt, false, "1: query i sees keys up to i + (t - s). Default 0."},
};

constexpr OpDef kOps[] = {
    {
        .name = "attention",
        .doc = "Operands: q[b, h, s, d], k[b, g, t, d], v[b, g, t, e], and optionally "
               "mask (bool: false hides; or the dtype of q: added to the scaled "
               "scores), each dim of which is that of [b, h, s, t] or 1. h is a "
               "multiple of g; query head i uses key head i / (h / g). Result [b, h, "
               "s, e] = softmax(scale * q k^T + mask) v. A query that sees no key "
               "gives NaN. Softmax and sums of f16 and bf16 are in f32. Floats.",
        .traits = kTemplate,
        .min_operands = 3,
        .max_operands = 4,
        .attributes = kAttentionAttributes,
    },
};

}  // namespace

std::span<const OpDef> AttentionOps() { return kOps; }

}  // namespace halyard::graph
