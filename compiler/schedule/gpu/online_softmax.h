// SPDX-License-Identifier: Apache-2.0
// Recognises the loop kernels whose softmax may run online: nothing but the scores' maximum and the
// sum of weights passes from the scores to the values.
#pragma once

#include <optional>
#include <vector>

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/attention_problem.h"

namespace halyard::schedule {

// What an op of the scores gives where no key is hidden by a mask that grows with the row.
struct ShownOp {
  loop::OpId op = loop::kNone;
  // Not kNone: the value that it equals.
  loop::ValueId same = loop::kNone;
  // `yes` where `condition` (kNone: always) holds, else `no`. Without it the op is as it was.
  struct Choice {
    loop::ValueId condition = loop::kNone;
    double yes = 0, no = 0;
    friend bool operator==(const Choice&, const Choice&) = default;
  };
  std::optional<Choice> choice;
};

// The least f16, for which masks stand that should be -infinity but for rows that see nothing.
inline constexpr double kHidingScore = -65504;

struct OnlineSoftmax {
  AttentionProblem attention;  // the source of the rest
  AttentionContraction scores, values;
  std::vector<loop::OpId> score_ops;      // of scores.epilogue, but the store
  loop::ValueId score = loop::kNone;      // what that stores
  loop::ValueId sum = loop::kNone;        // of the weights
  loop::ValueId is_hidden = loop::kNone;  // whether the maximum is -infinity; kNone: unused
  std::vector<loop::OpId> row_ops;        // of a row, from the sum and is_hidden
  // Keys from here on are hidden from a row, whatever the other masks say; it does not fall as the
  // row grows. Invalid: none.
  Expr visible_end;
  // The same of a mask that adds a number of at most kHidingScore: what it hides counts in rows
  // that see nothing else. Only one of the two is valid.
  Expr shown_end;
  // Before either end the score is unit * shown_score, or where there is a shown_bias
  // shown_factor * shown_score + shown_bias; these ops compute the values from the sum.
  std::vector<ShownOp> shown_ops;
  loop::ValueId shown_score = loop::kNone, shown_bias = loop::kNone;
  double unit = 1, shown_factor = 1;  // above 0
};

std::optional<OnlineSoftmax> ReadOnlineSoftmax(const loop::Function& function,
                                               const loop::Kernel& kernel);

}  // namespace halyard::schedule
