// SPDX-License-Identifier: Apache-2.0
// The elements that a workitem has of a fragment of scores are four pairs of neighbouring keys: of
// two rows, 8 apart, and of two runs of 8 keys. "Half" names the row, "pair" the run.
#include "compiler/schedule/gpu/attention_fragments.h"

#include <algorithm>
#include <bit>

#include "base/gpu_kernel_abi.h"
#include "compiler/schedule/gpu/attention_builder.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/rounding.h"

namespace halyard::schedule {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int64_t kPadBytes = 16;       // rows of workgroup memory start in different banks
constexpr int64_t kMostDepth = 256;     // of a query and of a value
constexpr int64_t kMostQueries = 2048;  // elements of a subgroup that stay in registers

}  // namespace

Status FragmentAttention::CheckRecord() {
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  if (!is_power(tile_.m) || !is_power(tile_.n) || !is_power(tile_.item_n) ||
      (tile_.item_m != kSide && tile_.item_m != 2 * kSide) || tile_.m < tile_.item_m ||
      tile_.m > 256 || tile_.item_n < kSide || tile_.item_n > 128 || tile_.n < tile_.item_n ||
      tile_.n > 512) {
    return Bad("bad tile");
  }
  if (tile_.split < 1 || tile_.split > kMostAttentionParts) return Bad("bad split");
  if (tile_.raster < 1) return Bad("bad raster");
  if (tile_.stages < 1 || tile_.stages > 4 || record_.async != (tile_.stages > 1)) {
    return Bad("bad stages");
  }
  if (target_.gpu.subgroup_size != kSubgroup) return Bad("the target has other subgroups");
  is_staged_ = target_.kind != TargetKind::kCuda;
  bands_ = tile_.m / tile_.item_m;
  shares_ = tile_.n / tile_.item_n;
  if (is_staged_ && (shares_ != 1 || record_.async)) {
    return Bad("the target does not tell where the elements of a fragment are");
  }
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

// Which rows, batch and part of the keys this workgroup has. Rows that see most keys begin first,
// those of `raster` batches before the next rows of any of them.
Status FragmentAttention::Place(Dispatch& dispatch) {
  const AttentionProblem& attention = online_.attention;
  const Expr blocks = exprs_.CeilDiv(rows_.extent, exprs_.Const(tile_.m));
  const bool is_one = exprs_.IsConst(attention.batch_extent, 1) || exprs_.IsConst(blocks, 1);
  const int64_t raster = is_one ? 1 : tile_.raster;
  dispatch.grid[0] = raster > 1 ? exprs_.Mul(blocks, attention.batch_extent) : blocks;
  dispatch.grid[1] = raster > 1 ? exprs_.Const(1) : attention.batch_extent;
  dispatch.grid[2] = exprs_.Const(tile_.split);
  for (int axis = 0; axis < 3; ++axis) {
    if (exprs_.AsConst(dispatch.grid[axis]).value_or(0) > target_.gpu.max_grid[axis]) {
      return Bad("its grid is too large for the target");
    }
  }
  V block = exprs_.IsConst(blocks, 1) ? writer_.Index(0) : writer_.WorkgroupId(0);
  if (raster > 1) {
    const V number = block, first_of = writer_.Index(raster);
    const V group_size = writer_.Mul(emitter_.Evaluate(blocks), first_of);
    const V group = writer_.FloorDiv(number, group_size, true);
    const V within = writer_.FloorMod(number, group_size, true);
    const V first = writer_.Mul(group, first_of);
    V count = first_of;
    if (!exprs_.KnownMultipleOf(attention.batch_extent, raster)) {
      count = writer_.Min(count, writer_.Sub(emitter_.Evaluate(attention.batch_extent), first));
    }
    block = writer_.FloorDiv(within, count, true);
    batch_ = writer_.Add(first, writer_.FloorMod(within, count, true));
  } else {
    const bool is_alone = exprs_.IsConst(attention.batch_extent, 1);
    batch_ = is_alone ? writer_.Index(0) : writer_.WorkgroupId(1);
  }
  BindBatch(attention, batch_, writer_, emitter_);
  if (end_.valid()) {
    block = writer_.Sub(writer_.Sub(emitter_.Evaluate(blocks), writer_.Index(1)), block);
  }
  row_first_ = writer_.Mul(block, writer_.Index(tile_.m));
  part_ = tile_.split == 1 ? writer_.Index(0) : writer_.WorkgroupId(2);
  const V id = workitems_ == kSubgroup ? writer_.Index(0) : writer_.SubgroupId();
  band_ = writer_.FloorDiv(id, writer_.Index(shares_), true);
  share_ = writer_.FloorMod(id, writer_.Index(shares_), true);
  if (is_staged_) {
    PlaceSoftRow();
    return OkStatus();
  }
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

V FragmentAttention::LoadQuery(int64_t band, int64_t step) {
  return LoadFragment(*query_stage_, FragmentUse::kA, writer_.Index(0), FirstRow(band), 0, step);
}

Status FragmentAttention::CopyBlock(V block, V stage) {
  const V key = writer_.Mul(block, writer_.Index(tile_.n));
  key_stage_->Begin(key);
  HY_TRY(key_stage_->Copy(writer_.Mul(stage, writer_.Index(key_stage_->tile_elements())),
                          writer_.Index(0)));
  return value_stage_->Copy(writer_.Mul(stage, writer_.Index(value_stage_->tile_elements())), key);
}

Status FragmentAttention::CopyAhead(V block, V stage, V last) {
  if (last != kNone) writer_.BeginIf(writer_.Compare(Opcode::kLt, block, last));
  HY_TRY(CopyBlock(block, stage));
  if (last != kNone) writer_.EndIf({});
  writer_.Do(Opcode::kAsyncCommit, {}, {});
  return OkStatus();
}

void FragmentAttention::WaitForBlock() {
  writer_.Do(Opcode::kAsyncWait, {}, {tile_.stages - 2});
  writer_.Barrier();
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

Result<V> FragmentAttention::EmitScore(V sums, Mask mask) {
  const int lanes = writer_.LanesOf(sums);
  emitter_.SetValue(online_.scores.sum, sums);
  if (mask == Mask::kAll) {
    for (loop::OpId id : online_.score_ops) HY_TRY(emitter_.EmitOp(id));
    return writer_.Splat(emitter_.ValueOf(online_.score), lanes);
  }
  for (const ShownOp& shown : online_.shown_ops) {
    const loop::Op& op = kernel_.ops[shown.op];
    if (shown.same != loop::kNone) {
      emitter_.SetValue(op.results[0], emitter_.ValueOf(shown.same));
    } else if (!shown.choice) {
      HY_TRY(emitter_.EmitOp(shown.op));
    } else {
      const auto number = [&](double value, int count) {
        return IsFloat(op.dtype) ? writer_.Float(op.dtype, value, count)
                                 : writer_.Const(op.dtype, static_cast<int64_t>(value), count);
      };
      V value = number(shown.choice->yes, 1);
      if (shown.choice->condition != loop::kNone) {
        const V condition = emitter_.ValueOf(shown.choice->condition);
        const int count = writer_.LanesOf(condition);
        value = writer_.Select(condition, number(shown.choice->yes, count),
                               number(shown.choice->no, count));
      }
      emitter_.SetValue(op.results[0], value);
    }
  }
  const V score = writer_.Splat(emitter_.ValueOf(online_.shown_score), lanes);
  if (online_.shown_bias == loop::kNone) return score;
  return Pure(Opcode::kFma, {score, F32(online_.shown_factor, lanes),
                             writer_.Splat(emitter_.ValueOf(online_.shown_bias), lanes)});
}

Status FragmentAttention::EmitScores(V block, V sums, int64_t band, int64_t offset, Mask mask,
                                     Scores& scores) {
  const V elements = writer_.Value(Opcode::kFragmentElements, Type{DType::kF32, 8}, {sums});
  const V key = writer_.Add(writer_.Add(writer_.Mul(block, writer_.Index(tile_.n)), lane_col_),
                            writer_.Mul(share_, writer_.Index(tile_.item_n)));
  const bool checks_key = mask != Mask::kShown && !exprs_.KnownMultipleOf(keys_.extent, tile_.n);
  for (int half = 0; half < 2; ++half) {
    const size_t row_number = static_cast<size_t>(2 * band + half);
    V row = writer_.Add(row_first_, RowOf(row_number));
    if (!exprs_.KnownMultipleOf(rows_.extent, tile_.m)) {
      row = writer_.Min(row, writer_.Sub(emitter_.Evaluate(rows_.extent), writer_.Index(1)));
    }
    emitter_.Bind(row_symbol_, row);
    emitter_.Shift(rows_.flat, row_symbol_, 0);
    V end = kNone;  // of the keys that the row sees
    if (checks_key) end = emitter_.Evaluate(keys_.extent);
    if (mask == Mask::kCut && end_.valid()) {
      const V visible = emitter_.Evaluate(end_);
      end = end == kNone ? visible : writer_.Min(visible, end);
    }
    for (int pair = 0; pair < 2; ++pair) {
      const int64_t first = 4 * pair + 2 * half;
      const V both = writer_.Pure(Opcode::kShuffle, Type{DType::kF32, 2}, {elements, elements},
                                  {first, first + 1});
      const int64_t shift = offset + 8 * pair;
      const auto before = [&](V last) {
        const V left = writer_.Sub(writer_.Sub(last, key), writer_.Index(shift));
        return writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), 2), left);
      };
      const V is_seen = end == kNone ? kNone : before(end);
      // What a key alone decides is read once for all rows.
      const V is_key = checks_key ? before(emitter_.Evaluate(keys_.extent)) : kNone;
      emitter_.Shift(keys_.flat, key_symbol_, shift);
      emitter_.BeginVector(key_symbol_, key, 2, is_key);
      HY_ASSIGN(V score, EmitScore(both, mask));
      emitter_.EndVector();
      if (is_seen != kNone) score = writer_.Select(is_seen, score, F32(-kInfinity, 2));
      scores[row_number].push_back(score);
    }
  }
  return OkStatus();
}

