// SPDX-License-Identifier: Apache-2.0
// The elements that a workitem has of a fragment of scores are four pairs of neighbouring keys: of
// two rows, 8 apart, and of two runs of 8 keys. "Half" names the row, "pair" the run.
#include "compiler/schedule/gpu/attention_fragments.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <numbers>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/attention_rows.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int64_t kSide = 16;  // of a fragment
constexpr int64_t kSubgroup = 32;
constexpr int64_t kPadBytes = 16;      // rows of workgroup memory start in different banks
constexpr int64_t kMostDepth = 256;    // of a query and of a value
constexpr int64_t kChunkColumns = 32;  // of results that pass through workgroup memory together
constexpr int64_t kChunkPad = 8;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

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
  using Halves = std::array<V, 2>;

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
  Status WalkBlocks(V lo, V hi);
  Status CopyBlock(V block, V stage);
  Status LoadBlock(V block);
  void LoadQueries();
  Status MultiplyBlock(V block, V key_base, V value_base);
  // Of the fragment at `offset` of this subgroup's keys: what the body makes of the sums.
  Status EmitScores(V block, V sums, int64_t offset, std::vector<V> (&scores)[2]);
  std::vector<V> Weigh(const std::vector<V> (&scores)[2]);  // fragments of A
  void JoinSubgroups();
  Status EmitResults();

  V F32(double value, int lanes = 1) { return writer_.Float(DType::kF32, value, lanes); }
  V Pure(Opcode opcode, std::vector<V> operands) {
    const Type type = writer_.TypeOf(operands[0]);
    return writer_.Pure(opcode, type, std::move(operands));
  }
  // exp2(x * log2(e) + shift), lanes wise.
  V Exp(V x, V shift) {
    const int lanes = writer_.LanesOf(x);
    const V scaled =
        Pure(Opcode::kFma, {x, F32(std::numbers::log2e, lanes), writer_.Splat(shift, lanes)});
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
  // Over the four workitems that share a row.
  V OverRow(Opcode opcode, V value) {
    for (const int mask : {1, 2}) value = Pure(opcode, {value, writer_.ShuffleXor(value, mask)});
    return value;
  }
  // The accumulator whose rows are these.
  V RowsAsFragment(const Halves& rows) {
    const V pairs = Concat(writer_.Splat(rows[0], 2), writer_.Splat(rows[1], 2));
    return writer_.Value(Opcode::kFragmentOf, AccumulatorType(), {Concat(pairs, pairs)});
  }
  static Type AccumulatorType() {
    return Type{DType::kF32, 1, FragmentUse::kAccumulator, kSide, kSide};
  }
  void ScaleSums(const Halves& scales) {
    const V scale = RowsAsFragment(scales);
    for (V& sum : sums_) {
      sum = writer_.Value(Opcode::kMul, AccumulatorType(), {sum, scale});
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
  V row_first_ = kNone, part_ = kNone, batch_ = kNone;
  V band_ = kNone, share_ = kNone;                      // of this subgroup
  V lane_row_ = kNone, lane_col_ = kNone;               // of this workitem's first element
  std::vector<V> queries_;                              // fragments, along the depth
  std::vector<V> sums_;                                 // of the values, along the width
  Halves maximum_{}, sum_{};                            // so far; the sum: of this workitem's keys
  kernel::BufferId row_sum_ = kNone, row_max_ = kNone;  // of the workgroup's rows, at the end
};

Status FragmentAttention::CheckRecord() {
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  if (!is_power(tile_.m) || !is_power(tile_.n) || !is_power(tile_.item_n) ||
      tile_.item_m != kSide || tile_.m < kSide || tile_.m > 256 || tile_.item_n < kSide ||
      tile_.item_n > 128 || tile_.n < tile_.item_n || tile_.n > 512) {
    return Bad("bad tile");
  }
  if (tile_.split < 1 || tile_.split > kMostAttentionParts) return Bad("bad split");
  if (tile_.stages < 1 || tile_.stages > 4 || record_.async != (tile_.stages > 1)) {
    return Bad("bad stages");
  }
  if (target_.kind != TargetKind::kCuda || target_.gpu.subgroup_size != kSubgroup) {
    return Bad("the target does not tell where the elements of a fragment are");
  }
  bands_ = tile_.m / kSide;
  shares_ = tile_.n / tile_.item_n;
  workitems_ = bands_ * shares_ * kSubgroup;
  if (workitems_ > target_.gpu.max_workgroup_size) return Bad("too many workitems");
  const auto query = NarrowValue(kernel_, query_), key = NarrowValue(kernel_, key_),
             value = NarrowValue(kernel_, value_);
  if (!query || !key || !value) return Bad("an operand is no 16-bit float");
  narrow_query_ = *query, narrow_key_ = *key, narrow_value_ = *value;
  input_ = kernel_.values[narrow_query_].dtype;
  const MatrixShape shape{input_, DType::kF32, kSide, kSide, kSide};
  const auto& shapes = target_.gpu.matrix_shapes;
  if (kernel_.values[narrow_key_].dtype != input_ ||
      kernel_.values[narrow_value_].dtype != input_ || BitWidth(input_) != 16 ||
      std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) {
    return Bad("the target has no matrix units for its operands");
  }
  const std::optional<int64_t> depth = exprs_.AsConst(online_.scores.k_extent);
  const std::optional<int64_t> width = exprs_.AsConst(online_.values.n_extent);
  if (!depth || !width || *depth < 1 || *width < 1 || *depth > kMostDepth || *width > kMostDepth) {
    return Bad("a query or value is too wide");
  }
  depth_ = RoundUp(*depth, kSide);
  width_ = RoundUp(*width, kSide);
  if (record_.async && (!CanCopy(score_problem_, key_, keys_, narrow_key_) ||
                        !CanCopy(value_problem_, value_, value_problem_.n, narrow_value_))) {
    return Bad("an operand changes on its way into workgroup memory");
  }
  copies_queries_ = record_.async && CanCopy(score_problem_, query_, rows_, narrow_query_);
  return OkStatus();
}

void FragmentAttention::ReadProblem() {
  const AttentionContraction& scores = online_.scores;
  const AttentionContraction& values = online_.values;
  rows_ = SideOf(online_.attention.m, online_.attention.m_extent);
  keys_ = SideOf(scores.n, scores.n_extent);
  score_problem_.m = rows_;
  score_problem_.n = keys_;
  score_problem_.k = SideOf(scores.k, scores.k_extent);
  value_problem_.m = rows_;
  value_problem_.n = SideOf(values.n, values.n_extent);
  value_problem_.k = SideOf(values.k, values.k_extent);
  query_ = FactorOf(scores.rows);
  key_ = FactorOf(scores.vectors);
  value_ = FactorOf(values.vectors);
}

std::unique_ptr<ContractionStage> FragmentAttention::MakeStage(
    const Problem& problem, const Factor& factor, const Side& side, loop::ValueId value,
    int64_t extent, int64_t depth, int64_t stages, bool async, std::string_view name) {
  ContractionStage::Options options;
  options.access = AccessOf(function_, kernel_, problem, factor, side);
  options.extent = extent;
  options.depth = depth;
  options.workitems = workitems_;
  options.stages = stages;
  options.value = value;
  options.pad = kPadBytes * 8 / BitWidth(input_);
  const int64_t inner = options.access.along_k ? depth : extent;
  while (options.access.lanes > inner) options.access.lanes /= 2;
  options.async = async;
  options.name = name;
  return std::make_unique<ContractionStage>(function_, kernel_, problem, factor, side, writer_,
                                            emitter_, options);
}

// Which rows, batch and part of the keys this workgroup has.
Status FragmentAttention::Place(Dispatch& dispatch) {
  const AttentionProblem& attention = online_.attention;
  const Expr blocks = exprs_.CeilDiv(rows_.extent, exprs_.Const(tile_.m));
  dispatch.grid[0] = blocks;
  dispatch.grid[1] = attention.batch_extent;
  dispatch.grid[2] = exprs_.Const(tile_.split);
  for (int axis = 0; axis < 3; ++axis) {
    if (exprs_.AsConst(dispatch.grid[axis]).value_or(0) > target_.gpu.max_grid[axis]) {
      return Bad("its grid is too large for the target");
    }
  }
  batch_ = exprs_.IsConst(attention.batch_extent, 1) ? writer_.Index(0) : writer_.WorkgroupId(1);
  BindBatch(attention, batch_, writer_, emitter_);
  // Rows that see most keys begin first.
  V block = exprs_.IsConst(blocks, 1) ? writer_.Index(0) : writer_.WorkgroupId(0);
  if (online_.visible_end.valid()) {
    block = writer_.Sub(writer_.Sub(emitter_.Evaluate(blocks), writer_.Index(1)), block);
  }
  row_first_ = writer_.Mul(block, writer_.Index(tile_.m));
  part_ = tile_.split == 1 ? writer_.Index(0) : writer_.WorkgroupId(2);
  const V id = workitems_ == kSubgroup ? writer_.Index(0) : writer_.SubgroupId();
  band_ = writer_.FloorDiv(id, writer_.Index(shares_), true);
  share_ = writer_.FloorMod(id, writer_.Index(shares_), true);
  const V lane = writer_.Pure(Opcode::kSubgroupLane, Type{writer_.index_dtype(), 1}, {});
  lane_row_ = writer_.FloorDiv(lane, writer_.Index(4), true);
  lane_col_ = writer_.Mul(writer_.FloorMod(lane, writer_.Index(4), true), writer_.Index(2));
  return OkStatus();
}

// `item` and `place`: along the operand's side; `step`: along what is summed over.
V FragmentAttention::LoadFragment(const ContractionStage& stage, FragmentUse use, V base, V item,
                                  int64_t place, int64_t step) {
  const int64_t stride = stage.stride();
  const bool is_a = use == FragmentUse::kA;
  V at = writer_.Mul(item, writer_.Index(stage.is_k_major() ? 1 : stride));
  const int64_t offset = stage.is_k_major() ? step * stride + place : place * stride + step;
  at = writer_.Add(writer_.Add(base, at), writer_.Index(offset));
  const FragmentLayout layout =
      stage.is_k_major() == is_a ? FragmentLayout::kColumnMajor : FragmentLayout::kRowMajor;
  return writer_.Value(
      Opcode::kFragmentLoad, Type{input_, 1, use, kSide, kSide}, {at, writer_.Index(stride)},
      {static_cast<int64_t>(layout), kPadBytes * 8 / BitWidth(input_)}, stage.buffer());
}

void FragmentAttention::LoadQueries() {
  const V row = writer_.Mul(band_, writer_.Index(kSide));
  for (int64_t d = 0; d < depth_; d += kSide) {
    queries_.push_back(LoadFragment(*query_stage_, FragmentUse::kA, writer_.Index(0), row, 0, d));
  }
}

Status FragmentAttention::CopyBlock(V block, V stage) {
  const V key = writer_.Mul(block, writer_.Index(tile_.n));
  key_stage_->Begin(key);
  HY_TRY(key_stage_->Copy(writer_.Mul(stage, writer_.Index(key_stage_->tile_elements())),
                          writer_.Index(0)));
  return value_stage_->Copy(writer_.Mul(stage, writer_.Index(value_stage_->tile_elements())), key);
}

Status FragmentAttention::LoadBlock(V block) {
  const V key = writer_.Mul(block, writer_.Index(tile_.n)), zero = writer_.Index(0);
  key_stage_->Begin(key);
  HY_ASSIGN(const std::vector<V> keys, key_stage_->Load(zero));
  HY_ASSIGN(const std::vector<V> values, value_stage_->Load(key));
  writer_.Barrier();  // everyone has left the block before
  key_stage_->Store(zero, keys);
  value_stage_->Store(zero, values);
  writer_.Barrier();
  return OkStatus();
}

Status FragmentAttention::EmitScores(V block, V sums, int64_t offset, std::vector<V> (&scores)[2]) {
  const V elements = writer_.Value(Opcode::kFragmentElements, Type{DType::kF32, 8}, {sums});
  const V key = writer_.Add(writer_.Add(writer_.Mul(block, writer_.Index(tile_.n)), lane_col_),
                            writer_.Mul(share_, writer_.Index(tile_.item_n)));
  const bool is_whole = exprs_.KnownMultipleOf(keys_.extent, tile_.n);
  for (int half = 0; half < 2; ++half) {
    V row = writer_.Add(writer_.Add(row_first_, writer_.Mul(band_, writer_.Index(kSide))),
                        writer_.Add(lane_row_, writer_.Index(8 * half)));
    if (!exprs_.KnownMultipleOf(rows_.extent, tile_.m)) {
      row = writer_.Min(row, writer_.Sub(emitter_.Evaluate(rows_.extent), writer_.Index(1)));
    }
    emitter_.Bind(row_symbol_, row);
    emitter_.Shift(rows_.flat, row_symbol_, 0);
    for (int pair = 0; pair < 2; ++pair) {
      const int64_t first = 4 * pair + 2 * half;
      const V both = writer_.Pure(Opcode::kShuffle, Type{DType::kF32, 2}, {elements, elements},
                                  {first, first + 1});
      const int64_t shift = offset + 8 * pair;
      V mask = kNone;
      if (!is_whole) {
        const V left =
            writer_.Sub(emitter_.Evaluate(keys_.extent), writer_.Add(key, writer_.Index(shift)));
        mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), 2), left);
      }
      emitter_.Shift(keys_.flat, key_symbol_, shift);
      emitter_.BeginVector(key_symbol_, key, 2, /*aligned=*/true, mask);
      emitter_.SetValue(online_.scores.sum, both);
      for (loop::OpId id : online_.score_ops) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      V score = writer_.Splat(emitter_.ValueOf(online_.score), 2);
      if (mask != kNone) score = writer_.Select(mask, score, F32(-kInfinity, 2));
      scores[half].push_back(score);
    }
  }
  return OkStatus();
}

