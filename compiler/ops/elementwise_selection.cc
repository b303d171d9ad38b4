// SPDX-License-Identifier: Apache-2.0
// Comparison, selection and conversion, element by element.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kToAttributes[] = {
    {"dtype", AttributeKind::kDType, true, "The dtype of the result."},
};

constexpr OpDef kOps[] = {
    {
        .name = "eq",
        .doc = "a == b, bool. Any dtype; false when an operand is NaN.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "ne",
        .doc = "a != b, bool. Any dtype; true when an operand is NaN.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "lt",
        .doc = "a < b, bool. Integers and floats; false when an operand is NaN.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "le",
        .doc = "a <= b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "gt",
        .doc = "a > b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "ge",
        .doc = "a >= b, bool. As lt.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "select",
        .doc = "a where the condition (bool) is true, b elsewhere; all three have one "
               "shape.",
        .traits = kElementwise,
        .min_operands = 3,
        .max_operands = 3,
    },
    {
        .name = "cast",
        .doc = "Converts values. Float to integer truncates and saturates, NaN becomes "
               "0; integer to integer keeps the low bits; anything to bool is != 0; "
               "bool gives 0 or 1; to a float rounds to nearest even.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kToAttributes,
    },
    {
        .name = "bitcast",
        .doc = "The same bits as another dtype of equal width.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
        .attributes = kToAttributes,
    },
};

}  // namespace

std::span<const OpDef> SelectionOps() { return kOps; }

}  // namespace halyard::graph
