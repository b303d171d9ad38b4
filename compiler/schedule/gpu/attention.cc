// SPDX-License-Identifier: Apache-2.0
// Workgroup memory: a step of queries, keys or values (k-major), the scores of a block (key-major,
// so that they are the row side of the second product), and what the parts of a row tell each
// other.
#include "compiler/schedule/gpu/attention.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <memory>

#include "base/check.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/attention_fragments.h"
#include "compiler/schedule/gpu/attention_rows.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_stage.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"
#include "compiler/schedule/gpu/online_softmax.h"
#include "compiler/schedule/gpu/register_tile.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int kLanes = 4;
constexpr int64_t kPad = 4;
constexpr int64_t kMostColumns = 256;

class AttentionBuilder {
 public:
  AttentionBuilder(const loop::Function& function, const loop::Kernel& kernel,
                   const ScheduleRecord& record, const Target& target, OnlineSoftmax online)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        target_(target),
        online_(std::move(online)),
        writer_(KernelName(kernel.name, ""), IndexDType(function, kernel)),
        emitter_(function, kernel, writer_, GpuEmitterOptions()) {}

  Result<ScheduledKernel> Build();

 private:
  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }
  Status CheckRecord();
  void Place(Dispatch& dispatch);
  std::unique_ptr<ContractionStage> MakeStage(const Problem& problem, const Factor& factor,
                                              const Side& side, int64_t extent,
                                              std::string_view name);
  // scores of the block at `key`, in workgroup memory; -infinity beyond the last key.
  Status EmitScores(V key);
  void EmitWeights();
  Status EmitValues(V key);
  Status EmitResults();
  V Last() { return writer_.Sub(emitter_.Evaluate(rows_.extent), writer_.Index(1)); }
  V F32(double value) { return writer_.Float(DType::kF32, value); }
  V Exp(V v) { return writer_.Pure(Opcode::kExp, writer_.TypeOf(v), {v}); }
  V Arithmetic(Opcode opcode, V a, V b) { return writer_.Pure(opcode, writer_.TypeOf(a), {a, b}); }
  // An element per row of the workitem's rows, as scalars.
  std::vector<V> RowScalars(kernel::BufferId buffer) {
    const V all = writer_.Load(buffer, item_row_, kLanes, false, kLanes);
    std::vector<V> scalars;
    for (int i = 0; i < kLanes; ++i) {
      scalars.push_back(writer_.Pure(Opcode::kExtract, Type{DType::kF32, 1}, {all}, {i}));
    }
    return scalars;
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const Target& target_;
  OnlineSoftmax online_;
  Writer writer_;
  Emitter emitter_;

  // The two products, as contractions.
  Side rows_, keys_;
  Problem score_problem_, value_problem_;
  Factor query_, key_, value_;
  std::unique_ptr<ContractionStage> query_stage_, key_stage_, value_stage_;
  int64_t workitems_ = 0, across_ = 0, parts_ = 0, columns_ = 0;
  RegisterTile score_tile_, value_tile_;
  V row_first_ = kNone, item_row_ = kNone, item_key_ = kNone, item_col_ = kNone;
  V soft_row_ = kNone, part_ = kNone;  // of the workitem, where rows are cut into parts
  kernel::BufferId scores_ = kNone, part_max_ = kNone, part_sum_ = kNone, scale_ = kNone;
  Expr row_symbol_, key_symbol_, col_symbol_;
  std::vector<V> sums_;              // of the values
  V maximum_ = kNone, sum_ = kNone;  // of soft_row_, so far
};

