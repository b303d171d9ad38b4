// SPDX-License-Identifier: Apache-2.0
// What a row computes and a later step reads is kept in an array over the rows of the task. Local
// buffers get one copy per row of the task.
#include "compiler/schedule/cpu/attention.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "compiler/schedule/common/attention_problem.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/cpu/tasks.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using loop::OpId;
using V = kernel::ValueId;

namespace {

// The row buffers and panels of a task stay within this.
constexpr int64_t kMaxTaskBytes = int64_t{4} << 20;
// Rows of a task where their number is not known.
constexpr int64_t kRowsOfUnknown = 32;
// An epilogue of more ops runs as a loop over the rows of a tile.
constexpr size_t kDirectEpilogueOps = 4;

class AttentionBuilder {
 public:
  AttentionBuilder(const loop::Function& function, const loop::Kernel& kernel,
                   const ScheduleRecord& record, const Target& target, AttentionProblem problem)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        problem_(std::move(problem)),
        writer_(KernelName(kernel.name, "")),
        emitter_(function, kernel, writer_, OptionsFor(function, kernel, record, target)),
        lanes_(record.lanes) {}

  Result<ScheduledKernel> Build() {
    if (lanes_ < 1 || lanes_ > 64 || (lanes_ & (lanes_ - 1)) != 0) return Bad("bad lanes");
    if (record_.mr < 1 || record_.nv < 1 || record_.mr * record_.nv > 128) return Bad("bad tile");
    if (record_.unroll < 1 || record_.unroll > 16 || (record_.unroll & (record_.unroll - 1)) != 0) {
      return Bad("bad unroll");
    }
    if (record_.mc < 1 || record_.mc > 65536) return Bad("bad task size");
    r0_ = exprs_.Loop("row", problem_.m_extent);
    emitter_.Shift(problem_.m, r0_, 0);
    Dispatch dispatch;
    dispatch.grid[0] = exprs_.CeilDiv(problem_.m_extent, exprs_.Const(record_.mc));
    dispatch.grid[1] = problem_.batch_extent;
    dispatch.grid[2] = exprs_.Const(1);

    V rest = writer_.WorkgroupId(1);
    for (size_t i = problem_.batch.size(); i-- > 0;) {
      const auto& [symbol, extent] = problem_.batch[i];
      if (i == 0) {
        emitter_.Bind(symbol, rest);
        break;
      }
      const V size = emitter_.Evaluate(extent);
      const V outer = writer_.FloorDiv(rest, size, true);
      emitter_.Bind(symbol, writer_.Sub(rest, writer_.Mul(outer, size)));
      rest = outer;
    }
    const V total = emitter_.Evaluate(problem_.m_extent);
    row_lo_ = writer_.Mul(writer_.WorkgroupId(0), writer_.I64(record_.mc));
    row_hi_ = writer_.Add(row_lo_, writer_.I64(record_.mc));
    is_whole_ = exprs_.KnownMultipleOf(problem_.m_extent, record_.mc);
    if (!is_whole_) row_hi_ = writer_.Min(row_hi_, total);

    for (OpId id : problem_.constants) HY_TRY(emitter_.EmitOp(id));
    for (loop::BufferId id : problem_.locals) {
      const loop::Buffer& local = function_.buffers[id];
      const int64_t elements = std::max<int64_t>(1, *exprs_.AsConst(local.elements));
      locals_[id] = {writer_.AddAllocation(local.name, local.dtype, elements * record_.mc),
                     elements};
    }
    for (loop::ValueId v : problem_.kept) {
      kept_[v] = writer_.AddAllocation("kept", kernel_.values[v].dtype, record_.mc);
    }
    for (size_t i = 0; i < problem_.steps.size(); ++i) {
      const AttentionStep& step = problem_.steps[i];
      HY_TRY(step.contraction ? EmitContraction(*step.contraction) : EmitRows(step.ops));
    }
    ScheduledKernel scheduled;
    scheduled.record = record_;
    dispatch.bindings = emitter_.bindings;
    dispatch.scalars = emitter_.scalars;
    scheduled.kernels.push_back(writer_.Finish());
    scheduled.dispatches.push_back(std::move(dispatch));
    return scheduled;
  }