// Maximum, sum and what was summed so far follow.
std::vector<std::vector<V>> FragmentAttention::Weigh(const Scores& scores) {
  Rows scales(scores.size());
  Scores weights(scores.size());
  for (size_t row = 0; row < scores.size(); ++row) {
    V most = scores[row][0];
    for (size_t i = 1; i < scores[row].size(); ++i) {
      most = Pure(Opcode::kMax, {most, scores[row][i]});
    }
    most = OverRow(Opcode::kMax, Pure(Opcode::kMax, {Extract(most, 0), Extract(most, 1)}));
    const V maximum = Pure(Opcode::kMax, {maximum_[row], most});
    // Where every key so far is hidden, weights are 0 and not exp(-inf + inf).
    const V is_hidden = writer_.Compare(Opcode::kEq, maximum, F32(-kInfinity));
    const V safe = writer_.Select(is_hidden, F32(0), maximum);
    const V shift = Pure(Opcode::kMul, {safe, F32(-std::numbers::log2e * unit_)});
    scales[row] = Exp(maximum_[row], shift);
    V sum = kNone;
    for (V score : scores[row]) {
      const V weight = Exp(score, shift);
      weights[row].push_back(weight);
      sum = sum == kNone ? weight : Pure(Opcode::kAdd, {sum, weight});
    }
    sum = Pure(Opcode::kAdd, {Extract(sum, 0), Extract(sum, 1)});
    sum_[row] = Pure(Opcode::kFma, {sum_[row], scales[row], sum});
    maximum_[row] = maximum;
  }
  ScaleSums(scales);
  std::vector<std::vector<V>> fragments;
  for (size_t row = 0; row < weights.size(); row += 2) {
    std::vector<V>& some = fragments.emplace_back();
    for (size_t i = 0; i < weights[row].size(); i += 2) {
      const V all = Concat(Concat(weights[row][i], weights[row + 1][i]),
                           Concat(weights[row][i + 1], weights[row + 1][i + 1]));
      some.push_back(writer_.Value(Opcode::kFragmentOf,
                                   Type{input_, 1, FragmentUse::kA, kSide, kSide},
                                   {writer_.Convert(all, input_)}));
    }
  }
  return fragments;
}