Status AttentionBuilder::CheckRecord() {
  const GpuTile& tile = record_.tile;
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  if (!is_power(tile.m) || !is_power(tile.n) || !is_power(tile.k) || tile.m < 8 || tile.m > 128 ||
      tile.n < 8 || tile.n > 128 || tile.k > tile.n || tile.item_m != kLanes ||
      tile.item_n != kLanes) {
    return Bad("bad tile");
  }
  across_ = tile.n / kLanes;
  workitems_ = across_ * (tile.m / kLanes);
  parts_ = workitems_ / tile.m;
  if (parts_ < 1) return Bad("fewer workitems than rows");
  if (workitems_ > target_.gpu.max_workgroup_size) return Bad("too many workitems");
  const std::optional<int64_t> width = exprs_.AsConst(online_.values.n_extent);
  if (!width || *width < 1 || *width > kMostColumns) return Bad("a value is too wide");
  columns_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(*width)));
  columns_ = std::max(columns_, across_);
  if (exprs_.RangeOf(online_.scores.k_extent).lo < 1) return Bad("keys may have no elements");
  return OkStatus();
}

void AttentionBuilder::Place(Dispatch& dispatch) {
  const AttentionProblem& attention = online_.attention;
  const Expr blocks = exprs_.CeilDiv(rows_.extent, exprs_.Const(record_.tile.m));
  dispatch.grid[0] = blocks;
  dispatch.grid[1] = attention.batch_extent;
  dispatch.grid[2] = exprs_.Const(1);
  BindBatch(attention, writer_.WorkgroupId(1), writer_, emitter_);
  // Rows that see most keys begin first.
  V block = writer_.WorkgroupId(0);
  if (online_.visible_end.valid()) {
    block = writer_.Sub(writer_.Sub(emitter_.Evaluate(blocks), writer_.Index(1)), block);
  }
  row_first_ = writer_.Mul(block, writer_.Index(record_.tile.m));
  const V id = writer_.WorkitemId(0);
  item_row_ =
      writer_.Mul(writer_.FloorDiv(id, writer_.Index(across_), true), writer_.Index(kLanes));
  const V column = writer_.FloorMod(id, writer_.Index(across_), true);
  item_key_ = writer_.Mul(column, writer_.Index(kLanes));
  item_col_ = writer_.Mul(column, writer_.Index(value_tile_.col_lanes));
  soft_row_ = writer_.FloorMod(id, writer_.Index(record_.tile.m), true);
  part_ = writer_.FloorDiv(id, writer_.Index(record_.tile.m), true);
}

std::unique_ptr<ContractionStage> AttentionBuilder::MakeStage(const Problem& problem,
                                                              const Factor& factor,
                                                              const Side& side, int64_t extent,
                                                              std::string_view name) {
  ContractionStage::Options options;
  options.access = AccessOf(function_, kernel_, problem, factor, side);
  options.extent = extent;
  options.depth = record_.tile.k;
  // Of values, every tile of a block of keys.
  if (&problem == &value_problem_) options.k_block = record_.tile.n;
  options.workitems = workitems_;
  options.k_major = true;
  options.value = factor.value;
  const int64_t inner = options.access.along_k ? options.depth : extent;
  while (options.access.lanes > inner) options.access.lanes /= 2;
  if (options.access.along_k) options.pad = kPad;
  options.name = name;
  return std::make_unique<ContractionStage>(function_, kernel_, problem, factor, side, writer_,
                                            emitter_, options);
}

