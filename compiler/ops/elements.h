// SPDX-License-Identifier: Apache-2.0
// Elements: how integer values that feed shapes are followed through ops as expressions. A rule
// returns nothing where the elements cannot be known; it never guesses. 64-bit arithmetic on two
// constants wraps as the op does; a symbolic element is taken to fit its dtype.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace halyard::graph {

using Elements = std::optional<std::vector<Expr>>;

inline constexpr int64_t kMaxElements = 64;

// The number of elements of a shape when it is constant and at most kMaxElements.
std::optional<int64_t> FewElements(const ExprArena& exprs, const std::vector<Expr>& dims);

// One element of a unary, binary, comparison op (by its name) of `dtype`.
std::optional<Expr> ElementOf(ExprArena& exprs, std::string_view op, DType dtype, Expr a);
std::optional<Expr> ElementOf(ExprArena& exprs, std::string_view op, DType dtype, Expr a, Expr b);
// The value of a constant after storing it in `dtype` (low bits; bool: != 0).
int64_t WrapTo(DType dtype, int64_t value);

// Elementwise: applies ElementOf at every position of the operands.
Elements ElementwiseElements(const InferContext& context);
// For ops that only move elements: evaluates the op on element positions and maps them back, so
// that the element rule of a view is its evaluation. Operands from `first_index_operand` on are
// indices and must be constants. `operand_count` operands take part.
Elements RoutedElements(const InferContext& context, const TensorType& result,
                        size_t first_index_operand = SIZE_MAX);

}  // namespace halyard::graph
