// SPDX-License-Identifier: Apache-2.0
// Recognises the loop kernels whose softmax may run online: nothing but the scores' maximum and the
// sum of weights passes from the scores to the values.
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/attention_problem.h"

namespace halyard::schedule {

struct OnlineSoftmax {
  AttentionProblem attention;  // the source of the rest
  AttentionContraction scores, values;
  std::vector<loop::OpId> score_ops;  // of scores.epilogue, but the store
  loop::ValueId score = loop::kNone;  // what that stores
  loop::ValueId sum = loop::kNone;    // of the weights
  std::vector<loop::OpId> row_ops;    // of a row, from the sum
  // Keys from here on are hidden from a row, whatever the other masks say; it does not fall as the
  // row grows. Invalid: none.
  Expr visible_end;
};

std::optional<OnlineSoftmax> ReadOnlineSoftmax(const loop::Function& function,
                                               const loop::Kernel& kernel);

}  // namespace halyard::schedule