 private:
  static Emitter::Options OptionsFor(const loop::Function& function, const loop::Kernel& kernel,
                                     const ScheduleRecord& record, const Target& target) {
    Emitter::Options options;
    options.lanes = record.lanes;
    options.unroll = record.unroll;
    options.masked_tails = target.vector_bytes >= 32;
    // The innermost loops; those of contractions are not emitted as loops.
    const Nest nest(function, kernel);
    for (size_t i = 0; i < nest.loops.size(); ++i) {
      if (nest.loops[i].children.empty() && nest.CanVectorise(static_cast<int>(i))) {
        options.vector_loops.insert(nest.loops[i].op);
      }
    }
    return options;
  }

  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }

  // Row `base + offset` is the one that ops of a row mean from here on.
  void SetRow(V base, int64_t offset) {
    emitter_.Bind(r0_, base);
    emitter_.Shift(problem_.m, r0_, offset);
    in_task_ = writer_.Add(writer_.Sub(base, row_lo_), writer_.I64(offset));
    for (const auto& [id, local] : locals_) {
      emitter_.PlaceLocal(id, local.first, writer_.Mul(in_task_, writer_.I64(local.second)));
    }
  }

  void ReadKept() {
    for (const auto& [value, place] : kept_) {
      if (written_.contains(value)) {
        emitter_.SetValue(value, writer_.Load(place, in_task_, 1, /*stable=*/false));
      }
    }
  }

  Status EmitRows(const std::vector<OpId>& ops) {
    const Writer::Loop rows =
        writer_.BeginFor(row_lo_, row_hi_, writer_.I64(1), {}, /*runs_at_least_once=*/true);
    SetRow(rows.variable, 0);
    ReadKept();
    for (OpId id : ops) HY_TRY(emitter_.EmitOp(id));
    for (OpId id : ops) {
      for (loop::ValueId v : kernel_.ops[id].results) {
        if (!kept_.contains(v)) continue;
        writer_.Store(kept_[v], in_task_, emitter_.ValueOf(v));
        written_.insert(v);
      }
    }
    writer_.EndFor({});
    return OkStatus();
  }

  // Vectors v0 to v0 + nv * lanes - 1 along n, at rows m0 to m0 + h - 1.
  struct Tile {
    int h = 0, nv = 0;
    V m0 = kNone, v0 = kNone;
    std::vector<V> masks;  // per vector; kNone: whole
  };

  Status EmitContraction(const AttentionContraction& c) {
    v0_ = exprs_.Loop("vector", c.n_extent);
    k0_ = exprs_.Loop("step", c.k_extent);
    emitter_.Shift(c.n, v0_, 0);
    emitter_.Shift(c.k, k0_, 0);
    const int64_t width = int64_t{record_.nv} * lanes_;
    const std::optional<int64_t> k = exprs_.AsConst(c.k_extent), n = exprs_.AsConst(c.n_extent);
    panel_ = kNone;
    if (k && !(c.is_contiguous && c.vectors.ops.size() == 1)) {
      if (*k > kMaxTaskBytes / 8 / width) return Bad("a panel is too large");
      panel_ = writer_.AddAllocation("panel", c.dtype, std::max<int64_t>(1, *k * width));
    }
    tile_ = kNone;
    if (c.epilogue.size() > kDirectEpilogueOps) {
      tile_ = writer_.AddAllocation("tile", c.dtype, record_.mr * width);
    }
    const V total = emitter_.Evaluate(c.n_extent);
    const V whole =
        writer_.Mul(writer_.FloorDiv(total, writer_.I64(width), true), writer_.I64(width));
    Tile tile;
    tile.nv = record_.nv;
    tile.masks.assign(static_cast<size_t>(tile.nv), kNone);
    if (!n || *n >= width) {
      const Writer::Loop loop =
          writer_.BeginFor(writer_.I64(0), whole, writer_.I64(width), {}, n.has_value());
      tile.v0 = loop.variable;
      HY_TRY(EmitPanel(c, tile));
      writer_.EndFor({});
    }
    if (n && *n % width == 0) return OkStatus();
    const V rest = writer_.Sub(total, whole);
    if (!n) writer_.BeginIf(writer_.Compare(Opcode::kGt, rest, writer_.I64(0)));
    tile.v0 = whole;
    if (n) tile.nv = static_cast<int>((*n % width + lanes_ - 1) / lanes_);
    tile.masks.clear();
    for (int j = 0; j < tile.nv; ++j) {
      const V left = writer_.Sub(rest, writer_.I64(int64_t{j} * lanes_));
      const auto count = writer_.AsConst(left);
      const bool is_full = (count && *count >= lanes_) || lanes_ == 1;
      tile.masks.push_back(
          is_full ? kNone : writer_.Compare(Opcode::kLt, writer_.Iota(DType::kI64, lanes_), left));
    }
    HY_TRY(EmitPanel(c, tile));
    if (!n) writer_.EndIf({});
    return OkStatus();
  }