// Scores become weights; maximum, sum and what was summed so far follow.
std::vector<V> FragmentAttention::Weigh(const std::vector<V> (&scores)[2]) {
  Halves scales;
  std::vector<V> weights[2];
  for (int half = 0; half < 2; ++half) {
    V most = scores[half][0];
    for (size_t i = 1; i < scores[half].size(); ++i) {
      most = Pure(Opcode::kMax, {most, scores[half][i]});
    }
    most = OverRow(Opcode::kMax, Pure(Opcode::kMax, {Extract(most, 0), Extract(most, 1)}));
    const V maximum = Pure(Opcode::kMax, {maximum_[half], most});
    // Where every key so far is hidden, weights are 0 and not exp(-inf + inf).
    const V is_hidden = writer_.Compare(Opcode::kEq, maximum, F32(-kInfinity));
    const V safe = writer_.Select(is_hidden, F32(0), maximum);
    const V shift = Pure(Opcode::kMul, {safe, F32(-std::numbers::log2e)});
    scales[half] = Exp(maximum_[half], shift);
    V sum = kNone;
    for (V score : scores[half]) {
      const V weight = Exp(score, shift);
      weights[half].push_back(weight);
      sum = sum == kNone ? weight : Pure(Opcode::kAdd, {sum, weight});
    }
    sum = Pure(Opcode::kAdd, {Extract(sum, 0), Extract(sum, 1)});
    sum_[half] = Pure(Opcode::kFma, {sum_[half], scales[half], sum});
    maximum_[half] = maximum;
  }
  ScaleSums(scales);
  std::vector<V> fragments;
  for (size_t i = 0; i < weights[0].size(); i += 2) {
    const V all =
        Concat(Concat(weights[0][i], weights[1][i]), Concat(weights[0][i + 1], weights[1][i + 1]));
    fragments.push_back(writer_.Value(Opcode::kFragmentOf,
                                      Type{input_, 1, FragmentUse::kA, kSide, kSide},
                                      {writer_.Convert(all, input_)}));
  }
  return fragments;
}