Status AttentionBuilder::EmitScores(V key) {
  const GpuTile& tile = record_.tile;
  const V zero = writer_.Index(0), depth = writer_.Index(tile.k);
  std::vector<V> sums(score_tile_.sum_count(), writer_.Const(DType::kF32, 0, kLanes));
  key_stage_->Begin(key);
  const V steps = emitter_.Evaluate(exprs_.CeilDiv(online_.scores.k_extent, exprs_.Const(tile.k)));
  const Writer::Loop loop = writer_.BeginFor(zero, steps, writer_.Index(1), sums, true);
  sums = loop.carried;
  const V k = writer_.Mul(loop.variable, depth);
  HY_ASSIGN(const std::vector<V> queries, query_stage_->Load(k));
  HY_ASSIGN(const std::vector<V> keys, key_stage_->Load(k));
  writer_.Barrier();  // everyone has left the step before
  query_stage_->Store(zero, queries);
  key_stage_->Store(zero, keys);
  writer_.Barrier();
  MultiplyTile(writer_, score_tile_, item_row_, item_key_, sums);
  sums = writer_.EndFor(sums);

  const bool is_whole = exprs_.KnownMultipleOf(keys_.extent, tile.n);
  const V at_key = writer_.Add(key, item_key_);
  V mask = kNone;
  if (!is_whole) {
    mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), kLanes),
                           writer_.Sub(emitter_.Evaluate(keys_.extent), at_key));
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    V row = writer_.Add(row_first_, writer_.Add(item_row_, writer_.Index(i)));
    if (!exprs_.KnownMultipleOf(rows_.extent, tile.m)) row = writer_.Min(row, Last());
    emitter_.Bind(row_symbol_, row);
    emitter_.Shift(rows_.flat, row_symbol_, 0);
    emitter_.Shift(keys_.flat, key_symbol_, 0);
    emitter_.BeginVector(key_symbol_, at_key, kLanes, mask);
    emitter_.SetValue(online_.scores.sum, sums[score_tile_.SumAt(0, i, 0)]);
    for (loop::OpId id : online_.score_ops) HY_TRY(emitter_.EmitOp(id));
    emitter_.EndVector();
    V score = writer_.Splat(emitter_.ValueOf(online_.score), kLanes);
    if (mask != kNone) {
      score = writer_.Select(mask, score, writer_.Float(DType::kF32, -kInfinity, kLanes));
    }
    for (int64_t j = 0; j < kLanes; ++j) {
      V at = writer_.Mul(writer_.Add(item_key_, writer_.Index(j)), writer_.Index(tile.m + kPad));
      at = writer_.Add(at, writer_.Add(item_row_, writer_.Index(i)));
      writer_.Store(scores_, at,
                    writer_.Pure(Opcode::kExtract, Type{DType::kF32, 1}, {score}, {j}));
    }
  }
  writer_.Barrier();
  return OkStatus();
}

// Scores become weights; maximum, sum and the factor for what was summed so far follow. Each
// workitem has a part of the keys of one row.
void AttentionBuilder::EmitWeights() {
  const GpuTile& tile = record_.tile;
  const int64_t count = tile.n / parts_;
  const V first = writer_.Add(
      writer_.Mul(writer_.Mul(part_, writer_.Index(count)), writer_.Index(tile.m + kPad)),
      soft_row_);
  const auto at = [&](int64_t j) { return writer_.Add(first, writer_.Index(j * (tile.m + kPad))); };
  const auto at_part = [&](int64_t part) {
    return writer_.Add(soft_row_, writer_.Index(part * tile.m));
  };
  const V own_part = writer_.Add(writer_.Mul(part_, writer_.Index(tile.m)), soft_row_);
  std::vector<V> scores;
  V most = kNone;
  for (int64_t j = 0; j < count; ++j) {
    scores.push_back(writer_.Load(scores_, at(j), 1, false));
    most = j == 0 ? scores[0] : Arithmetic(Opcode::kMax, most, scores.back());
  }
  writer_.Store(part_max_, own_part, most);
  writer_.Barrier();
  V maximum = maximum_;
  for (int64_t part = 0; part < parts_; ++part) {
    maximum = Arithmetic(Opcode::kMax, maximum, writer_.Load(part_max_, at_part(part), 1, false));
  }
  // Where every key so far is hidden, weights are 0 and not exp(-inf + inf).
  const V is_hidden = writer_.Compare(Opcode::kEq, maximum, F32(-kInfinity));
  const V safe = writer_.Select(is_hidden, F32(0), maximum);
  const V scale = Exp(Arithmetic(Opcode::kSub, maximum_, safe));
  V sum = kNone;
  for (int64_t j = 0; j < count; ++j) {
    const V weight = Exp(Arithmetic(Opcode::kSub, scores[static_cast<size_t>(j)], safe));
    writer_.Store(scores_, at(j), weight);
    sum = j == 0 ? weight : Arithmetic(Opcode::kAdd, sum, weight);
  }
  writer_.Store(part_sum_, own_part, sum);
  writer_.BeginIf(writer_.Compare(Opcode::kEq, part_, writer_.Index(0)));
  writer_.Store(scale_, soft_row_, scale);
  writer_.EndIf({});
  writer_.Barrier();
  sum_ = Arithmetic(Opcode::kMul, sum_, scale);
  for (int64_t part = 0; part < parts_; ++part) {
    sum_ = Arithmetic(Opcode::kAdd, sum_, writer_.Load(part_sum_, at_part(part), 1, false));
  }
  maximum_ = maximum;
}