  Status EmitPanel(const AttentionContraction& c, Tile tile) {
    if (panel_ != kNone) HY_TRY(Pack(c, tile));
    const V count = writer_.Sub(row_hi_, row_lo_);
    const bool is_even = is_whole_ && record_.mc % record_.mr == 0;
    const V rest =
        is_even ? writer_.I64(0) : writer_.FloorMod(count, writer_.I64(record_.mr), true);
    const V split = writer_.Sub(row_hi_, rest);
    const Writer::Loop tiles =
        writer_.BeginFor(row_lo_, split, writer_.I64(record_.mr), {}, is_even);
    tile.m0 = tiles.variable;
    tile.h = record_.mr;
    HY_TRY(EmitTile(c, tile));
    writer_.EndFor({});
    if (is_even || record_.mr == 1) return OkStatus();
    const Writer::Loop last = writer_.BeginFor(split, row_hi_, writer_.I64(1), {}, false);
    tile.m0 = last.variable;
    tile.h = 1;
    HY_TRY(EmitTile(c, tile));
    writer_.EndFor({});
    return OkStatus();
  }

  // The vector operand at k and the vectors of the tile.
  Result<std::vector<V>> Vectors(const AttentionContraction& c, const Tile& tile) {
    std::vector<V> vectors;
    for (int j = 0; j < tile.nv; ++j) {
      emitter_.Bind(v0_, tile.v0);
      emitter_.Shift(c.n, v0_, int64_t{j} * lanes_);
      emitter_.BeginVector(v0_, tile.v0, lanes_, tile.masks[static_cast<size_t>(j)]);
      for (OpId id : c.vectors.ops) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      vectors.push_back(writer_.Splat(emitter_.ValueOf(c.vectors.value), lanes_));
    }
    return vectors;
  }

  // panel[k * width + lane], whatever the operand gives where lanes are masked off.
  Status Pack(const AttentionContraction& c, const Tile& tile) {
    emitter_.Shift(c.k, k0_, 0);
    const Writer::Loop loop =
        writer_.BeginFor(writer_.I64(0), emitter_.Evaluate(c.k_extent), writer_.I64(1), {}, false);
    emitter_.Bind(k0_, loop.variable);
    HY_ASSIGN(const std::vector<V> vectors, Vectors(c, tile));
    const V base = writer_.Mul(loop.variable, writer_.I64(int64_t{record_.nv} * lanes_));
    for (size_t j = 0; j < vectors.size(); ++j) {
      const auto at = static_cast<int64_t>(j) * lanes_;
      writer_.Store(panel_, writer_.Add(base, writer_.I64(at)), vectors[j]);
    }
    writer_.EndFor({});
    return OkStatus();
  }