V FragmentAttention::Works(V block, Mask mask) {
  V works = kNone;
  const V first_row = writer_.Add(row_first_, FirstRow(0));
  if (bands_ > 1 && !exprs_.KnownMultipleOf(rows_.extent, tile_.m)) {
    works = writer_.Compare(Opcode::kLt, first_row, emitter_.Evaluate(rows_.extent));
  }
  if (mask != Mask::kCut || (bands_ == 1 && shares_ == 1)) return works;
  V end = emitter_.Evaluate(keys_.extent);
  if (end_.valid()) {
    const V last = writer_.Add(first_row, writer_.Index(tile_.item_m - 1));
    emitter_.Bind(row_symbol_, writer_.Min(last, writer_.Sub(emitter_.Evaluate(rows_.extent),
                                                             writer_.Index(1))));
    emitter_.Shift(rows_.flat, row_symbol_, 0);
    end = writer_.Min(emitter_.Evaluate(end_), end);
  }
  const V key = writer_.Add(writer_.Mul(block, writer_.Index(tile_.n)),
                            writer_.Mul(share_, writer_.Index(tile_.item_n)));
  const V sees = writer_.Compare(Opcode::kLt, key, end);
  return works == kNone ? sees : writer_.Pure(Opcode::kAnd, writer_.TypeOf(sees), {works, sees});
}