Status AttentionBuilder::EmitValues(V key) {
  const GpuTile& tile = record_.tile;
  const std::vector<V> scales = RowScalars(scale_);
  for (int64_t i = 0; i < kLanes; ++i) {
    const V scale = writer_.Splat(scales[static_cast<size_t>(i)], value_tile_.col_lanes);
    for (int64_t c = 0; c < value_tile_.col_groups; ++c) {
      V& sum = sums_[value_tile_.SumAt(0, i, c)];
      sum = Arithmetic(Opcode::kMul, sum, scale);
    }
  }
  const V zero = writer_.Index(0);
  const Writer::Loop loop =
      writer_.BeginFor(zero, writer_.Index(tile.n / tile.k), writer_.Index(1), sums_, true);
  sums_ = loop.carried;
  const V step = writer_.Mul(loop.variable, writer_.Index(tile.k));
  HY_ASSIGN(const std::vector<V> values, value_stage_->Load(writer_.Add(key, step)));
  writer_.Barrier();
  value_stage_->Store(zero, values);
  writer_.Barrier();
  const V row = writer_.Add(writer_.Mul(step, writer_.Index(tile.m + kPad)), item_row_);
  MultiplyTile(writer_, value_tile_, row, item_col_, sums_);
  sums_ = writer_.EndFor(sums_);
  writer_.Barrier();
  return OkStatus();
}

Status AttentionBuilder::EmitResults() {
  const GpuTile& tile = record_.tile;
  // A row that sees no key has the sum that its softmax has: not a number, or 0 over no keys. The
  // weights of other rows sum up to 1 or more, so where is_hidden is used 0 tells those rows apart.
  const V is_hidden = writer_.Compare(Opcode::kEq, maximum_, F32(-kInfinity));
  V hidden_sum = F32(std::numeric_limits<double>::quiet_NaN());
  if (exprs_.RangeOf(keys_.extent).lo < 1) {
    const V is_empty =
        writer_.Compare(Opcode::kEq, emitter_.Evaluate(keys_.extent), writer_.Index(0));
    hidden_sum = writer_.Select(is_empty, F32(0), hidden_sum);
  }
  const V sum =
      online_.is_hidden != loop::kNone ? sum_ : writer_.Select(is_hidden, hidden_sum, sum_);
  writer_.BeginIf(writer_.Compare(Opcode::kEq, part_, writer_.Index(0)));
  writer_.Store(scale_, soft_row_, sum);
  writer_.EndIf({});
  writer_.Barrier();
  const std::vector<V> sums = RowScalars(scale_);
  const Expr width = online_.values.n_extent;
  const int lanes = value_tile_.col_lanes;
  for (int64_t i = 0; i < kLanes; ++i) {
    const V row = writer_.Add(row_first_, writer_.Add(item_row_, writer_.Index(i)));
    const bool checks_row = !exprs_.KnownMultipleOf(rows_.extent, tile.m);
    if (checks_row) {
      writer_.BeginIf(writer_.Compare(Opcode::kLt, row, emitter_.Evaluate(rows_.extent)));
    }
    emitter_.Bind(row_symbol_, row);
    emitter_.Shift(rows_.flat, row_symbol_, 0);
    const V row_sum = sums[static_cast<size_t>(i)];
    emitter_.SetValue(online_.sum, row_sum);
    if (online_.is_hidden != loop::kNone) {
      emitter_.SetValue(online_.is_hidden, writer_.Compare(Opcode::kEq, row_sum, F32(0)));
    }
    for (loop::OpId id : online_.row_ops) HY_TRY(emitter_.EmitOp(id));
    for (int64_t c = 0; c < value_tile_.col_groups; ++c) {
      const int64_t offset = c * (columns_ / value_tile_.col_groups);
      const V col = writer_.Add(item_col_, writer_.Index(offset));
      const bool checks_col = !exprs_.IsConst(width, columns_);
      V mask = kNone;
      if (checks_col) {
        writer_.BeginIf(writer_.Compare(Opcode::kLt, col, emitter_.Evaluate(width)));
        if (!exprs_.KnownMultipleOf(width, lanes)) {
          mask = writer_.Compare(Opcode::kLt, writer_.Iota(writer_.index_dtype(), lanes),
                                 writer_.Sub(emitter_.Evaluate(width), col));
        }
      }
      emitter_.Shift(online_.values.n, col_symbol_, 0);
      emitter_.BeginVector(col_symbol_, col, lanes, mask);
      emitter_.SetValue(online_.values.sum, sums_[value_tile_.SumAt(0, i, c)]);
      for (loop::OpId id : online_.values.epilogue) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      if (checks_col) writer_.EndIf({});
    }
    if (checks_row) writer_.EndIf({});
  }
  return OkStatus();
}