  // sums += rows[k + u] * vectors[k + u]
  Status EmitStep(const AttentionContraction& c, const Tile& tile, V k, int64_t u,
                  std::vector<V>& sums) {
    emitter_.Bind(k0_, k);
    emitter_.Shift(c.k, k0_, u);
    std::vector<V> vectors;
    if (panel_ != kNone) {
      const int64_t width = int64_t{record_.nv} * lanes_;
      const V base = writer_.Mul(k, writer_.I64(width));
      for (int j = 0; j < tile.nv; ++j) {
        const V at = writer_.Add(base, writer_.I64(u * width + int64_t{j} * lanes_));
        vectors.push_back(writer_.Load(panel_, at, lanes_, /*stable=*/false));
      }
    } else {
      HY_ASSIGN(vectors, Vectors(c, tile));
    }
    const Type type{c.dtype, static_cast<uint16_t>(lanes_)};
    for (int i = 0; i < tile.h; ++i) {
      SetRow(tile.m0, i);
      for (OpId id : c.rows.ops) HY_TRY(emitter_.EmitOp(id));
      const V a = writer_.Splat(emitter_.ValueOf(c.rows.value), lanes_);
      for (int j = 0; j < tile.nv; ++j) {
        V& sum = sums[static_cast<size_t>(i * tile.nv + j)];
        sum = writer_.Pure(Opcode::kFma, type, {a, vectors[static_cast<size_t>(j)], sum});
      }
    }
    return OkStatus();
  }

  Status EmitTile(const AttentionContraction& c, const Tile& tile) {
    std::vector<V> sums(static_cast<size_t>(tile.h * tile.nv), writer_.Const(c.dtype, 0, lanes_));
    const std::optional<int64_t> k = exprs_.AsConst(c.k_extent);
    const int64_t step = k ? std::min<int64_t>(record_.unroll, std::max<int64_t>(*k, 1)) : 1;
    const V total = emitter_.Evaluate(c.k_extent);
    const V main = writer_.Sub(total, writer_.FloorMod(total, writer_.I64(step), true));
    const Writer::Loop loop = writer_.BeginFor(writer_.I64(0), main, writer_.I64(step), sums,
                                               k.has_value() && *k >= step);
    sums = loop.carried;
    for (int64_t u = 0; u < step; ++u) HY_TRY(EmitStep(c, tile, loop.variable, u, sums));
    sums = writer_.EndFor(sums);
    if (k) {
      for (int64_t u = 0; u < *k % step; ++u) HY_TRY(EmitStep(c, tile, main, u, sums));
    }
    return EmitEpilogue(c, tile, sums);
  }

  Status EmitEpilogue(const AttentionContraction& c, const Tile& tile, const std::vector<V>& sums) {
    const int64_t width = int64_t{record_.nv} * lanes_;
    const auto one_vector = [&](int j, V sum) -> Status {
      emitter_.Bind(v0_, tile.v0);
      emitter_.Shift(c.n, v0_, int64_t{j} * lanes_);
      emitter_.BeginVector(v0_, tile.v0, lanes_, tile.masks[static_cast<size_t>(j)]);
      emitter_.SetValue(c.sum, sum);
      for (OpId id : c.epilogue) HY_TRY(emitter_.EmitOp(id));
      emitter_.EndVector();
      return OkStatus();
    };
    if (tile_ == kNone) {
      for (int i = 0; i < tile.h; ++i) {
        SetRow(tile.m0, i);
        ReadKept();
        for (int j = 0; j < tile.nv; ++j) {
          HY_TRY(one_vector(j, sums[static_cast<size_t>(i * tile.nv + j)]));
        }
      }
      return OkStatus();
    }
    for (int i = 0; i < tile.h; ++i) {
      for (int j = 0; j < tile.nv; ++j) {
        writer_.Store(tile_, writer_.I64(i * width + int64_t{j} * lanes_),
                      sums[static_cast<size_t>(i * tile.nv + j)]);
      }
    }
    const Writer::Loop rows =
        writer_.BeginFor(writer_.I64(0), writer_.I64(tile.h), writer_.I64(1), {}, true);
    SetRow(writer_.Add(tile.m0, rows.variable), 0);
    ReadKept();
    const V base = writer_.Mul(rows.variable, writer_.I64(width));
    for (int j = 0; j < tile.nv; ++j) {
      const V at = writer_.Add(base, writer_.I64(int64_t{j} * lanes_));
      HY_TRY(one_vector(j, writer_.Load(tile_, at, lanes_, /*stable=*/false)));
    }
    writer_.EndFor({});
    return OkStatus();
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  AttentionProblem problem_;
  Writer writer_;
  Emitter emitter_;
  int lanes_;
  Expr r0_, v0_, k0_;
  V row_lo_ = kNone, row_hi_ = kNone, in_task_ = kNone;
  bool is_whole_ = false;  // every task has record_.mc rows
  kernel::BufferId panel_ = kNone, tile_ = kNone;
  std::map<loop::BufferId, std::pair<kernel::BufferId, int64_t>> locals_;  // place, elements
  std::map<loop::ValueId, kernel::BufferId> kept_;
  std::set<loop::ValueId> written_;  // of those, in the steps so far
};

}  // namespace

