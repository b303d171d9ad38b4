// SPDX-License-Identifier: Apache-2.0
// Arena planning over symbolic sizes. Sizes that are multiples of one common expression are planned
// exactly, by their coefficients: offsets scale with the expression. Every such class is one region
// of the arena, so a static program and a program with one symbolic batch both get the full
// planner.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "compiler/expr/expr.h"

namespace halyard::plan {

struct SymbolicRange {
  Expr size_bytes;
  int64_t first = 0;
  int64_t last = 0;
};

struct ArenaPlan {
  std::vector<Expr>
      offsets;  // one per range, in bytes; multiples of the alignment for every symbol value
  Expr arena_bytes;
  Expr lower_bound_bytes;  // sum over the classes of their largest live bytes
};

// A size of c * e bytes (e: the non-constant factors) belongs to the class of e; a sum goes to the
// class of itself with c = 1, or of its common factor. Offsets within a class are multiples of
// alignment * e.
Result<ArenaPlan> PlanArena(ExprArena& exprs, std::span<const SymbolicRange> ranges,
                            int64_t alignment);

}  // namespace halyard::plan