Status FragmentAttention::MultiplyBlock(V block, V key_base, V value_base) {
  const V zero = writer_.Value(Opcode::kFragmentFill, AccumulatorType(), {F32(0)});
  const V item = writer_.Mul(share_, writer_.Index(tile_.item_n));
  std::vector<V> scores[2];
  for (int64_t key = 0; key < tile_.item_n; key += kSide) {
    V sums = zero;
    for (int64_t d = 0; d < depth_; d += kSide) {
      const V keys = LoadFragment(*key_stage_, FragmentUse::kB, key_base, item, key, d);
      sums = writer_.Value(Opcode::kFragmentMma, AccumulatorType(),
                           {queries_[static_cast<size_t>(d / kSide)], keys, sums});
    }
    HY_TRY(EmitScores(block, sums, key, scores));
  }
  const std::vector<V> weights = Weigh(scores);
  for (int64_t key = 0; key < tile_.item_n; key += kSide) {
    // The keys of this subgroup are a step along what the values are summed over.
    const V step =
        writer_.Mul(item, writer_.Index(value_stage_->is_k_major() ? value_stage_->stride() : 1));
    const V base = writer_.Add(value_base, step);
    for (int64_t col = 0; col < width_; col += kSide) {
      const V values =
          LoadFragment(*value_stage_, FragmentUse::kB, base, writer_.Index(0), col, key);
      V& sum = sums_[static_cast<size_t>(col / kSide)];
      sum = writer_.Value(Opcode::kFragmentMma, AccumulatorType(),
                          {weights[static_cast<size_t>(key / kSide)], values, sum});
    }
  }
  return OkStatus();
}

