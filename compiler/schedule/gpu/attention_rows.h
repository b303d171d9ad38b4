// SPDX-License-Identifier: Apache-2.0
// What the schedules of attention do with rows: which of them see which keys, how parts of one
// softmax join, and what becomes of a row's results.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/status.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/online_softmax.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr int64_t kMostAttentionParts = 32;

// Binds the symbols of the batch to number `batch` of all.
void BindBatch(const AttentionProblem& attention, kernel::ValueId batch, Writer& writer,
               Emitter& emitter);

// How many blocks of `block` keys some row from `first` on, of `count`, may see, where keys from
// `end` on (invalid: none) are hidden; one at least where there are keys.
kernel::ValueId KeyBlocks(ExprArena& exprs, const OnlineSoftmax& online, Writer& writer,
                          Emitter& emitter, Expr end, Expr row_symbol, kernel::ValueId first,
                          int64_t count, int64_t block);

// How many of the first blocks end before that, and before the last key, for each row from `first`
// on; kNone: all do.
kernel::ValueId ShownKeyBlocks(ExprArena& exprs, const OnlineSoftmax& online, Writer& writer,
                               Emitter& emitter, Expr end, Expr row_symbol, kernel::ValueId first,
                               int64_t block);

// Of an f32 of each of the workgroup's workitems.
kernel::ValueId MaxOverWorkgroup(Writer& writer, kernel::ValueId value, int64_t subgroups);

// A row whose keys were divided: each part has its maximum and the sum of its weights, in the unit
// of that maximum.
struct JoinedRow {
  kernel::ValueId maximum = kernel::kNone;
  kernel::ValueId sum = kernel::kNone;
  kernel::ValueId shift = kernel::kNone;  // weights are exp2(score * log2(e) + shift)
};
JoinedRow JoinRow(Writer& writer, std::span<const kernel::ValueId> maxima,
                  std::span<const kernel::ValueId> sums);
// What a part's sums are multiplied by.
kernel::ValueId ShareOf(Writer& writer, kernel::ValueId maximum, const JoinedRow& joined);

// Borrowed by the calls below. The symbols are bound here.
struct AttentionResults {
  const loop::Function& function;
  const loop::Kernel& kernel;
  const OnlineSoftmax& online;
  Writer& writer;
  Emitter& emitter;
  Expr row_symbol, col_symbol;
};

// Elements of a 16-byte store of the results.
int ResultLanes(const loop::Function& function, const loop::Kernel& kernel,
                const OnlineSoftmax& online);

// A vector of weighted values at (row, col), and its row's maximum and sum of weights, go through
// the body's epilogue. Columns beyond the last are left out.
Status EmitAttentionResult(const AttentionResults& results, kernel::ValueId row,
                           kernel::ValueId col, kernel::ValueId values, kernel::ValueId maximum,
                           kernel::ValueId sum);

// Workspaces [part][batch][row]: of a row of values, of maxima, of sums.
struct AttentionParts {
  kernel::BufferId values = kernel::kNone, maxima = kernel::kNone, sums = kernel::kNone;
};
AttentionParts AddAttentionParts(Emitter& emitter, bool is_written);
struct PartPlace {
  kernel::ValueId part, batch, row, col;
};
void StoreAttentionPart(const AttentionResults& results, const AttentionParts& parts,
                        const PartPlace& place, kernel::ValueId values, kernel::ValueId maximum,
                        kernel::ValueId sum);
// Appends the workspaces and the dispatch that joins the parts, in order.
Status AddAttentionJoin(const loop::Function& function, const loop::Kernel& kernel,
                        const OnlineSoftmax& online, int64_t part_count, const Target& target,
                        ScheduledKernel& scheduled);

}  // namespace halyard::schedule
