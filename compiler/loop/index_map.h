// SPDX-License-Identifier: Apache-2.0
// Rewriting of logical indices between shapes of equal element count. No tensors and no kernels
// here.
#pragma once

#include <span>
#include <vector>

#include "compiler/expr/expr.h"

namespace halyard::loop {

// Row-major flat index; the strides are products of dims.
Expr FlatIndex(ExprArena& exprs, std::span<const Expr> dims, std::span<const Expr> index);
Expr ProductOf(ExprArena& exprs, std::span<const Expr> dims);

// The index into `to` of the element that has `index` in `from`, both row-major with equal element
// counts. Works group by group where products of dims agree, so that untouched dims keep their
// index.
std::vector<Expr> ReshapeIndex(ExprArena& exprs, std::span<const Expr> from,
                               std::span<const Expr> index, std::span<const Expr> to);

}  // namespace halyard::loop