// stages - 1 blocks are on their way while one is multiplied; after the barrier of a step,
// everyone has left the block that the next copies overwrite.
Status FragmentAttention::WalkBlocks(V lo, V hi) {
  const V zero = writer_.Index(0), one = writer_.Index(1);
  const bool is_always = tile_.split == 1 && exprs_.RangeOf(keys_.extent).lo >= 1;
  const int64_t ahead = tile_.stages - 1;
  const auto wait = [&] {
    writer_.Do(Opcode::kAsyncWait, {}, {ahead - 1});
    writer_.Barrier();
  };
  const auto copy = [&](V block, V stage, bool guards) -> Status {
    if (guards) writer_.BeginIf(writer_.Compare(Opcode::kLt, block, hi));
    HY_TRY(CopyBlock(block, stage));
    if (guards) writer_.EndIf({});
    writer_.Do(Opcode::kAsyncCommit, {}, {});
    return OkStatus();
  };
  query_stage_->Begin(row_first_);
  value_stage_->Begin(zero);
  if (copies_queries_) {
    HY_TRY(query_stage_->Copy(zero, zero));
  } else {
    HY_ASSIGN(const std::vector<V> queries, query_stage_->Load(zero));
    query_stage_->Store(zero, queries);
  }
  if (record_.async) {
    for (int64_t s = 0; s < ahead; ++s) {
      HY_TRY(copy(writer_.Add(lo, writer_.Index(s)), writer_.Index(s), s > 0 || !is_always));
    }
    wait();
  } else {
    writer_.Barrier();
  }
  LoadQueries();
  const V nothing = writer_.Value(Opcode::kFragmentFill, AccumulatorType(), {F32(0)});
  std::vector<V> carried(static_cast<size_t>(width_ / kSide), nothing);
  const size_t count = carried.size();
  for (int half = 0; half < 2; ++half) carried.push_back(F32(-kInfinity));
  for (int half = 0; half < 2; ++half) carried.push_back(F32(0));
  if (record_.async) {
    carried.push_back(zero);                  // the stage to read
    carried.push_back(writer_.Index(ahead));  // the stage to fill
  }
  const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, is_always);
  const auto take = [&](const std::vector<V>& values) {
    sums_.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
    maximum_ = {values[count], values[count + 1]};
    sum_ = {values[count + 2], values[count + 3]};
  };
  take(loop.carried);
  V read = zero, fill = zero;
  if (record_.async) {
    read = loop.carried[count + 4], fill = loop.carried[count + 5];
    HY_TRY(copy(writer_.Add(loop.variable, writer_.Index(ahead)), fill, true));
  } else {
    HY_TRY(LoadBlock(loop.variable));
  }
  HY_TRY(MultiplyBlock(loop.variable, writer_.Mul(read, writer_.Index(key_stage_->tile_elements())),
                       writer_.Mul(read, writer_.Index(value_stage_->tile_elements()))));
  std::vector<V> yields = sums_;
  yields.insert(yields.end(), maximum_.begin(), maximum_.end());
  yields.insert(yields.end(), sum_.begin(), sum_.end());
  if (record_.async) {
    wait();
    for (V stage : {read, fill}) {
      const V more = writer_.Add(stage, one);
      yields.push_back(writer_.Select(
          writer_.Compare(Opcode::kEq, more, writer_.Index(tile_.stages)), zero, more));
    }
  }
  take(writer_.EndFor(yields));
  return OkStatus();
}