// Fragments are read one step before they are multiplied, and the products of a step do not wait
// for each other.
Status FragmentAttention::MultiplyBlock(V block, V key_base, V value_base, Mask mask) {
  const V works = Works(block, mask);
  const std::vector<V> before = State();
  if (works != kNone) writer_.BeginIf(works);
  const V zero = writer_.Value(Opcode::kFragmentFill, AccumulatorType(), {F32(0)});
  const V item = writer_.Mul(share_, writer_.Index(tile_.item_n));
  const size_t bands = sums_.size();
  std::vector<std::vector<V>> products(
      bands, std::vector<V>(static_cast<size_t>(tile_.item_n / kSide), zero));
  const auto multiply = [&](V& sum, V a, V b) {
    sum = writer_.Value(Opcode::kFragmentMma, AccumulatorType(), {a, b, sum});
  };
  const auto load_keys = [&](int64_t d) {
    std::vector<V> keys;
    for (int64_t key = 0; key < tile_.item_n; key += kSide) {
      keys.push_back(LoadFragment(*key_stage_, FragmentUse::kB, key_base, item, key, d));
    }
    return keys;
  };
  // The keys of this subgroup are a step along what the values are summed over.
  const V base = writer_.Add(
      value_base,
      writer_.Mul(item, writer_.Index(value_stage_->is_k_major() ? value_stage_->stride() : 1)));
  const auto load_values = [&](int64_t key) {
    std::vector<V> values;
    for (int64_t col = 0; col < width_; col += kSide) {
      values.push_back(
          LoadFragment(*value_stage_, FragmentUse::kB, base, writer_.Index(0), col, key));
    }
    return values;
  };
  std::vector<V> next = load_keys(0), values;
  for (int64_t d = 0; d < depth_; d += kSide) {
    const std::vector<V> keys = std::move(next);
    std::vector<V> queries;
    for (size_t band = 0; band < bands; ++band) {
      queries.push_back(queries_.empty() ? LoadQuery(static_cast<int64_t>(band), d)
                                         : queries_[band][static_cast<size_t>(d / kSide)]);
    }
    if (d + kSide < depth_) {
      next = load_keys(d + kSide);
    } else {
      values = load_values(0);
    }
    for (size_t band = 0; band < bands; ++band) {
      for (size_t i = 0; i < keys.size(); ++i) multiply(products[band][i], queries[band], keys[i]);
    }
  }
  Scores scores(2 * bands);
  for (size_t band = 0; band < bands; ++band) {
    for (size_t i = 0; i < products[band].size(); ++i) {
      HY_TRY(EmitScores(block, products[band][i], static_cast<int64_t>(band),
                        static_cast<int64_t>(i) * kSide, mask, scores));
    }
  }
  const std::vector<std::vector<V>> weights = Weigh(scores);
  for (int64_t key = 0; key < tile_.item_n; key += kSide) {
    const std::vector<V> now = std::move(values);
    if (key + kSide < tile_.item_n) values = load_values(key + kSide);
    for (size_t band = 0; band < bands; ++band) {
      for (size_t i = 0; i < now.size(); ++i) {
        multiply(sums_[band][i], weights[band][static_cast<size_t>(key / kSide)], now[i]);
      }
    }
  }
  if (works != kNone) {
    writer_.BeginElse(State());
    SetState(writer_.EndIf(before));
  }
  return OkStatus();
}

