// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/elements.h"

#include "base/check.h"

namespace halyard::graph {
namespace {

// Constants beside symbols beyond this are sentinels (INT64_MAX as "to the end"), not sizes; sums
// with them would leave int64.
constexpr int64_t kLargestSize = int64_t{1} << 40;

bool IsSentinel(const ExprArena& exprs, Expr e) {
  const std::optional<int64_t> value = exprs.AsConst(e);
  return value && (*value > kLargestSize || *value < -kLargestSize);
}

int64_t WrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t WrappingSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t WrappingMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

std::optional<bool> Compare(ExprArena& exprs, std::string_view op, Expr a, Expr b) {
  const bool is_equal = exprs.KnownEqual(a, b);
  const bool is_less = exprs.KnownLess(a, b);
  const bool is_greater = exprs.KnownLess(b, a);
  const bool is_unequal = is_less || is_greater;
  if (op == "eq" && (is_equal || is_unequal)) return is_equal;
  if (op == "ne" && (is_equal || is_unequal)) return is_unequal;
  if (op == "lt" && (is_less || exprs.KnownLessOrEqual(b, a))) return is_less;
  if (op == "gt" && (is_greater || exprs.KnownLessOrEqual(a, b))) return is_greater;
  if (op == "le" && (is_greater || exprs.KnownLessOrEqual(a, b))) return !is_greater;
  if (op == "ge" && (is_less || exprs.KnownLessOrEqual(b, a))) return !is_less;
  return std::nullopt;
}

std::optional<int64_t> FoldConstants(std::string_view op, int64_t a, int64_t b) {
  if (op == "add") return WrappingAdd(a, b);
  if (op == "sub") return WrappingSub(a, b);
  if (op == "mul") return WrappingMul(a, b);
  if (op == "div") return b == 0 ? 0 : b == -1 ? WrappingSub(0, a) : a / b;
  if (op == "rem") return b == 0 || b == -1 ? 0 : a % b;
  if (op == "min") return a < b ? a : b;
  if (op == "max") return a > b ? a : b;
  if (op == "and") return a & b;
  if (op == "or") return a | b;
  if (op == "xor") return a ^ b;
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> FewElements(const ExprArena& exprs, const std::vector<Expr>& dims) {
  int64_t count = 1;
  for (const Expr dim : dims) {
    const std::optional<int64_t> size = exprs.AsConst(dim);
    if (!size || *size < 0 || *size > kMaxElements) return std::nullopt;
    count *= *size;
    if (count > kMaxElements) return std::nullopt;
  }
  return count;
}

int64_t WrapTo(DType dtype, int64_t value) {
  Tensor scratch = *MakeTensor(dtype, {});
  StoreInt(scratch, 0, value);
  return LoadInt(scratch, 0);
}

std::optional<Expr> ElementOf(ExprArena& exprs, std::string_view op, DType dtype, Expr a) {
  const std::optional<int64_t> value = exprs.AsConst(a);
  if (op == "neg") {
    if (value) return exprs.Const(WrapTo(dtype, WrappingSub(0, *value)));
    return exprs.Sub(exprs.Const(0), a);
  }
  if (op == "abs") {
    if (value) return exprs.Const(WrapTo(dtype, *value < 0 ? WrappingSub(0, *value) : *value));
    if (exprs.RangeOf(a).lo >= 0) return a;
  }
  if (op == "not" && value) {
    return exprs.Const(dtype == DType::kBool ? *value == 0 : WrapTo(dtype, ~*value));
  }
  return std::nullopt;
}

std::optional<Expr> ElementOf(ExprArena& exprs, std::string_view op, DType dtype, Expr a, Expr b) {
  const std::optional<int64_t> left = exprs.AsConst(a);
  const std::optional<int64_t> right = exprs.AsConst(b);
  // u64 orders and divides differently from the int64 that carries it.
  if (dtype == DType::kU64) return std::nullopt;
  if (left && right) {
    if (const std::optional<int64_t> folded = FoldConstants(op, *left, *right)) {
      return exprs.Const(WrapTo(dtype, *folded));
    }
  }
  if (const std::optional<bool> truth = Compare(exprs, op, a, b)) return exprs.Const(*truth);
  if (dtype == DType::kBool) return std::nullopt;
  if (op == "min" || op == "max") {
    // Provable orders first: they also settle sentinels.
    if (exprs.KnownLessOrEqual(a, b)) return op == "min" ? a : b;
    if (exprs.KnownLessOrEqual(b, a)) return op == "min" ? b : a;
    if (IsSentinel(exprs, a) || IsSentinel(exprs, b)) return std::nullopt;
    return op == "min" ? exprs.Min(a, b) : exprs.Max(a, b);
  }
  if (IsSentinel(exprs, a) || IsSentinel(exprs, b)) return std::nullopt;
  if (op == "add") return exprs.Add(a, b);
  if (op == "sub") return exprs.Sub(a, b);
  if (op == "mul") return exprs.Mul(a, b);
  // Truncation equals rounding down for these; a divisor of 0 is an error when it is evaluated.
  const bool is_non_negative = exprs.RangeOf(a).lo >= 0 && exprs.RangeOf(b).lo >= 0;
  if (is_non_negative && right != 0 && op == "div") return exprs.FloorDiv(a, b);
  if (is_non_negative && right != 0 && op == "rem") return exprs.Mod(a, b);
  return std::nullopt;
}

Elements ElementwiseElements(const InferContext& context) {
  const size_t arity = context.node.operands.size();
  for (size_t i = 0; i < arity; ++i) {
    if (!context.operand(i).elements) return std::nullopt;
    if (context.operand(i).elements->size() != context.operand(0).elements->size()) {
      return std::nullopt;
    }
  }
  const DType dtype = context.operand(0).type.dtype;
  std::vector<Expr> elements;
  for (size_t k = 0; k < context.operand(0).elements->size(); ++k) {
    const Expr a = (*context.operand(0).elements)[k];
    const std::optional<Expr> element =
        arity == 1 ? ElementOf(context.module.exprs, context.node.op->name, dtype, a)
                   : ElementOf(context.module.exprs, context.node.op->name, dtype, a,
                               (*context.operand(1).elements)[k]);
    if (!element) return std::nullopt;
    elements.push_back(*element);
  }
  return elements;
}

Elements RoutedElements(const InferContext& context, const TensorType& result,
                        size_t first_index_operand) {
  const ExprArena& exprs = context.module.exprs;
  const std::optional<int64_t> count = FewElements(exprs, result.dims);
  if (!count || !(IsInteger(result.dtype) || result.dtype == DType::kBool)) return std::nullopt;
  std::vector<Expr> sources;
  std::vector<Tensor> operands;
  for (size_t i = 0; i < context.node.operands.size(); ++i) {
    if (!context.has(i) || !context.operand(i).elements) return std::nullopt;
    std::vector<int64_t> dims;
    for (const Expr dim : context.operand(i).type.dims) {
      const std::optional<int64_t> size = exprs.AsConst(dim);
      if (!size) return std::nullopt;
      dims.push_back(*size);
    }
    std::vector<int64_t> numbers;
    for (const Expr element : *context.operand(i).elements) {
      if (i >= first_index_operand) {
        const std::optional<int64_t> index = exprs.AsConst(element);
        if (!index) return std::nullopt;
        numbers.push_back(*index);
      } else {
        numbers.push_back(static_cast<int64_t>(sources.size()));
        sources.push_back(element);
      }
    }
    const Result<int64_t> size = CountElements(dims);
    if (!size.ok() || *size != static_cast<int64_t>(numbers.size())) return std::nullopt;
    operands.push_back(TensorOfInts(DType::kI64, dims, numbers));
  }
  std::vector<int64_t> result_dims;
  for (const Expr dim : result.dims) result_dims.push_back(*exprs.AsConst(dim));
  const DType dtype = DType::kI64;
  EvalContext evaluation{.module = context.module,
                         .node = context.node,
                         .operands = operands,
                         .result_dtypes = {&dtype, 1},
                         .result_dims = {&result_dims, 1},
                         .value_of = [](Expr) { return std::optional<int64_t>(); },
                         .run_region = {}};
  // Fails where an attribute depends on a symbol, or an index is out of range.
  const Result<std::vector<Tensor>> routed = context.node.op->evaluate(evaluation);
  if (!routed.ok()) return std::nullopt;
  std::vector<Expr> elements;
  for (int64_t k = 0; k < *count; ++k) {
    elements.push_back(sources[static_cast<size_t>(LoadInt((*routed)[0], k))]);
  }
  return elements;
}

}  // namespace halyard::graph
