// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of one operand; the result has the type of the operand.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr OpDef kOps[] = {
    {
        .name = "neg",
        .doc = "-x; integers wrap. Signed integers and floats.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "abs",
        .doc = "|x|; the least integer stays itself. Integers and floats.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "not",
        .doc = "Logical complement of bool, bitwise complement of integers.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "sqrt",
        .doc = "Square root; NaN below 0. Floats, as all that follow.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "rsqrt",
        .doc = "1 / sqrt(x); +inf at +0.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "exp",
        .doc = "e to the power x.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "log",
        .doc = "Natural logarithm; NaN below 0, -inf at 0.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "sin",
        .doc = "Sine of radians.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "cos",
        .doc = "Cosine of radians.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "tan",
        .doc = "Tangent of radians.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "asin",
        .doc = "Arc sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "acos",
        .doc = "Arc cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "atan",
        .doc = "Arc tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "sinh",
        .doc = "Hyperbolic sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "cosh",
        .doc = "Hyperbolic cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "tanh",
        .doc = "Hyperbolic tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "asinh",
        .doc = "Inverse hyperbolic sine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "acosh",
        .doc = "Inverse hyperbolic cosine.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "atanh",
        .doc = "Inverse hyperbolic tangent.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "erf",
        .doc = "The Gauss error function.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "floor",
        .doc = "Rounds towards minus infinity.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "ceil",
        .doc = "Rounds towards plus infinity.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "trunc",
        .doc = "Rounds towards zero.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
    {
        .name = "round_even",
        .doc = "Rounds to the nearest integer, ties to even.",
        .traits = kElementwise,
        .min_operands = 1,
        .max_operands = 1,
    },
};

}  // namespace

std::span<const OpDef> UnaryOps() { return kOps; }

}  // namespace halyard::graph