Result<ScheduledKernel> AttentionBuilder::Build() {
  HY_TRY(CheckRecord());
  const GpuTile& tile = record_.tile;
  writer_.SetWorkgroup(workitems_, 0);
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
  row_symbol_ = exprs_.Loop("row", rows_.extent);
  key_symbol_ = exprs_.Loop("key", keys_.extent);
  col_symbol_ = exprs_.Loop("column", values.n_extent);
  query_stage_ = MakeStage(score_problem_, query_, rows_, tile.m, "queries");
  key_stage_ = MakeStage(score_problem_, key_, keys_, tile.n, "keys");
  value_stage_ = MakeStage(value_problem_, value_, value_problem_.n, columns_, "values");
  scores_ = writer_.AddAllocation("scores", DType::kF32, tile.n * (tile.m + kPad));
  part_max_ = writer_.AddAllocation("part_max", DType::kF32, workitems_);
  part_sum_ = writer_.AddAllocation("part_sum", DType::kF32, workitems_);
  scale_ = writer_.AddAllocation("scale", DType::kF32, tile.m);
  score_tile_.m = tile.m, score_tile_.n = tile.n, score_tile_.depth = tile.k;
  score_tile_.row_lanes = score_tile_.col_lanes = kLanes;
  score_tile_.dtype = DType::kF32;
  score_tile_.rows = query_stage_->buffer(), score_tile_.cols = key_stage_->buffer();
  score_tile_.row_stride = query_stage_->stride(), score_tile_.col_stride = key_stage_->stride();
  value_tile_ = score_tile_;
  const int64_t own = columns_ / across_;
  value_tile_.n = columns_;
  value_tile_.col_lanes = static_cast<int>(std::min<int64_t>(kLanes, own));
  value_tile_.col_groups = own / value_tile_.col_lanes;
  value_tile_.rows = scores_, value_tile_.cols = value_stage_->buffer();
  value_tile_.row_stride = tile.m + kPad, value_tile_.col_stride = value_stage_->stride();
  Dispatch dispatch;
  Place(dispatch);
  for (int axis = 0; axis < 3; ++axis) {
    if (exprs_.AsConst(dispatch.grid[axis]).value_or(0) > target_.gpu.max_grid[axis]) {
      return Bad("its grid is too large for the target");
    }
  }
  for (loop::OpId id : online_.attention.constants) HY_TRY(emitter_.EmitOp(id));
  query_stage_->Begin(row_first_);
  value_stage_->Begin(writer_.Index(0));
  const V blocks = KeyBlocks(exprs_, online_, writer_, emitter_, online_.visible_end, row_symbol_,
                             row_first_, tile.m, tile.n);
  std::vector<V> carried(value_tile_.sum_count(),
                         writer_.Const(DType::kF32, 0, value_tile_.col_lanes));
  carried.push_back(F32(-kInfinity));
  carried.push_back(F32(0));
  const Writer::Loop loop = writer_.BeginFor(writer_.Index(0), blocks, writer_.Index(1), carried,
                                             exprs_.RangeOf(keys_.extent).lo >= 1);
  sums_.assign(loop.carried.begin(), loop.carried.end() - 2);
  maximum_ = loop.carried[sums_.size()];
  sum_ = loop.carried[sums_.size() + 1];
  const V key = writer_.Mul(loop.variable, writer_.Index(tile.n));
  HY_TRY(EmitScores(key));
  EmitWeights();
  HY_TRY(EmitValues(key));
  std::vector<V> yields = sums_;
  yields.push_back(maximum_);
  yields.push_back(sum_);
  yields = writer_.EndFor(yields);
  sums_.assign(yields.begin(), yields.end() - 2);
  maximum_ = yields[sums_.size()];
  sum_ = yields[sums_.size() + 1];
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
      memory += (buffer.elements * BitWidth(buffer.dtype) / 8 + 15) / 16 * 16;
    }
  }
  if (memory > target_.gpu.workgroup_memory_bytes) return Bad("too much workgroup memory");
  return scheduled;
}

}  // namespace

