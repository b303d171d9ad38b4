// SPDX-License-Identifier: Apache-2.0
// The builder of attention on matrix fragments: attention_fragments.cc walks over blocks of keys,
// attention_staged.cc multiplies them where a fragment's elements are in places that the target
// does not tell, attention_results.cc joins and stores what came of them.
#pragma once

#include <cstdint>
#include <memory>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/attention_fragments.h"
#include "compiler/schedule/gpu/attention_rows.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

class FragmentAttention {
 public:
  FragmentAttention(const loop::Function& function, const loop::Kernel& kernel,
                    const ScheduleRecord& record, const Target& target, const OnlineSoftmax& online)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        tile_(record.tile),
        target_(target),
        online_(online),
        writer_(KernelName(kernel.name, ""), IndexDType(function, kernel)),
        emitter_(function, kernel, writer_, GpuEmitterOptions()) {}

  Result<ScheduledKernel> Build();

 private:
  using V = kernel::ValueId;
  using Opcode = kernel::Opcode;
  using FragmentUse = kernel::FragmentUse;
  using Type = kernel::Type;
  static constexpr int64_t kSide = 16;  // of a fragment
  static constexpr int64_t kSubgroup = 32;
  static constexpr int64_t kScorePad = 4;  // rows of workgroup memory start in different banks

