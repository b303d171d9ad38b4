// SPDX-License-Identifier: Apache-2.0
// A loop kernel read as a contraction: C(batch, m, n) = sum over k of A(batch, m, k) * B(batch, n,
// k) with operand bodies and an epilogue; the roles follow from what each factor depends on. Every
// target schedules from this form.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/loop/loop_ir.h"

namespace halyard::schedule {

// The loops of one role, outermost first, flattened into one index.
struct Side {
  std::vector<std::pair<Expr, Expr>> digits;  // symbol, extent
  Expr flat;                                  // counts through all combinations
  Expr extent;                                // their number
};

// One factor of the product.
struct Factor {
  loop::ValueId value = loop::kNone;
  std::vector<loop::OpId> ops;    // what computes it, in order
  loop::OpId load = loop::kNone;  // when it is one unmasked load, at most converted after
  bool converted = false;
  Expr index;                      // of that load, over the flat symbols
  std::optional<Expr> k_stride;    // of index, where linear
  std::optional<Expr> own_stride;  // along m (A) or n (B)
};

struct Problem {
  Side batch, m, n, k;
  Factor a, b;
  loop::ValueId accumulator = loop::kNone;
  DType dtype = DType::kInvalid;                   // of the accumulator
  std::vector<loop::OpId> epilogue;                // every op outside the reduction, in order
  double epilogue_weight = 0;                      // arithmetic ops per element
  std::optional<Expr> out_stride_m, out_stride_n;  // of the first store
};

// Nothing where the kernel is not such a contraction; `why` says what stands in the way.
std::optional<Problem> ReadContraction(const loop::Function& function, const loop::Kernel& kernel,
                                       std::string* why);

// e over the flat symbols.
Expr FlatIndex(ExprArena& exprs, const Problem& problem, Expr e);

}  // namespace halyard::schedule
