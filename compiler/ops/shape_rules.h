// SPDX-License-Identifier: Apache-2.0
// What shape rules share: describing operands in errors, comparing dims that may be symbolic,
// reading attributes that have defaults. For the op files of this folder and the passes that
// rewrite nodes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace halyard::graph {

// "Operand 1 '%w' (f32[3, 4])".
std::string DescribeOperand(const InferContext& context, size_t i);
// "[n, 3]".
std::string FormatDims(const ExprArena& exprs, const std::vector<Expr>& dims);

// Attributes with a default; the builder has checked their kind.
int64_t IntOr(const Node& node, std::string_view name, int64_t otherwise);
double FloatOr(const Node& node, std::string_view name, double otherwise);
std::string StringOr(const Node& node, std::string_view name, std::string_view otherwise);

// Whether two dims are equal: false only when that is provably wrong. What is neither proven nor
// disproven is recorded in Module::assumed_equal, for the node and with `detail` if there is any.
bool AssumeEqual(const InferContext& context, Expr a, Expr b, std::string_view detail = {});
// Whether a is at most b: false only when that is provably wrong. What is neither proven nor
// disproven is recorded in Module::assumed_at_most, as above.
bool AssumeAtMost(const InferContext& context, Expr a, Expr b, std::string_view detail = {});
// Of two equal dims the one that says more: a constant before a symbol.
Expr MoreKnown(const ExprArena& exprs, Expr a, Expr b);

// One result of a type.
std::vector<Value> OneResult(TensorType type);
std::vector<Value> OneResult(DType dtype, std::vector<Expr> dims);

// The common shape of all operands from `first` on; fails where two differ.
Result<std::vector<Expr>> CommonShape(const InferContext& context, size_t first = 0);
Status RequireRank(const InferContext& context, size_t i, size_t least, size_t most = SIZE_MAX);
Status RequireDType(const InferContext& context, size_t i, bool is_allowed,
                    std::string_view allowed);
Status RequireSameDType(const InferContext& context, size_t i, size_t j);
// An i32 or i64 operand that holds indices.
Status RequireIndexDType(const InferContext& context, size_t i);
// The attribute `name` as an axis of a tensor of `rank` axes.
Result<size_t> AxisOf(const InferContext& context, std::string_view name, size_t rank);
// The attribute `name`: one integer per axis, each at least `least`.
Result<std::vector<int64_t>> IntsPerAxis(const InferContext& context, std::string_view name,
                                         size_t count, int64_t least);
Status RequireFlag(const InferContext& context, std::string_view name);  // absent, 0 or 1
Status RequireOneOf(const InferContext& context, std::string_view name,
                    std::initializer_list<std::string_view> allowed);  // absent or one of them

}  // namespace halyard::graph