// Maximum and sum of whole rows, over the workitems and subgroups that share them; what the
// subgroups summed is brought to that maximum.
void FragmentAttention::JoinSubgroups() {
  row_max_ = writer_.AddAllocation("row_max", DType::kF32, tile_.m);
  row_sum_ = writer_.AddAllocation("row_sum", DType::kF32, tile_.m);
  for (V& sum : sum_) sum = OverRow(Opcode::kAdd, sum);
  const V row = writer_.Add(writer_.Mul(band_, writer_.Index(kSide)), lane_row_);
  const auto at_row = [&](int half) { return writer_.Add(row, writer_.Index(8 * half)); };
  V writes = writer_.Compare(Opcode::kEq, lane_col_, writer_.Index(0));
  if (shares_ > 1) {
    const kernel::BufferId maxima =
        writer_.AddAllocation("share_max", DType::kF32, shares_ * tile_.m);
    const kernel::BufferId sums =
        writer_.AddAllocation("share_sum", DType::kF32, shares_ * tile_.m);
    const V own = writer_.Mul(share_, writer_.Index(tile_.m));
    writer_.BeginIf(writes);
    for (int half = 0; half < 2; ++half) {
      const V at = writer_.Add(own, at_row(half));
      writer_.Store(maxima, at, maximum_[half]);
      writer_.Store(sums, at, sum_[half]);
    }
    writer_.EndIf({});
    writer_.Barrier();
    Halves scales;
    for (int half = 0; half < 2; ++half) {
      std::vector<V> all_maxima, all_sums;
      for (int64_t share = 0; share < shares_; ++share) {
        const V at = writer_.Add(at_row(half), writer_.Index(share * tile_.m));
        all_maxima.push_back(writer_.Load(maxima, at, 1, false));
        all_sums.push_back(writer_.Load(sums, at, 1, false));
      }
      const JoinedRow joined = JoinRow(writer_, all_maxima, all_sums);
      scales[half] = ShareOf(writer_, maximum_[half], joined);
      maximum_[half] = joined.maximum;
      sum_[half] = joined.sum;
    }
    ScaleSums(scales);
    writes = writer_.Pure(Opcode::kAnd, writer_.TypeOf(writes),
                          {writes, writer_.Compare(Opcode::kEq, share_, writer_.Index(0))});
  }
  writer_.BeginIf(writes);
  for (int half = 0; half < 2; ++half) {
    writer_.Store(row_max_, at_row(half), maximum_[half]);
    writer_.Store(row_sum_, at_row(half), sum_[half]);
  }
  writer_.EndIf({});
}

