// SPDX-License-Identifier: Apache-2.0
// SizeExpr: evaluation of postfix expressions over symbol values, without overflow.
#include <array>

#include "compiler/program/program.h"

namespace halyard::program {
namespace {

// Depth of the evaluation stack; the verifier refuses deeper expressions.
constexpr size_t kStackDepth = 64;

Result<int64_t> Apply(ExprOp op, int64_t a, int64_t b) {
  int64_t value = 0;
  switch (op) {
    case ExprOp::kAdd:
      if (__builtin_add_overflow(a, b, &value)) {
        return OutOfRange("The size {} + {} does not fit 64 bits.", a, b);
      }
      return value;
    case ExprOp::kMul:
      if (__builtin_mul_overflow(a, b, &value)) {
        return OutOfRange("The size {} * {} does not fit 64 bits.", a, b);
      }
      return value;
    case ExprOp::kFloorDiv:
    case ExprOp::kMod: {
      if (b < 1) return OutOfRange("A size expression divides by {}; at least 1 is needed.", b);
      int64_t quotient = a / b, remainder = a % b;
      if (remainder < 0) {
        quotient -= 1;
        remainder += b;
      }
      return op == ExprOp::kMod ? remainder : quotient;
    }
    case ExprOp::kMin:
      return a < b ? a : b;
    case ExprOp::kMax:
      return a > b ? a : b;
    case ExprOp::kConst:
    case ExprOp::kSymbol:
      break;
  }
  return InvalidArgument("A size expression holds the unknown operation {}.", static_cast<int>(op));
}

}  // namespace

SizeExpr SizeExpr::Constant(int64_t value) { return SizeExpr{{{ExprOp::kConst, value}}}; }

std::optional<int64_t> SizeExpr::AsConstant() const {
  if (tokens.size() == 1 && tokens[0].op == ExprOp::kConst) return tokens[0].value;
  return std::nullopt;
}

Result<int64_t> SizeExpr::Evaluate(std::span<const int64_t> symbols) const {
  if (tokens.size() == 1 && tokens[0].op == ExprOp::kConst) return tokens[0].value;
  std::array<int64_t, kStackDepth> stack;
  size_t depth = 0;
  for (const ExprToken& token : tokens) {
    if (token.op == ExprOp::kConst || token.op == ExprOp::kSymbol) {
      if (depth == kStackDepth) {
        return OutOfRange("A size expression nests deeper than {} operands.", kStackDepth);
      }
      if (token.op == ExprOp::kConst) {
        stack[depth++] = token.value;
        continue;
      }
      if (token.value < 0 || static_cast<uint64_t>(token.value) >= symbols.size()) {
        return InvalidArgument("A size expression names symbol {} of {}.", token.value,
                               symbols.size());
      }
      stack[depth++] = symbols[static_cast<size_t>(token.value)];
      continue;
    }
    if (depth < 2) return InvalidArgument("A size expression lacks an operand.");
    HY_ASSIGN(stack[depth - 2], Apply(token.op, stack[depth - 2], stack[depth - 1]));
    depth -= 1;
  }
  if (depth != 1) return InvalidArgument("A size expression leaves {} values; 1 is needed.", depth);
  return stack[0];
}

}  // namespace halyard::program
