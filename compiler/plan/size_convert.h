// SPDX-License-Identifier: Apache-2.0
// Turns expressions of the module's arena into the postfix form of programs.
#pragma once

#include <span>

#include "base/status.h"
#include "compiler/expr/expr.h"
#include "compiler/program/program.h"

namespace halyard::plan {

// `symbols[i]` becomes symbol i of the program. UNIMPLEMENTED when `expr` holds any other symbol
// (a size that is data).
Result<program::SizeExpr> ConvertSize(const ExprArena& exprs, Expr expr,
                                      std::span<const Expr> symbols);

}  // namespace halyard::plan