// stages - 1 blocks are on their way while one is multiplied; after the barrier of a step,
// everyone has left the block that the next copies overwrite. `carried` ends with the stages to
// read and to fill, where copies are asynchronous.
Status FragmentAttention::WalkSome(V lo, V hi, V last, bool is_always, Mask mask,
                                   std::vector<V>& carried) {
  const V zero = writer_.Index(0), one = writer_.Index(1);
  const Writer::Loop loop = writer_.BeginFor(lo, hi, one, carried, is_always);
  SetState(loop.carried);
  const size_t count = carried.size();
  V read = zero, fill = zero;
  if (record_.async) {
    const int64_t ahead = tile_.stages - 1;
    read = loop.carried[count - 2], fill = loop.carried[count - 1];
    HY_TRY(CopyAhead(writer_.Add(loop.variable, writer_.Index(ahead)), fill, last));
  } else {
    HY_TRY(LoadBlock(loop.variable));
  }
  if (is_staged_) {
    HY_TRY(MultiplyStaged(loop.variable, mask));
  } else {
    HY_TRY(MultiplyBlock(loop.variable,
                         writer_.Mul(read, writer_.Index(key_stage_->tile_elements())),
                         writer_.Mul(read, writer_.Index(value_stage_->tile_elements())), mask));
  }
  std::vector<V> yields = State();
  if (record_.async) {
    WaitForBlock();
    for (V stage : {read, fill}) {
      const V more = writer_.Add(stage, one);
      yields.push_back(writer_.Select(
          writer_.Compare(Opcode::kEq, more, writer_.Index(tile_.stages)), zero, more));
    }
  }
  carried = writer_.EndFor(yields);
  SetState(carried);
  return OkStatus();
}

// Nothing is on its way and nobody reads a block. `carried` becomes the state before the first.
Status FragmentAttention::StartCopies(V lo, V hi, bool is_always, std::vector<V>& carried) {
  const int64_t ahead = tile_.stages - 1;
  if (record_.async) {
    for (int64_t s = 0; s < ahead; ++s) {
      HY_TRY(CopyAhead(writer_.Add(lo, writer_.Index(s)), writer_.Index(s),
                       s > 0 || !is_always ? hi : kNone));
    }
    WaitForBlock();
  } else {
    writer_.Barrier();
  }
  const size_t bands = static_cast<size_t>(tile_.item_m / kSide);
  const V nothing = writer_.Value(Opcode::kFragmentFill, AccumulatorType(), {F32(0)});
  sums_.assign(bands, std::vector<V>(static_cast<size_t>(width_ / kSide), nothing));
  const size_t rows = is_staged_ ? 1 : 2 * bands;
  maximum_.assign(rows, F32(-kInfinity));
  sum_.assign(rows, F32(0));
  carried = State();
  if (record_.async) {
    carried.push_back(writer_.Index(0));      // the stage to read
    carried.push_back(writer_.Index(ahead));  // the stage to fill
  }
  return OkStatus();
}

// Uniform in the workgroup. NaN is something.
V FragmentAttention::SomeRowSeesNothing() {
  Rows maxima = maximum_;
  if (shares_ > 1) {
    const auto all = OverShares({maximum_})[0];
    for (size_t row = 0; row < maxima.size(); ++row) {
      for (V one : all[row]) maxima[row] = Pure(Opcode::kMax, {maxima[row], one});
    }
  }
  V some = F32(0);
  for (size_t row = 0; row < maxima.size(); ++row) {
    V low = writer_.Compare(Opcode::kLt, maxima[row], F32(kHidingScore / 2));
    if (!exprs_.KnownMultipleOf(rows_.extent, tile_.m)) {
      const V is_row = writer_.Compare(Opcode::kLt, writer_.Add(row_first_, RowOf(row)),
                                       emitter_.Evaluate(rows_.extent));
      low = writer_.Pure(Opcode::kAnd, writer_.TypeOf(low), {low, is_row});
    }
    some = Pure(Opcode::kMax, {some, writer_.Select(low, F32(1), F32(0))});
  }
  return writer_.Compare(Opcode::kGt, MaxOverWorkgroup(writer_, some, bands_ * shares_), F32(0));
}

