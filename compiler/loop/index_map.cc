// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/index_map.h"

namespace halyard::loop {

Expr ProductOf(ExprArena& exprs, std::span<const Expr> dims) {
  Expr product = exprs.Const(1);
  for (Expr dim : dims) product = exprs.Mul(product, dim);
  return product;
}

Expr FlatIndex(ExprArena& exprs, std::span<const Expr> dims, std::span<const Expr> index) {
  Expr flat = exprs.Const(0);
  Expr stride = exprs.Const(1);
  for (size_t i = dims.size(); i-- > 0;) {
    flat = exprs.Add(flat, exprs.Mul(index[i], stride));
    stride = exprs.Mul(stride, dims[i]);
  }
  return flat;
}

std::vector<Expr> ReshapeIndex(ExprArena& exprs, std::span<const Expr> from,
                               std::span<const Expr> index, std::span<const Expr> to) {
  std::vector<Expr> result;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    Expr a = exprs.Const(1), b = exprs.Const(1);
    if (i < from.size()) a = from[i++];
    if (j < to.size()) b = to[j++];
    while (a != b) {
      bool can_a = i < from.size(), can_b = j < to.size();
      bool take_a = can_a && (!can_b || exprs.KnownLessOrEqual(a, b));
      bool take_b = !take_a && can_b && exprs.KnownLessOrEqual(b, a);
      if (!take_a && !take_b) {
        // Not comparable: the rest is one group.
        while (i < from.size()) a = exprs.Mul(a, from[i++]);
        while (j < to.size()) b = exprs.Mul(b, to[j++]);
        break;
      }
      if (take_a) {
        a = exprs.Mul(a, from[i++]);
      } else {
        b = exprs.Mul(b, to[j++]);
      }
    }
    if (j == j0) continue;
    if (i == i0 + 1 && j == j0 + 1) {
      result.push_back(index[i0]);
      continue;
    }
    Expr flat = FlatIndex(exprs, from.subspan(i0, i - i0), index.subspan(i0, i - i0));
    for (size_t k = j0; k < j; ++k) {
      Expr at = exprs.FloorDiv(flat, ProductOf(exprs, to.subspan(k + 1, j - k - 1)));
      if (exprs.IsConst(to[k], 1)) {
        at = exprs.Const(0);
      } else if (k != j0) {
        at = exprs.Mod(at, to[k]);
      }
      result.push_back(at);
    }
  }
  return result;
}

}  // namespace halyard::loop
