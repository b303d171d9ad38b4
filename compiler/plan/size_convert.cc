// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/size_convert.h"

namespace halyard::plan {
namespace {

using program::ExprOp;

Status Append(const ExprArena& exprs, Expr expr, std::span<const Expr> symbols,
              program::SizeExpr* out) {
  ExprOp op = ExprOp::kConst;
  switch (exprs.KindOf(expr)) {
    case ExprKind::kConst:
      out->tokens.push_back({ExprOp::kConst, *exprs.AsConst(expr)});
      return OkStatus();
    case ExprKind::kSymbol:
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (symbols[i] == expr) {
          out->tokens.push_back({ExprOp::kSymbol, static_cast<int64_t>(i)});
          return OkStatus();
        }
      }
      return Unimplemented("The size {} depends on '{}', which no input of the program determines.",
                           exprs.Format(expr), exprs.SymbolName(expr));
    case ExprKind::kAdd:
      op = ExprOp::kAdd;
      break;
    case ExprKind::kMul:
      op = ExprOp::kMul;
      break;
    case ExprKind::kFloorDiv:
      op = ExprOp::kFloorDiv;
      break;
    case ExprKind::kMod:
      op = ExprOp::kMod;
      break;
    case ExprKind::kMin:
      op = ExprOp::kMin;
      break;
    case ExprKind::kMax:
      op = ExprOp::kMax;
      break;
  }
  // Sums and products may have any number of operands; postfix operators are binary.
  const std::span<const Expr> operands = exprs.OperandsOf(expr);
  for (size_t i = 0; i < operands.size(); ++i) {
    HY_TRY(Append(exprs, operands[i], symbols, out));
    if (i > 0) out->tokens.push_back({op, 0});
  }
  return OkStatus();
}

}  // namespace

Result<program::SizeExpr> ConvertSize(const ExprArena& exprs, Expr expr,
                                      std::span<const Expr> symbols) {
  program::SizeExpr size;
  HY_TRY(Append(exprs, expr, symbols, &size));
  return size;
}

}  // namespace halyard::plan
