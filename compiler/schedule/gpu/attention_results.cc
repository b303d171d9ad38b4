// SPDX-License-Identifier: Apache-2.0
// How the subgroups that share rows join, and how results leave.
#include <algorithm>

#include "compiler/schedule/gpu/attention_builder.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::kNone;
using kernel::Opcode;
using V = kernel::ValueId;

namespace {

constexpr int64_t kChunkColumns = 32;  // of results that pass through workgroup memory together
constexpr int64_t kChunkPad = 8;

}  // namespace

std::vector<std::vector<std::vector<V>>> FragmentAttention::OverShares(
    const std::vector<Rows>& lists) {
  std::vector<kernel::BufferId> buffers;
  for (size_t i = 0; i < lists.size(); ++i) {
    buffers.push_back(writer_.AddAllocation("share_rows", DType::kF32, shares_ * tile_.m));
  }
  writer_.BeginIf(writer_.Compare(Opcode::kEq, lane_col_, writer_.Index(0)));
  for (size_t i = 0; i < lists.size(); ++i) {
    for (size_t row = 0; row < lists[i].size(); ++row) {
      const V at = writer_.Add(writer_.Mul(share_, writer_.Index(tile_.m)), RowOf(row));
      writer_.Store(buffers[i], at, lists[i][row]);
    }
  }
  writer_.EndIf({});
  writer_.Barrier();
  std::vector<std::vector<Rows>> all(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) {
    for (size_t row = 0; row < lists[i].size(); ++row) {
      Rows& shares = all[i].emplace_back();
      for (int64_t share = 0; share < shares_; ++share) {
        const V at = writer_.Add(RowOf(row), writer_.Index(share * tile_.m));
        shares.push_back(writer_.Load(buffers[i], at, 1, false));
      }
    }
  }
  return all;
}

// Maximum and sum of whole rows, over the workitems and subgroups that share them; what the
// subgroups summed is brought to that maximum.
void FragmentAttention::JoinSubgroups() {
  row_max_ = writer_.AddAllocation("row_max", DType::kF32, tile_.m);
  row_sum_ = writer_.AddAllocation("row_sum", DType::kF32, tile_.m);
  for (V& sum : sum_) sum = OverRow(Opcode::kAdd, sum);
  V writes = writer_.Compare(Opcode::kEq, is_staged_ ? row_part_ : lane_col_, writer_.Index(0));
  if (shares_ > 1) {
    const auto all = OverShares({maximum_, sum_});
    Rows scales(sum_.size());
    for (size_t row = 0; row < sum_.size(); ++row) {
      const JoinedRow joined = JoinRow(writer_, all[0][row], all[1][row]);
      scales[row] = ShareOf(writer_, maximum_[row], joined);
      maximum_[row] = joined.maximum;
      sum_[row] = joined.sum;
    }
    ScaleSums(scales);
    writes = writer_.Pure(Opcode::kAnd, writer_.TypeOf(writes),
                          {writes, writer_.Compare(Opcode::kEq, share_, writer_.Index(0))});
  }
  writer_.BeginIf(writes);
  for (size_t row = 0; row < sum_.size(); ++row) {
    writer_.Store(row_max_, RowOf(row), maximum_[row]);
    writer_.Store(row_sum_, RowOf(row), sum_[row]);
  }
  writer_.EndIf({});
}

// Through workgroup memory into vectors of neighbouring columns, some columns at a time.
Status FragmentAttention::EmitResults() {
  JoinSubgroups();
  const AttentionResults results{function_, kernel_,     online_,    writer_,
                                 emitter_,  row_symbol_, col_symbol_};
  const int lanes = tile_.split > 1 ? 4 : ResultLanes(function_, kernel_, online_);
  const int64_t columns = std::min(width_, kChunkColumns);
  // Nobody reads scores any more.
  const bool is_in_scores = is_staged_ && tile_.n >= columns;
  const int64_t stride = is_in_scores ? tile_.n + kScorePad : columns + kChunkPad;
  const kernel::BufferId slice =
      is_in_scores ? scores_
                   : writer_.AddAllocation("slice", DType::kF32, shares_ * tile_.m * stride);
  AttentionParts parts;
  if (tile_.split > 1) parts = AddAttentionParts(emitter_, true);
  const V id = writer_.WorkitemId(0);
  const V share_row = writer_.Mul(share_, writer_.Index(tile_.m));
  const bool checks_row = !exprs_.KnownMultipleOf(rows_.extent, tile_.m);
  for (int64_t begin = 0; begin < width_; begin += columns) {
    const int64_t here = std::min(columns, width_ - begin);
    if (begin > 0) writer_.Barrier();
    for (size_t band = 0; band < sums_.size(); ++band) {
      const V row = writer_.Add(share_row, FirstRow(static_cast<int64_t>(band)));
      for (int64_t col = 0; col < here; col += kSide) {
        const V at = writer_.Add(writer_.Mul(row, writer_.Index(stride)), writer_.Index(col));
        const V sum = sums_[band][static_cast<size_t>((begin + col) / kSide)];
        writer_.Do(Opcode::kFragmentStore, {at, sum, writer_.Index(stride)},
                   {static_cast<int64_t>(FragmentLayout::kRowMajor), 4}, slice);
      }
    }
    writer_.Barrier();
    const int64_t vectors = here / lanes, total = tile_.m * vectors;
    for (int64_t done = 0; done < total; done += workitems_) {
      const V number = writer_.Add(id, writer_.Index(done));
      const bool checks_number = done + workitems_ > total;
      if (checks_number) {
        writer_.BeginIf(writer_.Compare(Opcode::kLt, number, writer_.Index(total)));
      }
      const V row = writer_.FloorDiv(number, writer_.Index(vectors), true);
      const V col =
          writer_.Mul(writer_.FloorMod(number, writer_.Index(vectors), true), writer_.Index(lanes));
      const V all_row = writer_.Add(row_first_, row);
      if (checks_row) {
        writer_.BeginIf(writer_.Compare(Opcode::kLt, all_row, emitter_.Evaluate(rows_.extent)));
      }
      V sum = kNone;
      for (int64_t share = 0; share < shares_; ++share) {
        V at = writer_.Add(writer_.Mul(row, writer_.Index(stride)), col);
        at = writer_.Add(at, writer_.Index(share * tile_.m * stride));
        const V one = writer_.Load(slice, at, lanes, false, 4);
        sum = sum == kNone ? one : Pure(Opcode::kAdd, {sum, one});
      }
      const V all_col = writer_.Add(col, writer_.Index(begin));
      const V row_sum = writer_.Load(row_sum_, row, 1, false);
      const V row_max = writer_.Load(row_max_, row, 1, false);
      if (tile_.split > 1) {
        StoreAttentionPart(results, parts, {part_, batch_, all_row, all_col}, sum, row_max,
                           row_sum);
      } else {
        HY_TRY(EmitAttentionResult(results, all_row, all_col, sum, row_max, row_sum));
      }
      if (checks_row) writer_.EndIf({});
      if (checks_number) writer_.EndIf({});
    }
  }
  return OkStatus();
}

}  // namespace halyard::schedule