std::vector<ScheduleRecord> EnumerateAttention(const loop::Function& function, uint32_t kernel,
                                               const Target& target) {
  std::vector<ScheduleRecord> records;
  const loop::Kernel& source = function.kernels[kernel];
  if (source.template_kind != loop::TemplateKind::kAttention) return records;
  std::optional<AttentionProblem> problem = ReadAttention(function, source);
  if (!problem) return records;
  ExprArena& exprs = *function.exprs;
  DType dtype = DType::kF32;
  for (const AttentionStep& step : problem->steps) {
    if (step.contraction) dtype = step.contraction->dtype;
  }
  int64_t row_bytes = 0;
  for (loop::BufferId id : problem->locals) {
    const loop::Buffer& local = function.buffers[id];
    row_bytes += *exprs.AsConst(local.elements) * (BitWidth(local.dtype) / 8);
  }
  const std::optional<int64_t> rows = exprs.AsConst(problem->m_extent);
  const int64_t batches = std::max<int64_t>(1, exprs.AsConst(problem->batch_extent).value_or(1));
  const int64_t workers = std::max(1, target.worker_count);
  struct Shape {
    int32_t mr, nv;
  };
  const std::vector<Shape> shapes = target.vector_registers >= 32
                                        ? std::vector<Shape>{{4, 4}, {6, 4}, {8, 2}}
                                        : std::vector<Shape>{{4, 2}, {6, 2}, {2, 4}};
  for (const Shape& shape : shapes) {
    ScheduleRecord record;
    record.kind = ScheduleKind::kAttention;
    record.lanes = std::max(1, target.vector_bytes / (BitWidth(dtype) / 8));
    record.unroll = 4;
    record.mr = shape.mr;
    record.nv = shape.nv;
    // Every task packs the keys again, so as few tasks of one batch as keep the workers busy.
    int64_t mc = kRowsOfUnknown;
    if (rows) {
      const int64_t tasks = std::max<int64_t>(1, workers * kTasksPerWorker / batches);
      mc = std::max<int64_t>(1, (*rows + tasks - 1) / tasks);
    }
    // Half of the second-level cache for what the rows keep.
    const int64_t room = std::max<int64_t>(target.l2_bytes / 2, 64 << 10);
    if (row_bytes > 0) mc = std::min(mc, std::max<int64_t>(room / row_bytes, shape.mr));
    mc = (mc + shape.mr - 1) / shape.mr * shape.mr;
    if (row_bytes > kMaxTaskBytes / mc) continue;
    record.mc = mc;
    if (BuildAttention(function, kernel, record, target).ok()) records.push_back(record);
  }
  return records;
}

Result<ScheduledKernel> BuildAttention(const loop::Function& function, uint32_t kernel,
                                       const ScheduleRecord& record, const Target& target) {
  const loop::Kernel& source = function.kernels[kernel];
  std::optional<AttentionProblem> problem = ReadAttention(function, source);
  if (!problem) {
    return InvalidArgument(
        "Schedule '{}' needs rows of contractions; kernel '{}' has not that form.",
        FormatSchedule(record), source.name);
  }
  return AttentionBuilder(function, source, record, target, std::move(*problem)).Build();
}

}  // namespace halyard::schedule
