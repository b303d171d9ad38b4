// SPDX-License-Identifier: Apache-2.0
// Resampling of grids.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kResizeAttributes[] = {
    {"sizes", AttributeKind::kExprs, true, "The dims of the result, for all axes."},
    {"mode", AttributeKind::kString, true, "\"nearest\", \"linear\" or \"cubic\"."},
    {"coordinates", AttributeKind::kString, false,
     "\"half_pixel\" (the default), \"half_pixel_symmetric\", "
     "\"pytorch_half_pixel\", \"align_corners\" or \"asymmetric\"."},
    {"rounding", AttributeKind::kString, false,
     "Of nearest: \"round_prefer_floor\" (the default), \"round_prefer_ceil\", "
     "\"floor\" or \"ceil\"."},
    {"cubic_coefficient", AttributeKind::kFloat, false, "Default -0.75."},
    {"exclude_outside", AttributeKind::kInt, false,
     "1 gives weight 0 to samples outside (cubic). Default 0."},
    {"scales", AttributeKind::kFloats, false,
     "The scale per axis used for coordinates; default: result dim / operand "
     "dim."},
};

constexpr OpDef kOps[] = {
    {
        .name = "resize",
        .doc = "Interpolates along each axis whose size changes, with the coordinate "
               "rules of ONNX Resize; samples outside repeat the edge. Floats; nearest "
               "takes every dtype.",
        .traits = kTemplate,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kResizeAttributes,
    },
};

}  // namespace

std::span<const OpDef> ResizeOps() { return kOps; }

}  // namespace halyard::graph
