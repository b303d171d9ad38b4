// SPDX-License-Identifier: Apache-2.0
// Writes the kernel of one contraction: tasks over (row panels, vector panels, batch), in each task
// packing of the operands that are not read in place, register tiles with the sum over k in
// registers, and the epilogue on the tile. With kc below k the task goes through its tiles once for
// each block of k, so that the rows of a block stay in L2 while the panels pass, and the sums wait
// in workgroup memory between blocks (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008). The order of the sum depends on nothing but k.
#include <algorithm>
#include <functional>

#include "base/check.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/cpu/contraction.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

// An epilogue heavier than this runs as a loop over the rows of the tile, stored in workgroup
// memory.
constexpr double kDirectEpilogueWeight = 6;
// A sum of at most this many multiply-adds per tile is written out.
constexpr int64_t kMaxUnrolledFmas = 128;

class ContractionBuilder {
 public:
  ContractionBuilder(const loop::Function& function, const loop::Kernel& kernel,
                     const ScheduleRecord& record, const Target& target, Problem problem)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        problem_(std::move(problem)),
        writer_(KernelName(kernel.name, "")),
        emitter_(function, kernel, writer_, OptionsFor(target)),
        rows_(record.swap ? problem_.n : problem_.m),
        vecs_(record.swap ? problem_.m : problem_.n),
        row_factor_(record.swap ? problem_.b : problem_.a),
        vec_factor_(record.swap ? problem_.a : problem_.b) {}

  Result<ScheduledKernel> Build();

 private:
  static Emitter::Options OptionsFor(const Target& target) {
    Emitter::Options options;
    options.masked_tails = target.vector_bytes >= 32;
    return options;
  }
  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }
  // A tile of h rows and nv vectors at (m0, v0); masks per vector (kNone: whole). `clamped`: rows
  // from the end of the row side on read its last row and are not stored.
  struct Tile {
    int h = 0, nv = 0;
    V m0 = kNone, v0 = kNone;
    std::vector<V> masks;
    bool clamped = false;
  };

  V RowStart(V panel);
  Status PackRows(V row_lo, V row_hi);
  Status PackPanel(const Tile& tile);
  Status RowPanels(V lo, V hi, Tile tile);
  Status VectorPanels(V lo, V hi, const std::function<Status(const Tile&)>& body);
  Status EmitTile(const Tile& tile);
  Status EmitBlockOfTile(const Tile& tile);
  Status EmitStep(const Tile& tile, V k, int64_t u, std::vector<V>& acc);
  Status EmitEpilogue(const Tile& tile, const std::vector<V>& acc);
  Status EmitSlice(const Factor& factor);
  // Runs body for panels lo to hi; no loop where it is known to be one.
  Status ForPanels(V lo, V hi, const std::function<Status(V)>& body);

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  Problem problem_;
  Writer writer_;
  Emitter emitter_;
  const Side &rows_, &vecs_;
  const Factor &row_factor_, &vec_factor_;

  int lanes_ = 1;
  int64_t width_ = 0;  // of a vector panel
  std::optional<int64_t> row_count_, vec_count_, k_count_;
  int height_ = 0;  // of the first `high_` row panels; the others have one row less
  int64_t high_ = 0, panels_ = 0;
  V row_total_ = kNone, vec_total_ = kNone, k_total_ = kNone;
  Expr r0_, v0_, k0_;
  kernel::BufferId packed_rows_ = kNone, packed_vecs_ = kNone, tile_buffer_ = kNone;
  V packed_base_ = kNone;   // element offset of the current vector panel
  V packed_batch_ = kNone;  // panels of earlier batches
  V task_row_ = kNone;      // first row of the task
  // Blocks of k. Without blocks, one from 0 to k.
  bool is_blocked_ = false;
  int64_t block_ = 0;                 // its length, where known
  int64_t row_stride_ = 0;            // of packed rows, in elements
  kernel::BufferId partial_ = kNone;  // tiles of sums
  V block_lo_ = kNone, block_hi_ = kNone, is_first_ = kNone, is_last_ = kNone;
  V task_vec_ = kNone;  // first element of the task on the vector side
};

