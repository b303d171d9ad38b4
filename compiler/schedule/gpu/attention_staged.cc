// SPDX-License-Identifier: Apache-2.0
// Blocks of keys on a target that keeps to itself where the elements of a fragment are (cooperative
// matrices). Scores pass through workgroup memory, where each row belongs to one or two workitems
// of the subgroup that multiplies it; their weights come back as fragments, and what was summed so
// far is scaled by a fragment whose rows are equal numbers.
#include "compiler/schedule/gpu/attention_builder.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int kScoreLanes = 4;  // scores that a workitem reads together
constexpr int64_t kWeightPad = 8;

int64_t RowMajor() { return static_cast<int64_t>(FragmentLayout::kRowMajor); }

}  // namespace

void FragmentAttention::PlaceSoftRow() {
  row_parts_ = workitems_ / tile_.m;
  const V id = writer_.WorkitemId(0);
  soft_row_ = writer_.FloorDiv(id, writer_.Index(row_parts_), true);
  row_part_ = writer_.FloorMod(id, writer_.Index(row_parts_), true);
  scores_ = writer_.AddAllocation("scores", DType::kF32, tile_.m * (tile_.n + kScorePad));
  weights_ = writer_.AddAllocation("weights", input_, tile_.m * (tile_.n + kWeightPad));
  scales_ = writer_.AddAllocation("scales", DType::kF32, tile_.m * kSide);
}

// This workitem's scores of the block, vectors of neighbouring keys.
Status FragmentAttention::LoadScores(V block, Mask mask, std::vector<V>& scores) {
  const int64_t own = tile_.n / row_parts_;
  const V first = writer_.Mul(row_part_, writer_.Index(own));
  const V key = writer_.Add(writer_.Mul(block, writer_.Index(tile_.n)), first);
  const V at = writer_.Add(writer_.Mul(soft_row_, writer_.Index(tile_.n + kScorePad)), first);
  V row = writer_.Add(row_first_, soft_row_);
  if (!exprs_.KnownMultipleOf(rows_.extent, tile_.m)) {
    row = writer_.Min(row, writer_.Sub(emitter_.Evaluate(rows_.extent), writer_.Index(1)));
  }
  emitter_.Bind(row_symbol_, row);
  emitter_.Shift(rows_.flat, row_symbol_, 0);
  const bool checks_key = mask != Mask::kShown && !exprs_.KnownMultipleOf(keys_.extent, tile_.n);
  V end = kNone;  // of the keys that the row sees
  if (checks_key) end = emitter_.Evaluate(keys_.extent);
  if (mask == Mask::kCut && end_.valid()) {
    const V visible = emitter_.Evaluate(end_);
    end = end == kNone ? visible : writer_.Min(visible, end);
  }
  for (int64_t shift = 0; shift < own; shift += kScoreLanes) {
    const auto before = [&](V last) {
      const V left = writer_.Sub(writer_.Sub(last, key), writer_.Index(shift));
      return writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), kScoreLanes), left);
    };
    const V sums = writer_.Load(scores_, writer_.Add(at, writer_.Index(shift)), kScoreLanes, false,
                                kScoreLanes);
    const V is_key = checks_key ? before(emitter_.Evaluate(keys_.extent)) : kNone;
    emitter_.Shift(keys_.flat, key_symbol_, shift);
    emitter_.BeginVector(key_symbol_, key, kScoreLanes, is_key);
    HY_ASSIGN(V score, EmitScore(sums, mask));
    emitter_.EndVector();
    if (end != kNone) score = writer_.Select(before(end), score, F32(-kInfinity, kScoreLanes));
    scores.push_back(score);
  }
  return OkStatus();
}

