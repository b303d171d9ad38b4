// SPDX-License-Identifier: Apache-2.0
// SizeExpr: evaluation of postfix expressions over symbol values.
#include "compiler/program/program.h"

namespace halyard::program {

SizeExpr SizeExpr::Constant(int64_t value) { return SizeExpr{{{ExprOp::kConst, value}}}; }

std::optional<int64_t> SizeExpr::AsConstant() const {
  if (tokens.size() == 1 && tokens[0].op == ExprOp::kConst) return tokens[0].value;
  return std::nullopt;
}

}  // namespace halyard::program