// Through workgroup memory into vectors of neighbouring columns, some columns at a time.
Status FragmentAttention::EmitResults() {
  JoinSubgroups();
  const AttentionResults results{function_, kernel_,     online_,    writer_,
                                 emitter_,  row_symbol_, col_symbol_};
  const int lanes = tile_.split > 1 ? 4 : ResultLanes(function_, kernel_, online_);
  const int64_t columns = std::min(width_, kChunkColumns), stride = columns + kChunkPad;
  const kernel::BufferId slice =
      writer_.AddAllocation("slice", DType::kF32, shares_ * tile_.m * stride);
  AttentionParts parts;
  if (tile_.split > 1) parts = AddAttentionParts(emitter_, true);
  const V id = writer_.WorkitemId(0);
  const V first_row = writer_.Add(writer_.Mul(share_, writer_.Index(tile_.m)),
                                  writer_.Mul(band_, writer_.Index(kSide)));
  const bool checks_row = !exprs_.KnownMultipleOf(rows_.extent, tile_.m);
  for (int64_t begin = 0; begin < width_; begin += columns) {
    const int64_t here = std::min(columns, width_ - begin);
    if (begin > 0) writer_.Barrier();
    for (int64_t col = 0; col < here; col += kSide) {
      const V at = writer_.Add(writer_.Mul(first_row, writer_.Index(stride)), writer_.Index(col));
      writer_.Do(Opcode::kFragmentStore,
                 {at, sums_[static_cast<size_t>((begin + col) / kSide)], writer_.Index(stride)},
                 {static_cast<int64_t>(FragmentLayout::kRowMajor), 4}, slice);
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

Result<ScheduledKernel> FragmentAttention::Build() {
  ReadProblem();
  HY_TRY(CheckRecord());
  writer_.SetWorkgroup(workitems_, kSubgroup);
  row_symbol_ = exprs_.Loop("row", rows_.extent);
  key_symbol_ = exprs_.Loop("key", keys_.extent);
  col_symbol_ = exprs_.Loop("column", online_.values.n_extent);
  const auto whole = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  };
  query_stage_ = MakeStage(score_problem_, query_, rows_, narrow_query_, tile_.m, whole(depth_), 1,
                           copies_queries_, "queries");
  key_stage_ = MakeStage(score_problem_, key_, keys_, narrow_key_, tile_.n, whole(depth_),
                         tile_.stages, record_.async, "keys");
  value_stage_ = MakeStage(value_problem_, value_, value_problem_.n, narrow_value_, whole(width_),
                           tile_.n, tile_.stages, record_.async, "values");
  Dispatch dispatch;
  HY_TRY(Place(dispatch));
  for (loop::OpId id : online_.attention.constants) HY_TRY(emitter_.EmitOp(id));
  V lo = writer_.Index(0);
  V hi = KeyBlocks(exprs_, online_, writer_, emitter_, row_symbol_, row_first_, tile_.m, tile_.n);
  if (tile_.split > 1) {
    const V parts = writer_.Index(tile_.split);
    const V per = writer_.FloorDiv(writer_.Add(hi, writer_.Index(tile_.split - 1)), parts, true);
    lo = writer_.Mul(part_, per);
    hi = writer_.Min(writer_.Add(lo, per), hi);
  }
  HY_TRY(WalkBlocks(lo, hi));
  HY_TRY(EmitResults());
  ScheduledKernel scheduled;
  scheduled.record = record_;
  dispatch.bindings = emitter_.bindings;
  dispatch.scalars = emitter_.scalars;
  scheduled.kernels.push_back(writer_.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  int64_t memory = 0;
  for (const kernel::Buffer& buffer : scheduled.kernels[0].buffers) {
    if (buffer.space == kernel::MemorySpace::kWorkgroup) {
      memory += RoundUp(buffer.elements * BitWidth(buffer.dtype) / 8, 128);
    }
  }
  if (memory > target_.gpu.workgroup_memory_bytes) return Bad("too much workgroup memory");
  if (tile_.split > 1) {
    HY_TRY(AddAttentionJoin(function_, kernel_, online_, tile_.split, target_, scheduled));
  }
  return scheduled;
}

// Cycles of a unit that a record takes for hinted sizes; the constants are those of an H200.
double CyclesOf(const GpuTile& tile, int64_t workgroups, int64_t keys, int64_t depth, int64_t width,
                bool is_causal, int64_t units) {
  constexpr double kMultiplies = 1200, kScores = 10, kBytes = 48, kLatency = 900, kStart = 2500;
  const int64_t workitems = tile.m / kSide * (tile.n / tile.item_n) * kSubgroup;
  double steps = static_cast<double>(RoundUp(keys, tile.n) / tile.n);
  steps = std::max(1.0, steps / static_cast<double>(tile.split));
  if (is_causal) steps = std::max(1.0, steps * 0.55);
  const double area = static_cast<double>(tile.m) * tile.n;
  const double work = area * static_cast<double>(depth + width) / kMultiplies + area / kScores +
                      static_cast<double>(tile.n * (depth + width) * 2) / kBytes;
  const double memory = static_cast<double>(
      ((tile.m + tile.stages * tile.n) * depth + tile.stages * tile.n * width) * 2);
  const double most =
      std::max(1.0, std::min({1536.0 / static_cast<double>(workitems), 200e3 / memory, 16.0}));
  const double together =
      std::min(most, std::max(1.0, static_cast<double>(workgroups) / static_cast<double>(units)));
  const double waves =
      std::ceil(static_cast<double>(workgroups) / (static_cast<double>(units) * together));
  const double chain = kLatency + static_cast<double>(tile.item_n * (depth + width)) / 8;
  const double join = tile.split > 1 ? 4000 : 0;
  return waves * (steps * std::max(work * together, chain) + kStart) + join;
}

}  // namespace

std::vector<ScheduleRecord> EnumerateFragmentAttention(const loop::Function& function,
                                                       uint32_t kernel, const OnlineSoftmax& online,
                                                       const Target& target) {
  constexpr size_t kMost = 4;
  const auto hint = [&](Expr e) { return std::max<int64_t>(1, function.exprs->HintOf(e)); };
  const int64_t rows = hint(online.attention.m_extent), keys = hint(online.scores.n_extent);
  const int64_t batch = hint(online.attention.batch_extent);
  const int64_t depth = hint(online.scores.k_extent), width = hint(online.values.n_extent);
  const int64_t units = target.gpu.unit_count > 0 ? target.gpu.unit_count : 64;
  std::vector<std::pair<double, ScheduleRecord>> ranked;
  for (const int32_t m : {16, 32, 64, 128}) {
    if (m > kSide && m >= 2 * rows) continue;
    for (const int32_t n : {32, 64, 128}) {
      for (const int32_t item_n : {16, 32, 64}) {
        const int64_t subgroups = m / kSide * (n / item_n);
        if (item_n > n || subgroups < 2 || subgroups > 8 || (n > 32 && n >= 2 * keys)) continue;
        for (const int32_t stages : {1, 2}) {
          for (int32_t split = 1; split <= kMostAttentionParts; split *= 2) {
            const int64_t workgroups = batch * ((rows + m - 1) / m);
            if (split > 1 && (workgroups * split > 4 * units || keys < 4 * n * split)) break;
            ScheduleRecord record;
            record.kind = ScheduleKind::kGpuMatrixAttention;
            record.tile.m = m, record.tile.n = n;
            record.tile.item_m = kSide, record.tile.item_n = item_n;
            record.tile.stages = stages, record.tile.split = split;
            record.async = stages > 1;
            double cycles = CyclesOf(record.tile, workgroups * split, keys, depth, width,
                                     online.visible_end.valid(), units);
            if (stages == 1) cycles *= 1.25;  // nothing is on its way
            ranked.emplace_back(cycles, record);
          }
        }
      }
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ScheduleRecord> records;
  for (const auto& [cycles, record] : ranked) {
    if (records.size() == kMost) break;
    if (BuildFragmentAttention(function, kernel, record, online, target).ok()) {
      records.push_back(record);
    }
  }
  return records;
}

Result<ScheduledKernel> BuildFragmentAttention(const loop::Function& function, uint32_t kernel,
                                               const ScheduleRecord& record,
                                               const OnlineSoftmax& online, const Target& target) {
  return FragmentAttention(function, function.kernels[kernel], record, target, online).Build();
}

}  // namespace halyard::schedule
