// SPDX-License-Identifier: Apache-2.0
// A loop kernel read as attention: parallel loops around the body of a row; in the body, parallel
// loops around one sum of products are contractions, everything else belongs to the row. Every
// target schedules from this form.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/contraction_problem.h"

namespace halyard::schedule {

struct AttentionOperand {
  loop::ValueId value = loop::kNone;
  std::vector<loop::OpId> ops;
};

struct AttentionContraction {
  Expr n, n_extent, k, k_extent;
  AttentionOperand rows, vectors;
  loop::ValueId sum = loop::kNone;
  DType dtype = DType::kInvalid;
  std::vector<loop::OpId> epilogue;  // every other op of the body of the n loop
  bool is_contiguous = false;        // the vector operand along n
};

struct AttentionStep {
  std::optional<AttentionContraction> contraction;
  std::vector<loop::OpId> ops;  // of a row, where there is no contraction
};

struct AttentionProblem {
  std::vector<std::pair<Expr, Expr>> batch;  // symbol, extent; outermost first
  Expr batch_extent;
  Expr m, m_extent;
  std::vector<loop::OpId> constants;  // outside the steps
  std::vector<AttentionStep> steps;
  std::vector<loop::ValueId> kept;  // of a row, read in another step
  std::vector<loop::BufferId> locals;
};

// Nothing where the kernel has no such form.
std::optional<AttentionProblem> ReadAttention(const loop::Function& function,
                                              const loop::Kernel& kernel);

// The two products of an attention in the terms of a contraction: one loop symbol as a side, and an
// operand with what is applied to it.
Side SideOf(Expr symbol, Expr extent);
Factor FactorOf(const AttentionOperand& operand);

}  // namespace halyard::schedule
