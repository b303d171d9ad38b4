// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of two operands of one type, which is the type of the result.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr OpDef kOps[] = {
    {
        .name = "add",
        .doc = "a + b. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "sub",
        .doc = "a - b. Integers and floats.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "mul",
        .doc = "a * b. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "div",
        .doc = "a / b. Integers truncate towards zero; x / 0 is 0 and the least "
               "integer / -1 is itself.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "rem",
        .doc = "Remainder of the truncating division, with the sign of a; x rem 0 is 0 "
               "for integers and NaN for floats (C fmod).",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "pow",
        .doc = "a to the power b. Floats as C pow; integers wrap, and a negative "
               "exponent gives the truncated quotient (0, 1 or -1; 0 for base 0).",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "min",
        .doc = "The lesser; NaN when an operand is NaN. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "max",
        .doc = "The greater; NaN when an operand is NaN. Integers and floats.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "and",
        .doc = "Logical and of bool, bitwise and of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "or",
        .doc = "Logical or of bool, bitwise or of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "xor",
        .doc = "Exclusive or of bool or of the bits of integers.",
        .traits = kElementwise | kCommutative,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "shl",
        .doc = "a << b; 0 when b is negative or not less than the width. Integers.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
    {
        .name = "shr",
        .doc = "a >> b, arithmetic for signed types; 0 (signed: the sign, 0 or -1) "
               "when b is negative or not less than the width. Integers.",
        .traits = kElementwise,
        .min_operands = 2,
        .max_operands = 2,
    },
};

}  // namespace

std::span<const OpDef> BinaryOps() { return kOps; }

}  // namespace halyard::graph