// A row to which every key before the end is hidden sees those behind it, too.
Status FragmentAttention::WalkAgain() {
  const std::vector<V> before = State();
  writer_.BeginIf(SomeRowSeesNothing());
  const V zero = writer_.Index(0);
  const V all = emitter_.Evaluate(exprs_.CeilDiv(keys_.extent, exprs_.Const(tile_.n)));
  std::vector<V> carried;
  HY_TRY(StartCopies(zero, all, false, carried));
  HY_TRY(WalkSome(zero, all, all, false, Mask::kAll, carried));
  writer_.BeginElse(State());
  SetState(writer_.EndIf(before));
  return OkStatus();
}

Status FragmentAttention::WalkBlocks(V lo, V mid, V hi) {
  const V zero = writer_.Index(0);
  const bool is_always = tile_.split == 1 && exprs_.RangeOf(keys_.extent).lo >= 1;
  query_stage_->Begin(row_first_);
  value_stage_->Begin(zero);
  if (copies_queries_) {
    HY_TRY(query_stage_->Copy(zero, zero));
  } else {
    HY_ASSIGN(const std::vector<V> queries, query_stage_->Load(zero));
    query_stage_->Store(zero, queries);
  }
  std::vector<V> carried;
  HY_TRY(StartCopies(lo, hi, is_always, carried));
  if (tile_.item_m * depth_ <= kMostQueries) {
    for (size_t band = 0; band < sums_.size(); ++band) {
      std::vector<V>& queries = queries_.emplace_back();
      for (int64_t d = 0; d < depth_; d += kSide) {
        queries.push_back(LoadQuery(static_cast<int64_t>(band), d));
      }
    }
  }
  if (online_.shown_end.valid() && !end_.valid()) {
    return WalkSome(lo, hi, hi, is_always, Mask::kAll, carried);
  }
  unit_ = online_.unit;
  HY_TRY(
      WalkSome(lo, mid == kNone ? hi : mid, hi, is_always && mid == kNone, Mask::kShown, carried));
  if (mid != kNone) HY_TRY(WalkSome(mid, hi, hi, false, Mask::kCut, carried));
  if (unit_ != 1) {
    for (V& maximum : maximum_) maximum = Pure(Opcode::kMul, {maximum, F32(unit_)});
    unit_ = 1;
  }
  const bool is_certain = !end_.valid() || online_.visible_end.valid();
  return is_certain ? OkStatus() : WalkAgain();
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
  // Where workgroups share rows, none knows whether one sees nothing.
  end_ = online_.visible_end;
  if (!end_.valid() && tile_.split == 1) end_ = online_.shown_end;
  Dispatch dispatch;
  HY_TRY(Place(dispatch));
  for (loop::OpId id : online_.attention.constants) HY_TRY(emitter_.EmitOp(id));
  V lo = writer_.Index(0);
  V hi = KeyBlocks(exprs_, online_, writer_, emitter_, end_, row_symbol_, row_first_, tile_.m,
                   tile_.n);
  V mid =
      ShownKeyBlocks(exprs_, online_, writer_, emitter_, end_, row_symbol_, row_first_, tile_.n);
  if (tile_.split > 1) {
    const V parts = writer_.Index(tile_.split);
    const V per = writer_.FloorDiv(writer_.Add(hi, writer_.Index(tile_.split - 1)), parts, true);
    lo = writer_.Mul(part_, per);
    hi = writer_.Min(writer_.Add(lo, per), hi);
    if (mid != kNone) mid = writer_.Max(mid, lo);
  }
  if (mid != kNone) mid = writer_.Min(mid, hi);
  HY_TRY(WalkBlocks(lo, mid, hi));
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

Result<ScheduledKernel> BuildFragmentAttention(const loop::Function& function, uint32_t kernel,
                                               const ScheduleRecord& record,
                                               const OnlineSoftmax& online, const Target& target) {
  return FragmentAttention(function, function.kernels[kernel], record, target, online).Build();
}

}  // namespace halyard::schedule
