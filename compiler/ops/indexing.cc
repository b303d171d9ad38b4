// SPDX-License-Identifier: Apache-2.0
// Reads and writes at indices that are data. Indices are i32 or i64; a negative one counts from the
// end; one outside [-dim, dim) is an error at run time.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kGatherAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
};

constexpr AttributeDef kGatherNdAttributes[] = {
    {"batch_dims", AttributeKind::kInt, false, "Leading axes shared by x and indices. Default 0."},
};

constexpr AttributeDef kScatterElementsAttributes[] = {
    {"axis", AttributeKind::kInt, true, "In [0, rank)."},
    {"reduction", AttributeKind::kString, false,
     "\"none\" (the default: the last update in row-major order wins), \"add\", "
     "\"mul\", \"min\" or \"max\"."},
};

constexpr AttributeDef kScatterNdAttributes[] = {
    {"reduction", AttributeKind::kString, false, "As in scatter_elements."},
};

constexpr OpDef kOps[] = {
    {
        .name = "gather",
        .doc = "Operands: x, indices. result[a..., j..., b...] = x[a..., "
               "indices[j...], b...], where a are the axes before `axis` and b those "
               "after it.",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherAttributes,
    },
    {
        .name = "gather_elements",
        .doc = "Operands: x, indices of the same rank. result[i...] = x[i... with "
               "indices[i...] at `axis`]; the shape is that of indices, whose other "
               "dims do not exceed x's.",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherAttributes,
    },
    {
        .name = "gather_nd",
        .doc = "Operands: x, indices[batch..., j..., k]. The last dim holds k "
               "coordinates into the axes of x after the batch axes; the result is "
               "[batch..., j..., rest of x].",
        .traits = 0,
        .min_operands = 2,
        .max_operands = 2,
        .attributes = kGatherNdAttributes,
    },
    {
        .name = "scatter_elements",
        .doc = "Operands: x, indices, updates (the shape of indices). A copy of x in "
               "which element [i... with indices[i...] at `axis`] is combined with "
               "updates[i...].",
        .traits = 0,
        .min_operands = 3,
        .max_operands = 3,
        .attributes = kScatterElementsAttributes,
    },
    {
        .name = "scatter_nd",
        .doc = "Operands: x, indices[j..., k], updates[j..., rest of x]. A copy of x "
               "in which the slice at the k coordinates is combined with the update.",
        .traits = 0,
        .min_operands = 3,
        .max_operands = 3,
        .attributes = kScatterNdAttributes,
    },
};

}  // namespace

std::span<const OpDef> IndexingOps() { return kOps; }

}  // namespace halyard::graph