Result<ScheduledKernel> ContractionBuilder::Build() {
  lanes_ = record_.lanes;
  if (lanes_ < 1 || lanes_ > 64 || (lanes_ & (lanes_ - 1)) != 0) return Bad("bad lanes");
  if (record_.mr < 1 || record_.nv < 1 || record_.mr * record_.nv > 128) return Bad("bad tile");
  if (record_.unroll < 1 || record_.unroll > 16) return Bad("bad unroll");
  width_ = int64_t{record_.nv} * lanes_;
  if (record_.mc < record_.mr || record_.nc < width_ || record_.nc % width_ != 0)
    return Bad("bad task size");
  if (vecs_.digits.empty()) return Bad("nothing runs along the vectors");
  row_count_ = exprs_.AsConst(rows_.extent);
  vec_count_ = exprs_.AsConst(vecs_.extent);
  k_count_ = exprs_.AsConst(problem_.k.extent);
  bool packs = record_.pack_a || record_.b == OperandMode::kPacked;
  if (packs && !k_count_) return Bad("packing in the task needs a constant k");
  is_blocked_ = record_.kc > 0 && k_count_ && record_.kc < *k_count_;
  if (is_blocked_ && (!row_count_ || *k_count_ % record_.kc != 0 ||
                      record_.kc % std::max(record_.unroll, lanes_) != 0))
    return Bad("k is no whole number of blocks of whole steps");
  block_ = is_blocked_ ? record_.kc : k_count_.value_or(0);
  // An odd number of cache lines: rows of a tile share no set of a cache.
  const int64_t line = std::max<int64_t>(1, 64 * 8 / BitWidth(problem_.dtype));
  row_stride_ = ((block_ + line - 1) / line | 1) * line;

  for (const Side* side : {&problem_.batch, &problem_.m, &problem_.n, &problem_.k})
    if (side->digits.size() > 1) emitter_.Flatten(side->flat, side->digits);
  r0_ = exprs_.Loop("row", rows_.extent);
  v0_ = exprs_.Loop("vector", vecs_.extent);
  k0_ = exprs_.Loop("step", problem_.k.extent);
  emitter_.Shift(rows_.flat, r0_, 0);
  emitter_.Shift(vecs_.flat, v0_, 0);
  emitter_.Shift(problem_.k.flat, k0_, 0);
  row_total_ = emitter_.Evaluate(rows_.extent);
  vec_total_ = emitter_.Evaluate(vecs_.extent);
  k_total_ = emitter_.Evaluate(problem_.k.extent);
  if (row_count_) {
    int64_t mr = record_.mr;
    panels_ = (*row_count_ + mr - 1) / mr;
    height_ = panels_ == 0 ? 1 : static_cast<int>((*row_count_ + panels_ - 1) / panels_);
    high_ = *row_count_ - panels_ * (height_ - 1);
  } else {
    height_ = record_.mr;
  }

  ScheduledKernel scheduled;
  scheduled.record = record_;
  Dispatch dispatch;
  int64_t row_panels = record_.mc / record_.mr, vec_panels = record_.nc / width_;
  Expr row_panel_count = exprs_.CeilDiv(rows_.extent, exprs_.Const(record_.mr));
  Expr vec_panel_count = exprs_.CeilDiv(vecs_.extent, exprs_.Const(width_));
  dispatch.grid[0] = exprs_.CeilDiv(row_panel_count, exprs_.Const(row_panels));
  dispatch.grid[1] = exprs_.CeilDiv(vec_panel_count, exprs_.Const(vec_panels));
  if (record_.grain < 1) return Bad("no batch grain");
  dispatch.grid[2] = exprs_.CeilDiv(problem_.batch.extent, exprs_.Const(record_.grain));
  auto range = [&](int axis, Expr grid, Expr count, int64_t per_task, V* lo, V* hi) {
    V total = emitter_.Evaluate(count);
    if (exprs_.IsConst(grid, 1)) {
      *lo = writer_.I64(0);
      *hi = total;
      return;
    }
    *lo = writer_.Mul(writer_.WorkgroupId(axis), writer_.I64(per_task));
    *hi = writer_.Add(*lo, writer_.I64(per_task));
    if (!exprs_.KnownMultipleOf(count, per_task)) *hi = writer_.Min(*hi, total);
  };
  V row_lo, row_hi, vec_lo, vec_hi;
  range(0, dispatch.grid[0], row_panel_count, row_panels, &row_lo, &row_hi);
  range(1, dispatch.grid[1], vec_panel_count, vec_panels, &vec_lo, &vec_hi);
  V batch_lo, batch_hi;
  range(2, dispatch.grid[2], problem_.batch.extent, record_.grain, &batch_lo, &batch_hi);
  if (record_.grain == 1 && !exprs_.IsConst(dispatch.grid[2], 1))
    batch_hi = kNone;  // exactly batch_lo

  if (record_.b == OperandMode::kPackedConstant) {
    std::optional<PanelPacking> packing =
        PackingOf(function_, kernel_, problem_, record_.swap, width_);
    if (!packing) return Bad("the vector operand is no constant with constant strides");
    HY_ASSIGN(int64_t bytes, PackedBytes(*packing));
    PackedConstant constant;
    constant.buffer = kernel_.ops[vec_factor_.load].buffer;
    constant.packing = FormatPacking(*packing);
    constant.bytes = bytes;
    scheduled.constants.push_back(constant);
    kernel::Buffer parameter;
    parameter.name = function_.buffers[constant.buffer].name + ".packed";
    parameter.dtype = packing->dtype;
    packed_vecs_ = emitter_.AddBinding(Binding{Binding::Kind::kConstant, 0}, std::move(parameter));
  } else if (record_.b == OperandMode::kPacked) {
    packed_vecs_ =
        writer_.AddAllocation("panel", problem_.dtype, std::max<int64_t>(1, block_ * width_));
  }
  if (record_.pack_a)
    packed_rows_ = writer_.AddAllocation(
        "rows", problem_.dtype, std::max<int64_t>(1, row_panels * record_.mr * row_stride_));
  if (is_blocked_)
    partial_ = writer_.AddAllocation("sums", problem_.dtype, row_panels * record_.mr * record_.nc);
  bool direct = problem_.epilogue_weight <= kDirectEpilogueWeight && row_count_;
  if (!direct) tile_buffer_ = writer_.AddAllocation("tile", problem_.dtype, record_.mr * width_);

  task_row_ = RowStart(row_lo);
  task_vec_ = writer_.Mul(vec_lo, writer_.I64(width_));
  block_lo_ = writer_.I64(0);
  block_hi_ = k_total_;
  auto one_block = [&]() -> Status {
    if (record_.pack_a) HY_TRY(PackRows(task_row_, RowStart(row_hi)));
    return VectorPanels(vec_lo, vec_hi, [&](const Tile& tile) -> Status {
      if (record_.b == OperandMode::kPacked) HY_TRY(PackPanel(tile));
      return RowPanels(row_lo, row_hi, tile);
    });
  };
  auto one_batch = [&](V batch) -> Status {
    if (!problem_.batch.digits.empty()) emitter_.Bind(problem_.batch.flat, batch);
    if (record_.b == OperandMode::kPackedConstant) {
      // The packing's own batch index: row-major over the digits that the operand depends on.
      Expr own = exprs_.Const(0);
      for (auto [symbol, extent] : problem_.batch.digits)
        if (exprs_.DependsOn(kernel_.ops[vec_factor_.load].index, symbol))
          own = exprs_.Add(exprs_.Mul(own, extent), symbol);
      packed_batch_ = writer_.Mul(emitter_.Evaluate(own), emitter_.Evaluate(vec_panel_count));
    }
    if (!is_blocked_) return one_block();
    V last = writer_.I64(*k_count_ - block_);
    Writer::Loop loop = writer_.BeginFor(writer_.I64(0), k_total_, writer_.I64(block_), {}, true);
    block_lo_ = loop.variable;
    block_hi_ = writer_.Add(block_lo_, writer_.I64(block_));
    is_first_ = writer_.Compare(Opcode::kEq, block_lo_, writer_.I64(0));
    is_last_ = writer_.Compare(Opcode::kEq, block_lo_, last);
    HY_TRY(one_block());
    writer_.EndFor({});
    return OkStatus();
  };
  HY_TRY(batch_hi == kNone ? one_batch(batch_lo) : ForPanels(batch_lo, batch_hi, one_batch));
  dispatch.bindings = emitter_.bindings;
  dispatch.scalars = emitter_.scalars;
  scheduled.kernels.push_back(writer_.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  return scheduled;
}

// First row of a row panel; of the panel after the last: the number of rows.
V ContractionBuilder::RowStart(V panel) {
  if (!row_count_) return writer_.Min(writer_.Mul(panel, writer_.I64(height_)), row_total_);
  V low = writer_.Mul(panel, writer_.I64(height_ - 1));
  return writer_.Add(low, high_ == panels_ ? panel : writer_.Min(panel, writer_.I64(high_)));
}

Status ContractionBuilder::ForPanels(V lo, V hi, const std::function<Status(V)>& body) {
  auto from = writer_.AsConst(lo), to = writer_.AsConst(hi);
  if (from && to && *to <= *from) return OkStatus();
  if (from && to && *to == *from + 1) return body(lo);
  Writer::Loop loop = writer_.BeginFor(lo, hi, writer_.I64(1), {}, from && to);
  HY_TRY(body(loop.variable));
  writer_.EndFor({});
  return OkStatus();
}

Status ContractionBuilder::EmitSlice(const Factor& factor) {
  for (loop::OpId op : factor.ops) HY_TRY(emitter_.EmitOp(op));
  return OkStatus();
}

// Rows of the broadcast side, k contiguous: rows[(r - task_row) * row_stride + k - block_lo].
// Vectors run along the innermost loop of k where they would otherwise cross from one of its
// iterations into the next.
Status ContractionBuilder::PackRows(V row_lo, V row_hi) {
  int64_t k_count = block_, run = k_count;
  Expr taps, along = k0_;
  if (problem_.k.digits.size() > 1) {
    std::optional<int64_t> inner = exprs_.AsConst(problem_.k.digits.back().second);
    if (inner && *inner > 1 && *inner % lanes_ != 0) {
      run = *inner;
      if (k_count % run != 0) return Bad("a block of k ends inside a run of the window");
      taps = exprs_.Loop("taps", exprs_.Const(*k_count_ / run));
      along = exprs_.Loop("run", exprs_.Const(run));
    }
  }
  return ForPanels(row_lo, row_hi, [&](V row) -> Status {
    emitter_.Bind(r0_, row);
    emitter_.Shift(rows_.flat, r0_, 0);
    V base = writer_.Mul(writer_.Sub(row, task_row_), writer_.I64(row_stride_));
    auto one_run = [&](V first, V start) -> Status {
      auto vector = [&](V k, V mask) -> Status {
        emitter_.BeginVector(along, writer_.Add(start, k), lanes_, mask);
        HY_TRY(EmitSlice(row_factor_));
        emitter_.EndVector();
        V value = writer_.Splat(emitter_.ValueOf(row_factor_.value), lanes_);
        writer_.Store(packed_rows_, writer_.Add(first, k), value, mask);
        return OkStatus();
      };
      int64_t whole = run / lanes_ * lanes_;
      if (whole > 0) {
        Writer::Loop loop =
            writer_.BeginFor(writer_.I64(0), writer_.I64(whole), writer_.I64(lanes_), {}, true);
        HY_TRY(vector(loop.variable, kNone));
        writer_.EndFor({});
      }
      if (whole == run) return OkStatus();
      V mask = kNone;
      if (lanes_ > 1)
        mask = writer_.Compare(Opcode::kLt, writer_.Iota(DType::kI64, lanes_),
                               writer_.I64(run - whole));
      return vector(writer_.I64(whole), mask);
    };
    if (!taps.valid()) {
      emitter_.Shift(problem_.k.flat, k0_, 0);
      return one_run(base, block_lo_);
    }
    emitter_.Shift(problem_.k.flat, exprs_.Add(exprs_.Mul(taps, exprs_.Const(run)), along), 0);
    Writer::Loop loop = writer_.BeginFor(writer_.I64(0), writer_.I64(k_count / run), writer_.I64(1),
                                         {}, k_count > 0);
    emitter_.Bind(taps,
                  writer_.Add(writer_.FloorDiv(block_lo_, writer_.I64(run), true), loop.variable));
    HY_TRY(
        one_run(writer_.Add(base, writer_.Mul(loop.variable, writer_.I64(run))), writer_.I64(0)));
    writer_.EndFor({});
    return OkStatus();
  });
}

// One panel of the vector side: panel[k * width + lane], zero where masked off.
Status ContractionBuilder::PackPanel(const Tile& tile) {
  emitter_.Bind(v0_, tile.v0);
  emitter_.Shift(problem_.k.flat, k0_, 0);
  Writer::Loop loop = writer_.BeginFor(block_lo_, block_hi_, writer_.I64(1), {}, *k_count_ > 0);
  emitter_.Bind(k0_, loop.variable);
  V base = writer_.Mul(writer_.Sub(loop.variable, block_lo_), writer_.I64(width_));
  for (int j = 0; j < tile.nv; ++j) {
    emitter_.Shift(vecs_.flat, v0_, int64_t{j} * lanes_);
    emitter_.BeginVector(v0_, tile.v0, lanes_, tile.masks[static_cast<size_t>(j)]);
    HY_TRY(EmitSlice(vec_factor_));
    emitter_.EndVector();
    V value = writer_.Splat(emitter_.ValueOf(vec_factor_.value), lanes_);
    writer_.Store(packed_vecs_, writer_.Add(base, writer_.I64(int64_t{j} * lanes_)), value);
  }
  writer_.EndFor({});
  packed_base_ = writer_.I64(0);
  return OkStatus();
}

Status ContractionBuilder::VectorPanels(V lo, V hi,
                                        const std::function<Status(const Tile&)>& body) {
  auto whole_panel = [&](V panel) -> Status {
    Tile tile;
    tile.nv = record_.nv;
    tile.masks.assign(static_cast<size_t>(tile.nv), kNone);
    tile.v0 = writer_.Mul(panel, writer_.I64(width_));
    packed_base_ = kNone;
    if (record_.b == OperandMode::kPackedConstant)
      packed_base_ =
          writer_.Mul(writer_.Add(packed_batch_, panel), writer_.I64(*k_count_ * width_));
    return body(tile);
  };
  V whole = writer_.FloorDiv(vec_total_, writer_.I64(width_), true);
  HY_TRY(ForPanels(lo, writer_.Min(hi, whole), whole_panel));
  if (vec_count_ && *vec_count_ % width_ == 0) return OkStatus();
  // The last panel is not whole.
  auto known = writer_.AsConst(hi);
  bool always = known && vec_count_ && *known > *vec_count_ / width_;
  if (!always) writer_.BeginIf(writer_.Compare(Opcode::kGt, hi, whole));
  Tile tile;
  tile.v0 = writer_.Mul(whole, writer_.I64(width_));
  V rest = writer_.Sub(vec_total_, tile.v0);
  tile.nv = record_.nv;
  if (vec_count_) tile.nv = static_cast<int>((*vec_count_ % width_ + lanes_ - 1) / lanes_);
  for (int j = 0; j < tile.nv; ++j) {
    V left = writer_.Sub(rest, writer_.I64(int64_t{j} * lanes_));
    auto count = writer_.AsConst(left);
    bool full = (count && *count >= lanes_) || lanes_ == 1;
    tile.masks.push_back(
        full ? kNone : writer_.Compare(Opcode::kLt, writer_.Iota(DType::kI64, lanes_), left));
  }
  packed_base_ = kNone;
  if (record_.b == OperandMode::kPackedConstant)
    packed_base_ = writer_.Mul(writer_.Add(packed_batch_, whole), writer_.I64(*k_count_ * width_));
  HY_TRY(body(tile));
  if (!always) writer_.EndIf({});
  return OkStatus();
}

Status ContractionBuilder::RowPanels(V lo, V hi, Tile tile) {
  if (row_count_) {
    if (panels_ == 0) return OkStatus();
    tile.h = height_;
    V split = writer_.I64(high_);
    HY_TRY(ForPanels(lo, high_ == panels_ ? hi : writer_.Min(hi, split), [&](V panel) -> Status {
      tile.m0 = writer_.Mul(panel, writer_.I64(height_));
      return EmitTile(tile);
    }));
    if (high_ == panels_ || height_ == 1) return OkStatus();
    tile.h = height_ - 1;
    return ForPanels(writer_.Max(lo, split), hi, [&](V panel) -> Status {
      tile.m0 = writer_.Add(writer_.Mul(panel, writer_.I64(height_ - 1)), split);
      return EmitTile(tile);
    });
  }
  V whole = writer_.FloorDiv(row_total_, writer_.I64(height_), true);
  tile.h = height_;
  HY_TRY(ForPanels(lo, writer_.Min(hi, whole), [&](V panel) -> Status {
    tile.m0 = writer_.Mul(panel, writer_.I64(height_));
    return EmitTile(tile);
  }));
  if (height_ == 1) return OkStatus();
  writer_.BeginIf(writer_.Compare(Opcode::kGt, hi, whole));
  tile.m0 = writer_.Mul(whole, writer_.I64(height_));
  writer_.BeginIf(writer_.Compare(Opcode::kEq, writer_.Sub(row_total_, tile.m0), writer_.I64(1)));
  tile.h = 1;
  HY_TRY(EmitTile(tile));
  writer_.BeginElse({});
  tile.h = height_;
  tile.clamped = true;
  HY_TRY(EmitTile(tile));
  writer_.EndIf({});
  writer_.EndIf({});
  return OkStatus();
}

// acc += A[rows][k + u] * B[k + u][vectors]
Status ContractionBuilder::EmitStep(const Tile& tile, V k, int64_t u, std::vector<V>& acc) {
  emitter_.Bind(k0_, k);
  emitter_.Shift(problem_.k.flat, k0_, u);
  auto lanes = static_cast<uint16_t>(lanes_);
  std::vector<V> b;
  for (int j = 0; j < tile.nv; ++j) {
    int64_t at = int64_t{j} * lanes_;
    if (record_.b == OperandMode::kInPlace) {
      emitter_.Shift(vecs_.flat, v0_, at);
      emitter_.BeginVector(v0_, tile.v0, lanes_, tile.masks[static_cast<size_t>(j)]);
      HY_TRY(EmitSlice(vec_factor_));
      emitter_.EndVector();
      b.push_back(writer_.Splat(emitter_.ValueOf(vec_factor_.value), lanes_));
      continue;
    }
    bool stable = record_.b == OperandMode::kPackedConstant;
    V step = stable ? k : writer_.Sub(k, block_lo_);
    V index = writer_.Add(packed_base_, writer_.Mul(step, writer_.I64(width_)));
    index = writer_.Add(index, writer_.I64(u * width_ + at));
    V loaded = writer_.Load(packed_vecs_, index, lanes_, stable);
    b.push_back(writer_.Convert(loaded, problem_.dtype));
  }
  for (int i = 0; i < tile.h; ++i) {
    V row = tile.m0;
    int64_t shift = i;
    if (tile.clamped) {
      row = writer_.Min(writer_.Add(tile.m0, writer_.I64(i)),
                        writer_.Sub(row_total_, writer_.I64(1)));
      shift = 0;
    }
    V a;
    if (record_.pack_a) {
      V base = writer_.Mul(writer_.Sub(row, task_row_), writer_.I64(row_stride_));
      V index = writer_.Add(writer_.Add(base, writer_.Sub(k, block_lo_)),
                            writer_.I64(shift * row_stride_ + u));
      a = writer_.Load(packed_rows_, index, 1, false);
    } else {
      emitter_.Bind(r0_, row);
      emitter_.Shift(rows_.flat, r0_, shift);
      HY_TRY(EmitSlice(row_factor_));
      a = emitter_.ValueOf(row_factor_.value);
    }
    a = writer_.Splat(a, lanes_);
    for (int j = 0; j < tile.nv; ++j) {
      V& sum = acc[static_cast<size_t>(i * tile.nv + j)];
      Type type{problem_.dtype, lanes};
      V bj = b[static_cast<size_t>(j)];
      sum =
          IsFloat(problem_.dtype)
              ? writer_.Pure(Opcode::kFma, type, {a, bj, sum})
              : writer_.Pure(Opcode::kAdd, type, {sum, writer_.Pure(Opcode::kMul, type, {a, bj})});
    }
  }
  return OkStatus();
}

// The sums of one block of k, added to those of the blocks before it.
Status ContractionBuilder::EmitBlockOfTile(const Tile& tile) {
  const auto at = [&](int i, int j) { return static_cast<size_t>(i * tile.nv + j); };
  std::vector<V> acc(static_cast<size_t>(tile.h * tile.nv), kNone), zeros(acc);
  // A tile's sums lie together.
  V base = writer_.Add(writer_.Mul(writer_.Sub(tile.v0, task_vec_),
                                   writer_.I64(record_.mc / record_.mr * record_.mr)),
                       writer_.Mul(writer_.Sub(tile.m0, task_row_), writer_.I64(width_)));
  const auto place = [&](int i, int j) {
    return writer_.Add(base, writer_.I64(i * width_ + int64_t{j} * lanes_));
  };
  writer_.BeginIf(is_first_);
  for (V& zero : zeros) zero = writer_.Const(problem_.dtype, 0, lanes_);
  writer_.BeginElse(zeros);
  for (int i = 0; i < tile.h; ++i)
    for (int j = 0; j < tile.nv; ++j)
      acc[at(i, j)] = writer_.Load(partial_, place(i, j), lanes_, false);
  acc = writer_.EndIf(acc);
  Writer::Loop loop =
      writer_.BeginFor(block_lo_, block_hi_, writer_.I64(record_.unroll), acc, true);
  acc = loop.carried;
  for (int64_t u = 0; u < record_.unroll; ++u) HY_TRY(EmitStep(tile, loop.variable, u, acc));
  acc = writer_.EndFor(acc);
  writer_.BeginIf(is_last_);
  HY_TRY(EmitEpilogue(tile, acc));
  writer_.BeginElse({});
  for (int i = 0; i < tile.h; ++i)
    for (int j = 0; j < tile.nv; ++j) writer_.Store(partial_, place(i, j), acc[at(i, j)]);
  writer_.EndIf({});
  return OkStatus();
}

Status ContractionBuilder::EmitTile(const Tile& tile) {
  if (is_blocked_) return EmitBlockOfTile(tile);
  std::vector<V> acc(static_cast<size_t>(tile.h * tile.nv),
                     writer_.Const(problem_.dtype, 0, lanes_));
  int64_t step = record_.unroll;
  if (k_count_ && *k_count_ * tile.h * tile.nv <= kMaxUnrolledFmas) {
    for (int64_t k = 0; k < *k_count_; ++k) HY_TRY(EmitStep(tile, writer_.I64(0), k, acc));
    return EmitEpilogue(tile, acc);
  }
  V main = writer_.Sub(k_total_, writer_.FloorMod(k_total_, writer_.I64(step), true));
  if (!k_count_ || *k_count_ >= step) {
    Writer::Loop loop =
        writer_.BeginFor(writer_.I64(0), main, writer_.I64(step), acc, k_count_.has_value());
    acc = loop.carried;
    for (int64_t u = 0; u < step; ++u) HY_TRY(EmitStep(tile, loop.variable, u, acc));
    acc = writer_.EndFor(acc);
  }
  if (k_count_) {
    for (int64_t u = 0; u < *k_count_ % step; ++u) HY_TRY(EmitStep(tile, main, u, acc));
  } else if (step > 1) {
    Writer::Loop loop = writer_.BeginFor(main, k_total_, writer_.I64(1), acc, false);
    acc = loop.carried;
    HY_TRY(EmitStep(tile, loop.variable, 0, acc));
    acc = writer_.EndFor(acc);
  }
  return EmitEpilogue(tile, acc);
}

Status ContractionBuilder::EmitEpilogue(const Tile& tile, const std::vector<V>& acc) {
  auto emit_vector = [&](int j, V sum) -> Status {
    emitter_.Shift(vecs_.flat, v0_, int64_t{j} * lanes_);
    emitter_.BeginVector(v0_, tile.v0, lanes_, tile.masks[static_cast<size_t>(j)]);
    emitter_.SetValue(problem_.accumulator, sum);
    for (loop::OpId op : problem_.epilogue) HY_TRY(emitter_.EmitOp(op));
    emitter_.EndVector();
    return OkStatus();
  };
  if (tile_buffer_ == kNone) {
    for (int i = 0; i < tile.h; ++i) {
      emitter_.Bind(r0_, tile.m0);
      emitter_.Shift(rows_.flat, r0_, i);
      for (int j = 0; j < tile.nv; ++j)
        HY_TRY(emit_vector(j, acc[static_cast<size_t>(i * tile.nv + j)]));
    }
    return OkStatus();
  }
  for (int i = 0; i < tile.h; ++i)
    for (int j = 0; j < tile.nv; ++j)
      writer_.Store(tile_buffer_, writer_.I64(i * width_ + int64_t{j} * lanes_),
                    acc[static_cast<size_t>(i * tile.nv + j)]);
  V rows = writer_.I64(tile.h);
  if (tile.clamped) rows = writer_.Min(rows, writer_.Sub(row_total_, tile.m0));
  emitter_.Shift(rows_.flat, r0_, 0);
  return ForPanels(writer_.I64(0), rows, [&](V i) -> Status {
    emitter_.Bind(r0_, writer_.Add(tile.m0, i));
    for (int j = 0; j < tile.nv; ++j) {
      V index = writer_.Add(writer_.Mul(i, writer_.I64(width_)), writer_.I64(int64_t{j} * lanes_));
      HY_TRY(emit_vector(j, writer_.Load(tile_buffer_, index, lanes_, false)));
    }
    return OkStatus();
  });
}

}  // namespace

Result<ScheduledKernel> BuildContraction(const loop::Function& function, uint32_t kernel,
                                         const ScheduleRecord& record, const Target& target) {
  std::string why;
  std::optional<Problem> problem = ReadContraction(function, function.kernels[kernel], &why);
  if (!problem)
    return InvalidArgument("Schedule '{}' needs a contraction; kernel '{}' is none: {}.",
                           FormatSchedule(record), function.kernels[kernel].name, why);
  return ContractionBuilder(function, function.kernels[kernel], record, target, std::move(*problem))
      .Build();
}

}  // namespace halyard::schedule