// Scores become weights in workgroup memory; maximum, sum and the row's scale follow.
void FragmentAttention::WeighRow(const std::vector<V>& scores) {
  V most = scores[0];
  for (size_t i = 1; i < scores.size(); ++i) most = Pure(Opcode::kMax, {most, scores[i]});
  V low = Extract(most, 0);
  for (int lane = 1; lane < kScoreLanes; ++lane)
    low = Pure(Opcode::kMax, {low, Extract(most, lane)});
  const V maximum = Pure(Opcode::kMax, {maximum_[0], OverRow(Opcode::kMax, low)});
  // Where every key so far is hidden, weights are 0 and not exp(-inf + inf).
  const V is_hidden = writer_.Compare(Opcode::kEq, maximum, F32(-kInfinity));
  const V safe = writer_.Select(is_hidden, F32(0), maximum);
  const V shift = Pure(Opcode::kMul, {safe, F32(-std::numbers::log2e * unit_)});
  const V scale = Exp(maximum_[0], shift);
  const V first = writer_.Mul(row_part_, writer_.Index(tile_.n / row_parts_));
  const V at = writer_.Add(writer_.Mul(soft_row_, writer_.Index(tile_.n + kWeightPad)), first);
  V sum = kNone;
  for (size_t i = 0; i < scores.size(); ++i) {
    const V weight = Exp(scores[i], shift);
    writer_.Store(weights_, writer_.Add(at, writer_.Index(static_cast<int64_t>(i) * kScoreLanes)),
                  writer_.Convert(weight, input_), kNone, kScoreLanes);
    sum = sum == kNone ? weight : Pure(Opcode::kAdd, {sum, weight});
  }
  V whole = Extract(sum, 0);
  for (int lane = 1; lane < kScoreLanes; ++lane)
    whole = Pure(Opcode::kAdd, {whole, Extract(sum, lane)});
  const int64_t columns = kSide / row_parts_;
  const V place = writer_.Add(writer_.Mul(soft_row_, writer_.Index(kSide)),
                              writer_.Mul(row_part_, writer_.Index(columns)));
  for (int64_t col = 0; col < columns; col += kScoreLanes) {
    writer_.Store(scales_, writer_.Add(place, writer_.Index(col)),
                  writer_.Splat(scale, kScoreLanes), kNone, kScoreLanes);
  }
  sum_[0] = Pure(Opcode::kFma, {sum_[0], scale, whole});
  maximum_[0] = maximum;
}

Status FragmentAttention::MultiplyStaged(V block, Mask mask) {
  const V zero = writer_.Index(0),
          nothing = writer_.Value(Opcode::kFragmentFill, AccumulatorType(), {F32(0)});
  const size_t bands = sums_.size();
  const auto multiply = [&](V& sum, V a, V b) {
    sum = writer_.Value(Opcode::kFragmentMma, AccumulatorType(), {a, b, sum});
  };
  std::vector<std::vector<V>> products(
      bands, std::vector<V>(static_cast<size_t>(tile_.n / kSide), nothing));
  for (int64_t d = 0; d < depth_; d += kSide) {
    std::vector<V> keys;
    for (int64_t key = 0; key < tile_.n; key += kSide) {
      keys.push_back(LoadFragment(*key_stage_, FragmentUse::kB, zero, zero, key, d));
    }
    for (size_t band = 0; band < bands; ++band) {
      const V query = queries_.empty() ? LoadQuery(static_cast<int64_t>(band), d)
                                       : queries_[band][static_cast<size_t>(d / kSide)];
      for (size_t i = 0; i < keys.size(); ++i) multiply(products[band][i], query, keys[i]);
    }
  }
  const V stride = writer_.Index(tile_.n + kScorePad);
  for (size_t band = 0; band < bands; ++band) {
    const V first = writer_.Mul(FirstRow(static_cast<int64_t>(band)), stride);
    for (size_t i = 0; i < products[band].size(); ++i) {
      writer_.Do(Opcode::kFragmentStore,
                 {writer_.Add(first, writer_.Index(static_cast<int64_t>(i) * kSide)),
                  products[band][i], stride},
                 {RowMajor(), kScoreLanes}, scores_);
    }
  }
  writer_.Barrier();
  std::vector<V> scores;
  HY_TRY(LoadScores(block, mask, scores));
  WeighRow(scores);
  writer_.Barrier();
  const V weight_stride = writer_.Index(tile_.n + kWeightPad);
  for (size_t band = 0; band < bands; ++band) {
    const V scale =
        writer_.Value(Opcode::kFragmentLoad, AccumulatorType(),
                      {writer_.Mul(FirstRow(static_cast<int64_t>(band)), writer_.Index(kSide)),
                       writer_.Index(kSide)},
                      {RowMajor(), kSide}, scales_);
    for (V& sum : sums_[band]) {
      sum = writer_.Value(Opcode::kMul, AccumulatorType(), {sum, scale});
    }
  }
  for (int64_t key = 0; key < tile_.n; key += kSide) {
    std::vector<V> values;
    for (int64_t col = 0; col < width_; col += kSide) {
      values.push_back(LoadFragment(*value_stage_, FragmentUse::kB, zero, zero, col, key));
    }
    for (size_t band = 0; band < bands; ++band) {
      const V row = writer_.Mul(FirstRow(static_cast<int64_t>(band)), weight_stride);
      const V weight =
          writer_.Value(Opcode::kFragmentLoad, Type{input_, 1, FragmentUse::kA, kSide, kSide},
                        {writer_.Add(row, writer_.Index(key)), weight_stride},
                        {RowMajor(), kWeightPad}, weights_);
      for (size_t i = 0; i < values.size(); ++i) multiply(sums_[band][i], weight, values[i]);
    }
  }
  return OkStatus();
}

}  // namespace halyard::schedule