std::vector<ScheduleRecord> EnumerateGpuAttention(const loop::Function& function, uint32_t kernel,
                                                  const Target& target) {
  std::vector<ScheduleRecord> records;
  const std::optional<OnlineSoftmax> online = ReadOnlineSoftmax(function, function.kernels[kernel]);
  if (!online) return records;
  records = EnumerateFragmentAttention(function, kernel, *online, target);
  if (!records.empty() && target.kind == TargetKind::kCuda) return records;
  const size_t most = records.size() + 3;
  const int64_t rows = function.exprs->HintOf(online->attention.m_extent);
  struct Blocks {
    int32_t m, n;
  };
  // Rows beyond the problem's are wasted work.
  std::vector<Blocks> blocks = {{64, 64}, {32, 64}, {16, 64}, {32, 32}, {16, 32}};
  if (target.gpu.workgroup_memory_bytes <= 32 << 10 && target.gpu.subgroup_size < 32) {
    blocks = {{32, 32}, {16, 32}};
  }
  std::stable_sort(blocks.begin(), blocks.end(), [&](const Blocks& a, const Blocks& b) {
    const auto waste = [&](const Blocks& x) {
      return (rows + x.m - 1) / x.m * x.m - rows >= x.m / 2;
    };
    return waste(a) < waste(b);
  });
  for (const Blocks& block : blocks) {
    if (records.size() == most) break;
    ScheduleRecord record;
    record.kind = ScheduleKind::kGpuAttention;
    record.tile.m = block.m;
    record.tile.n = block.n;
    record.tile.k = 16;
    record.tile.item_m = record.tile.item_n = kLanes;
    if (BuildGpuAttention(function, kernel, record, target).ok()) records.push_back(record);
  }
  return records;
}

Result<ScheduledKernel> BuildGpuAttention(const loop::Function& function, uint32_t kernel,
                                          const ScheduleRecord& record, const Target& target) {
  const loop::Kernel& source = function.kernels[kernel];
  std::optional<OnlineSoftmax> online = ReadOnlineSoftmax(function, source);
  if (!online) {
    return InvalidArgument(
        "Schedule '{}' needs attention with a plain softmax; kernel '{}' has not that form.",
        FormatSchedule(record), source.name);
  }
  if (record.kind == ScheduleKind::kGpuMatrixAttention) {
    return BuildFragmentAttention(function, kernel, record, *online, target);
  }
  return AttentionBuilder(function, source, record, target, std::move(*online)).Build();
}

}  // namespace halyard::schedule