  // Of each row that a workitem has elements of: two of every 16, or its soft row.
  using Rows = std::vector<V>;
  using Scores = std::vector<std::vector<V>>;  // of a row: its keys

  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }
  Status CheckRecord();
  void ReadProblem();
  Status Place(Dispatch& dispatch);
  std::unique_ptr<ContractionStage> MakeStage(const Problem& problem, const Factor& factor,
                                              const Side& side, loop::ValueId value, int64_t extent,
                                              int64_t depth, int64_t stages, bool async,
                                              std::string_view name);
  bool CanCopy(const Problem& problem, const Factor& factor, const Side& side,
               loop::ValueId value) const {
    return ContractionStage::CanCopy(function_, kernel_, factor, value,
                                     AccessOf(function_, kernel_, problem, factor, side));
  }
  V LoadFragment(const ContractionStage& stage, FragmentUse use, V base, V item, int64_t place,
                 int64_t step);
  // What is done to the scores of a block: kShown: no row has a key hidden by end_ or beyond the
  // last, kCut: some have, kAll: keys behind end_ count too.
  enum class Mask : uint8_t { kShown, kCut, kAll };
  // The blocks up to `mid` are kShown, kernel::kNone: all.
  Status WalkBlocks(V lo, V mid, V hi);
  Status WalkSome(V lo, V hi, V last, bool is_always, Mask mask, std::vector<V>& carried);
  Status StartCopies(V lo, V hi, bool is_always, std::vector<V>& carried);
  Status WalkAgain();
  V SomeRowSeesNothing();
  // Of each list and row what the subgroups have that share the row.
  std::vector<std::vector<Rows>> OverShares(const std::vector<Rows>& lists);
  Status CopyBlock(V block, V stage);
  // The copies of a block that lies before `last` (kernel::kNone: it does), as a group of their
  // own.
  Status CopyAhead(V block, V stage, V last);
  void WaitForBlock();
  Status LoadBlock(V block);
  V LoadQuery(int64_t band, int64_t step);
  // Whether this subgroup has a row and, in blocks that are cut, a key that it sees; kernel::kNone:
  // always.
  V Works(V block, Mask mask);
  Status MultiplyBlock(V block, V key_base, V value_base, Mask mask);
  // Of the fragment at `offset` of this subgroup's keys: what the body makes of the sums, in units
  // of unit_.
  Status EmitScores(V block, V sums, int64_t band, int64_t offset, Mask mask, Scores& scores);
  Result<V> EmitScore(V sums, Mask mask);
  // Scores become weights, as fragments of A: [16 rows][16 keys].
  std::vector<std::vector<V>> Weigh(const Scores& scores);
  // MultiplyBlock, and its parts, where the elements of a fragment are nowhere to be seen.
  Status MultiplyStaged(V block, Mask mask);
  void PlaceSoftRow();
  Status LoadScores(V block, Mask mask, std::vector<V>& scores);
  void WeighRow(const std::vector<V>& scores);
  void JoinSubgroups();
  Status EmitResults();

  V F32(double value, int lanes = 1) { return writer_.Float(DType::kF32, value, lanes); }
  V Pure(Opcode opcode, std::vector<V> operands) {
    const Type type = writer_.TypeOf(operands[0]);
    return writer_.Pure(opcode, type, std::move(operands));
  }
  // The exponential of a score in its unit, exp2(x * unit * log2(e) + shift), lanes wise.
  V Exp(V x, V shift) {
    const int lanes = writer_.LanesOf(x);
    const V scaled = Pure(
        Opcode::kFma, {x, F32(std::numbers::log2e * unit_, lanes), writer_.Splat(shift, lanes)});
    return Pure(Opcode::kExp2, {scaled});
  }
  V Extract(V vector, int64_t lane) {
    return writer_.Pure(Opcode::kExtract, Type{writer_.TypeOf(vector).dtype, 1}, {vector}, {lane});
  }
  V Concat(V a, V b) {
    const int64_t lanes = writer_.LanesOf(a);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < 2 * lanes; ++i) order.push_back(i);
    return writer_.Pure(Opcode::kShuffle,
                        Type{writer_.TypeOf(a).dtype, static_cast<uint16_t>(2 * lanes)}, {a, b},
                        order);
  }
  // Over the workitems that share a row.
  V OverRow(Opcode opcode, V value) {
    for (int mask = 1; mask < row_parts_; mask *= 2) {
      value = Pure(opcode, {value, writer_.ShuffleXor(value, mask)});
    }
    return value;
  }
  // The accumulator whose rows are these.
  V RowsAsFragment(V first, V second) {
    const V pairs = Concat(writer_.Splat(first, 2), writer_.Splat(second, 2));
    return writer_.Value(Opcode::kFragmentOf, AccumulatorType(), {Concat(pairs, pairs)});
  }
  static Type AccumulatorType() {
    return Type{DType::kF32, 1, FragmentUse::kAccumulator, kSide, kSide};
  }
  void ScaleSums(const Rows& scales) {
    for (size_t band = 0; band < sums_.size(); ++band) {
      const V scale = RowsAsFragment(scales[2 * band], scales[2 * band + 1]);
      for (V& sum : sums_[band]) {
        sum = writer_.Value(Opcode::kMul, AccumulatorType(), {sum, scale});
      }
    }
  }
  // Of the workgroup's rows: that of this workitem's first element of 16, and of a row's element.
  V FirstRow(int64_t band) {
    return writer_.Add(writer_.Mul(band_, writer_.Index(tile_.item_m)),
                       writer_.Index(band * kSide));
  }
  V RowOf(size_t row) {
    if (is_staged_) return soft_row_;
    return writer_.Add(FirstRow(static_cast<int64_t>(row / 2)),
                       writer_.Add(lane_row_, writer_.Index(row % 2 == 0 ? 0 : 8)));
  }
  // What a loop carries: sums, maxima, sums of weights.
  std::vector<V> State() const {
    std::vector<V> state;
    for (const std::vector<V>& sums : sums_) state.insert(state.end(), sums.begin(), sums.end());
    state.insert(state.end(), maximum_.begin(), maximum_.end());
    state.insert(state.end(), sum_.begin(), sum_.end());
    return state;
  }
  void SetState(std::span<const V> state) {
    for (std::vector<V>& sums : sums_) {
      for (V& sum : sums) sum = state.front(), state = state.subspan(1);
    }
    for (Rows* rows : {&maximum_, &sum_}) {
      for (V& row : *rows) row = state.front(), state = state.subspan(1);
    }
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const GpuTile& tile_;
  const Target& target_;
  const OnlineSoftmax& online_;
  Writer writer_;
  Emitter emitter_;

  Side rows_, keys_;
  Problem score_problem_, value_problem_;
  Factor query_, key_, value_;
  loop::ValueId narrow_query_ = loop::kNone, narrow_key_ = loop::kNone, narrow_value_ = loop::kNone;
  DType input_ = DType::kInvalid;
  int64_t depth_ = 0, width_ = 0;                   // of a query and of a value, in whole fragments
  int64_t bands_ = 0, shares_ = 0, workitems_ = 0;  // subgroups along rows and along keys
  std::unique_ptr<ContractionStage> query_stage_, key_stage_, value_stage_;
  bool copies_queries_ = false;
  Expr row_symbol_, key_symbol_, col_symbol_;
  Expr end_;         // of the keys that a row sees; invalid: all are seen
  double unit_ = 1;  // of scores and maxima
  V row_first_ = kernel::kNone, part_ = kernel::kNone, batch_ = kernel::kNone;
  V band_ = kernel::kNone, share_ = kernel::kNone;         // of this subgroup
  V lane_row_ = kernel::kNone, lane_col_ = kernel::kNone;  // of this workitem's first element
  bool is_staged_ = false;  // scores pass through workgroup memory; a workitem has one row or half
  int64_t row_parts_ = 4;   // workitems that share a row
  V soft_row_ = kernel::kNone, row_part_ = kernel::kNone;  // of this workitem, where staged
  kernel::BufferId scores_ = kernel::kNone, weights_ = kernel::kNone, scales_ = kernel::kNone;
  std::vector<std::vector<V>> queries_;  // [16 rows] fragments, along the depth
  std::vector<std::vector<V>> sums_;     // [16 rows] of the values, along the width
  Rows maximum_, sum_;                   // so far; the sum: of this workitem's keys
  kernel::BufferId row_sum_ = kernel::kNone,
                   row_max_ = kernel::kNone;  // of the workgroup's rows, at the end
};

}  // namespace halyard::schedule
