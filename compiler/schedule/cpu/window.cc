// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/window.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/cpu/tasks.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using loop::LoopKind;
using loop::Op;
using loop::OpId;
using loop::OpKind;
using loop::ReduceKind;
using V = kernel::ValueId;

namespace {

constexpr int64_t kMostTaps = 25;      // each is written out for each position
constexpr int64_t kMostExtent = 4096;  // of a loop that masks depend on

// Iterations of a loop in which it makes no mask false, whatever the other loops do.
struct Inside {
  int64_t lo = 0, hi = 0;
};

struct Window {
  std::vector<int> outer;     // chain loops around position and lanes
  int position = -1;          // the loop along which the window slides
  int lane = -1;              // innermost of the chain
  std::vector<OpId> reduces;  // outermost first, perfectly nested
  std::vector<OpId> taps;     // ops of the innermost body
  int64_t tap_count = 1;
  std::vector<std::optional<Inside>>
      inside;  // per loop of `outer`, then of the position; none: always
};

enum class Truth { kFalse, kTrue, kUnknown };

// Reads a kernel as a window; nothing where it is none.
class Reader {
 public:
  explicit Reader(const Nest& nest) : nest_(nest), kernel_(nest.kernel), exprs_(nest.exprs) {}

  std::optional<Window> Read() {
    const std::vector<Piece> pieces = Cut(nest_);
    if (pieces.size() != 1 || pieces[0].chain.size() < 2) return std::nullopt;
    std::vector<int> chain = pieces[0].chain;
    for (int loop : chain)
      if (!nest_.WritesAreDistinct(loop)) return std::nullopt;
    window_.lane = chain.back();
    window_.position = chain[chain.size() - 2];
    chain.resize(chain.size() - 2);
    window_.outer = chain;
    for (const Op& op : kernel_.ops) {
      if (op.kind == OpKind::kScatter || op.kind == OpKind::kIndirect) return std::nullopt;
      if (op.buffer != loop::kNone &&
          nest_.function.buffers[op.buffer].role == loop::BufferRole::kLocal)
        return std::nullopt;
    }
    if (kernel_.ordered_reductions || !nest_.CanVectorise(window_.lane)) return std::nullopt;
    if (!ConstExtent(window_.lane) || !ConstExtent(window_.position)) return std::nullopt;
    if (!ReadTaps() || !ReadMasks()) return std::nullopt;
    return std::move(window_);
  }

 private:
  std::optional<int64_t> ConstExtent(int loop) const {
    return exprs_.AsConst(nest_.OpOf(loop).extent);
  }

  // The lane loop holds one reduction: perfectly nested loops of one kind and constant extents.
  bool ReadTaps() {
    OpId found = loop::kNone;
    for (OpId id : kernel_.blocks[nest_.OpOf(window_.lane).body].ops) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kLoop) continue;
      if (found != loop::kNone) return false;
      found = id;
    }
    while (found != loop::kNone) {
      const Op& op = kernel_.ops[found];
      const std::optional<int64_t> extent = exprs_.AsConst(op.extent);
      if (op.loop != LoopKind::kReduce || op.reduces.size() != 1 || !extent || *extent < 1 ||
          *extent > kMostTaps)
        return false;
      const ReduceKind kind = op.reduces[0];
      if (kind != ReduceKind::kSum && kind != ReduceKind::kMax && kind != ReduceKind::kMin)
        return false;
      if (!window_.reduces.empty() && kernel_.ops[window_.reduces[0]].reduces[0] != kind)
        return false;
      window_.reduces.push_back(found);
      window_.tap_count *= *extent;
      window_.taps = kernel_.blocks[op.body].ops;
      OpId inner = loop::kNone;
      for (OpId id : window_.taps) {
        if (kernel_.ops[id].kind == OpKind::kStore) return false;
        if (kernel_.ops[id].kind != OpKind::kLoop) continue;
        if (inner != loop::kNone) return false;
        inner = id;
      }
      if (inner != loop::kNone) {
        const Op& yield = kernel_.ops[window_.taps.back()];
        if (kernel_.values[yield.operands[0]].producer != inner) return false;
        for (OpId id : window_.taps)
          if (id != inner && kernel_.ops[id].kind != OpKind::kConst &&
              kernel_.ops[id].kind != OpKind::kYield)
            return false;
      }
      found = inner;
    }
    return window_.tap_count >= 2 && window_.tap_count <= kMostTaps;
  }

  // Masks are conjunctions of comparisons, each of which looks at one chain loop and the window.
  bool ReadMasks() {
    for (OpId id : window_.taps) {
      const Op& op = kernel_.ops[id];
      if (op.kind != OpKind::kLoad || op.operands.empty()) continue;
      masks_.push_back(op.operands[0]);
      if (!CheckMask(op.operands[0])) return false;
    }
    // A tap outside at every position, as along a padded axis of size 1, makes no position an
    // inside one.
    if (!HoldsAt({})) return false;
    std::vector<int> loops = window_.outer;
    loops.push_back(window_.position);
    for (int loop : loops) {
      if (masked_.count(loop) == 0) {
        window_.inside.push_back(std::nullopt);
        continue;
      }
      const std::optional<int64_t> extent = ConstExtent(loop);
      if (!extent || *extent > kMostExtent) return false;
      Inside inside;
      for (int64_t i = 0; i < *extent; ++i) {
        if (!HoldsAt({{nest_.OpOf(loop).symbol, exprs_.Const(i)}})) continue;
        if (inside.hi == inside.lo) {
          inside = {i, i + 1};
        } else if (inside.hi == i) {
          ++inside.hi;
        }
      }
      window_.inside.push_back(inside);
    }
    return true;
  }

  bool CheckMask(loop::ValueId value) {
    const OpId id = kernel_.values[value].producer;
    if (id == loop::kNone) return false;
    const Op& op = kernel_.ops[id];
    if (op.kind == OpKind::kConst) return true;
    if (op.kind != OpKind::kScalar) return false;
    if (op.opcode == Opcode::kAnd) return CheckMask(op.operands[0]) && CheckMask(op.operands[1]);
    if (op.opcode != Opcode::kLe && op.opcode != Opcode::kLt && op.opcode != Opcode::kGe &&
        op.opcode != Opcode::kGt)
      return false;
    std::set<int> loops;
    for (loop::ValueId operand : op.operands) {
      const OpId producer = kernel_.values[operand].producer;
      if (producer == loop::kNone) return false;
      const Op& source = kernel_.ops[producer];
      if (source.kind == OpKind::kConst) continue;
      if (source.kind != OpKind::kIndex) return false;
      for (Expr symbol : exprs_.SymbolsOf(source.index)) {
        if (IsTap(symbol)) continue;
        int loop = LoopOf(symbol);
        if (loop < 0) return false;
        loops.insert(loop);
      }
    }
    if (loops.size() > 1) return false;
    masked_.insert(loops.begin(), loops.end());
    return true;
  }

  bool IsTap(Expr symbol) const {
    return std::any_of(window_.reduces.begin(), window_.reduces.end(),
                       [&](OpId id) { return kernel_.ops[id].symbol == symbol; });
  }
  // The chain loop of the symbol, the lanes excepted.
  int LoopOf(Expr symbol) const {
    if (nest_.OpOf(window_.position).symbol == symbol) return window_.position;
    for (int loop : window_.outer)
      if (nest_.OpOf(loop).symbol == symbol) return loop;
    return -1;
  }

  // Whether no tap makes a mask false for certain, given the loops that are known.
  bool HoldsAt(std::vector<std::pair<Expr, Expr>> known) {
    std::function<bool(size_t)> all_taps = [&](size_t depth) {
      if (depth == window_.reduces.size())
        return std::all_of(masks_.begin(), masks_.end(), [&](loop::ValueId mask) {
          return Evaluate(mask, known) != Truth::kFalse;
        });
      const Op& reduce = kernel_.ops[window_.reduces[depth]];
      const int64_t extent = exprs_.AsConst(reduce.extent).value_or(0);
      for (int64_t i = 0; i < extent; ++i) {
        known.emplace_back(reduce.symbol, exprs_.Const(i));
        const bool holds = all_taps(depth + 1);
        known.pop_back();
        if (!holds) return false;
      }
      return true;
    };
    return all_taps(0);
  }

  Truth Evaluate(loop::ValueId value, std::span<const std::pair<Expr, Expr>> known) {
    const Op& op = kernel_.ops[kernel_.values[value].producer];
    if (op.kind == OpKind::kConst) return op.immediate != 0 ? Truth::kTrue : Truth::kFalse;
    if (op.opcode == Opcode::kAnd) {
      const Truth a = Evaluate(op.operands[0], known), b = Evaluate(op.operands[1], known);
      if (a == Truth::kFalse || b == Truth::kFalse) return Truth::kFalse;
      return a == Truth::kTrue && b == Truth::kTrue ? Truth::kTrue : Truth::kUnknown;
    }
    std::optional<int64_t> sides[2];
    for (int i = 0; i < 2; ++i) {
      const Op& source = kernel_.ops[kernel_.values[op.operands[static_cast<size_t>(i)]].producer];
      sides[i] = source.kind == OpKind::kConst
                     ? std::optional(source.immediate)
                     : exprs_.AsConst(exprs_.Substitute(source.index, known));
      if (!sides[i]) return Truth::kUnknown;
    }
    const int64_t a = *sides[0], b = *sides[1];
    const bool holds = op.opcode == Opcode::kLe   ? a <= b
                       : op.opcode == Opcode::kLt ? a < b
                       : op.opcode == Opcode::kGe ? a >= b
                                                  : a > b;
    return holds ? Truth::kTrue : Truth::kFalse;
  }

  const Nest& nest_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  Window window_;
  std::vector<loop::ValueId> masks_;
  std::set<int> masked_;  // loops that masks look at
};

// Emits the taps of several positions with every mask taken as true.
class WindowEmitter final : public Emitter {
 public:
  using Emitter::Emitter;

  Status EmitPositions(const Window& window, Expr position, Expr base, int count,
                       loop::BlockId body) {
    const Op& first = kernel_.ops[window.reduces[0]];
    const Op& innermost = kernel_.ops[window.reduces.back()];
    // Written once for the first position; they depend on none.
    for (OpId id : kernel_.blocks[body].ops) {
      if (kernel_.ops[id].kind == OpKind::kConst) HY_TRY(EmitOp(id));
    }
    std::vector<std::vector<V>> sums(static_cast<size_t>(count), Identities(first, lanes()));
    for (int64_t tap = 0; tap < window.tap_count; ++tap) {
      int64_t rest = tap;
      for (size_t i = window.reduces.size(); i-- > 0;) {
        const Op& reduce = kernel_.ops[window.reduces[i]];
        const int64_t extent = exprs_.AsConst(reduce.extent).value_or(1);
        Bind(reduce.symbol, writer_.Index(rest % extent));
        rest /= extent;
      }
      for (int p = 0; p < count; ++p) {
        Shift(position, base, p);
        HY_TRY(Accumulate(innermost, sums[static_cast<size_t>(p)]));
      }
    }
    for (int p = 0; p < count; ++p) {
      Shift(position, base, p);
      for (OpId id : kernel_.blocks[body].ops) {
        if (kernel_.ops[id].kind == OpKind::kLoop) {
          SetValue(kernel_.ops[id].results[0], sums[static_cast<size_t>(p)][0]);
        } else {
          HY_TRY(EmitOp(id));
        }
      }
    }
    return OkStatus();
  }

  bool ignores_masks = false;

 protected:
  Status EmitLoad(const Op& op) override {
    if (ignores_masks && !op.operands.empty())
      SetValue(op.operands[0], writer_.Const(DType::kBool, 1));
    return Emitter::EmitLoad(op);
  }
};

class WindowBuilder {
 public:
  WindowBuilder(const Nest& nest, const ScheduleRecord& record, const Target& target,
                const Window& window)
      : nest_(nest),
        exprs_(nest.exprs),
        record_(record),
        window_(window),
        masked_tails_(target.vector_bytes >= 32),
        writer_(KernelName(nest.kernel.name, "")),
        emitter_(nest.function, nest.kernel, writer_, OptionsFor()),
        position_(nest.OpOf(window.position)),
        lane_(nest.OpOf(window.lane)),
        extent_(*exprs_.AsConst(position_.extent)),
        channels_(*exprs_.AsConst(lane_.extent)) {}

  Result<ScheduledKernel> Build();

 private:
  Emitter::Options OptionsFor() const {
    Emitter::Options options;
    options.lanes = record_.lanes;
    options.masked_tails = masked_tails_;
    options.vector_loops.insert(nest_.loops[static_cast<size_t>(window_.lane)].op);
    return options;
  }
  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           nest_.kernel.name, why);
  }
  Status EmitRow(V row, V lane_lo, V lane_hi);
  Status EmitInside(V lane_lo, V lane_hi);
  Status EmitVector(V lane, V mask);

  const Nest& nest_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const Window& window_;
  const bool masked_tails_;
  Writer writer_;
  WindowEmitter emitter_;
  const Op &position_, &lane_;
  const int64_t extent_, channels_;
  Inside along_;  // of the position
  Expr base_;     // the first position of a block
};

Result<ScheduledKernel> WindowBuilder::Build() {
  if (record_.lanes < 2 || record_.lanes > 64 || (record_.lanes & (record_.lanes - 1)) != 0)
    return Bad("bad lanes");
  if (record_.mr < 1 || record_.mr > 16) return Bad("bad number of positions");
  if (record_.grain < 1) return Bad("no rows per task");
  if (record_.chunk < 0 || record_.chunk % record_.lanes != 0) return Bad("bad chunk");
  if (!masked_tails_ && channels_ % record_.lanes != 0) return Bad("it leaves lanes over");
  along_ = window_.inside.back().value_or(Inside{0, extent_});
  base_ = exprs_.Loop("position", position_.extent);

  ScheduledKernel scheduled;
  scheduled.record = record_;
  Dispatch dispatch;
  Expr rows = exprs_.Const(1);
  for (int loop : window_.outer) rows = exprs_.Mul(rows, nest_.OpOf(loop).extent);
  dispatch.grid[0] = exprs_.CeilDiv(rows, exprs_.Const(record_.grain));
  dispatch.grid[1] = dispatch.grid[2] = exprs_.Const(1);
  V lane_lo = writer_.I64(0), lane_hi = writer_.I64(channels_);
  if (record_.chunk > 0) {
    dispatch.grid[1] = exprs_.Const((channels_ + record_.chunk - 1) / record_.chunk);
    lane_lo = writer_.Mul(writer_.WorkgroupId(1), writer_.I64(record_.chunk));
    lane_hi = writer_.Min(writer_.Add(lane_lo, writer_.I64(record_.chunk)), lane_hi);
  }
  V lo = writer_.Mul(writer_.WorkgroupId(0), writer_.I64(record_.grain));
  V hi = writer_.Add(lo, writer_.I64(record_.grain));
  if (!exprs_.KnownMultipleOf(rows, record_.grain)) hi = writer_.Min(hi, emitter_.Evaluate(rows));
  Writer::Loop loop = writer_.BeginFor(lo, hi, writer_.I64(1), {}, true);
  HY_TRY(EmitRow(loop.variable, lane_lo, lane_hi));
  writer_.EndFor({});
  dispatch.bindings = emitter_.bindings;
  dispatch.scalars = emitter_.scalars;
  scheduled.kernels.push_back(writer_.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  return scheduled;
}

Status WindowBuilder::EmitRow(V row, V lane_lo, V lane_hi) {
  V inside = kNone;
  for (size_t i = window_.outer.size(); i-- > 0;) {
    const Op& loop = nest_.OpOf(window_.outer[i]);
    V value = row;
    if (i > 0) {
      V extent = emitter_.Evaluate(loop.extent);
      V rest = writer_.FloorDiv(row, extent, true);
      value = writer_.Sub(row, writer_.Mul(rest, extent));
      row = rest;
    }
    emitter_.Bind(loop.symbol, value);
    if (!window_.inside[i]) continue;
    V low = writer_.Compare(Opcode::kGe, value, writer_.I64(window_.inside[i]->lo));
    V high = writer_.Compare(Opcode::kLt, value, writer_.I64(window_.inside[i]->hi));
    V both = writer_.Pure(Opcode::kAnd, writer_.TypeOf(low), {low, high});
    inside =
        inside == kNone ? both : writer_.Pure(Opcode::kAnd, writer_.TypeOf(low), {inside, both});
  }
  // Constants that stand outside the lane loop.
  for (OpId id : nest_.kernel.blocks[0].ops)
    if (nest_.kernel.ops[id].kind == OpKind::kConst) HY_TRY(emitter_.EmitOp(id));
  std::vector<int> around = window_.outer;
  around.push_back(window_.position);
  for (int loop : around)
    for (OpId id : nest_.kernel.blocks[nest_.OpOf(loop).body].ops)
      if (nest_.kernel.ops[id].kind == OpKind::kConst) HY_TRY(emitter_.EmitOp(id));

  // The border: positions before and behind the inside, or all of a row outside.
  const int64_t inner = along_.hi - along_.lo;
  if (inner > 0) {
    if (inside != kNone) writer_.BeginIf(inside);
    HY_TRY(EmitInside(lane_lo, lane_hi));
    if (inside != kNone) writer_.EndIf({});
  }
  if (inner == extent_ && inside == kNone) return OkStatus();
  V count = writer_.I64(extent_ - inner), skip = writer_.I64(inner);
  if (inside != kNone) {
    count = writer_.Select(inside, count, writer_.I64(extent_));
    skip = writer_.Select(inside, skip, writer_.I64(0));
  }
  Writer::Loop border =
      writer_.BeginFor(writer_.I64(0), count, writer_.I64(1), {}, inner < extent_);
  V is_behind = writer_.Compare(Opcode::kGe, border.variable, writer_.I64(along_.lo));
  V at = writer_.Add(border.variable, writer_.Select(is_behind, skip, writer_.I64(0)));
  emitter_.Bind(base_, at);
  emitter_.Shift(position_.symbol, base_, 0);
  emitter_.ignores_masks = false;
  HY_TRY(emitter_.EmitParallel(nest_.loops[static_cast<size_t>(window_.lane)].op, lane_lo, lane_hi,
                               channels_ % record_.lanes == 0 ? record_.lanes : 1));
  writer_.EndFor({});
  return OkStatus();
}

Status WindowBuilder::EmitInside(V lane_lo, V lane_hi) {
  const int64_t rest = channels_ % record_.lanes;
  const int64_t whole = channels_ - rest;
  emitter_.ignores_masks = true;
  if (whole > 0) {
    V end = record_.chunk > 0 ? writer_.Min(lane_hi, writer_.I64(whole)) : writer_.I64(whole);
    Writer::Loop loop =
        writer_.BeginFor(lane_lo, end, writer_.I64(record_.lanes), {}, record_.chunk == 0);
    HY_TRY(EmitVector(loop.variable, kNone));
    writer_.EndFor({});
  }
  if (rest == 0) return OkStatus();
  if (record_.chunk > 0) writer_.BeginIf(writer_.Compare(Opcode::kGt, lane_hi, writer_.I64(whole)));
  HY_TRY(EmitVector(
      writer_.I64(whole),
      writer_.Compare(Opcode::kLt, writer_.Iota(DType::kI64, record_.lanes), writer_.I64(rest))));
  if (record_.chunk > 0) writer_.EndIf({});
  return OkStatus();
}

Status WindowBuilder::EmitVector(V lane, V mask) {
  const int64_t count = along_.hi - along_.lo;
  const int64_t blocks = count / record_.mr, rest = count % record_.mr;
  emitter_.BeginVector(lane_.symbol, lane, record_.lanes, mask);
  auto block = [&](V at, int positions) {
    emitter_.Bind(base_, at);
    return emitter_.EmitPositions(window_, position_.symbol, base_, positions, lane_.body);
  };
  if (blocks > 0) {
    Writer::Loop loop =
        writer_.BeginFor(writer_.I64(along_.lo), writer_.I64(along_.lo + blocks * record_.mr),
                         writer_.I64(record_.mr), {}, true);
    HY_TRY(block(loop.variable, record_.mr));
    writer_.EndFor({});
  }
  if (rest > 0) HY_TRY(block(writer_.I64(along_.lo + blocks * record_.mr), static_cast<int>(rest)));
  emitter_.EndVector();
  return OkStatus();
}

}  // namespace

std::vector<ScheduleRecord> EnumerateWindow(const loop::Function& function, uint32_t kernel,
                                            const Target& target) {
  const Nest nest(function, function.kernels[kernel]);
  const std::optional<Window> window = Reader(nest).Read();
  if (!window) return {};
  const int64_t channels = *nest.exprs.AsConst(nest.OpOf(window->lane).extent);
  // Every value takes a lane of 32 bits or more.
  int widest = 4;
  for (const AccessSite& site : nest.accesses)
    widest = std::max(widest,
                      BitWidth(nest.function.buffers[nest.kernel.ops[site.op].buffer].dtype) / 8);
  ScheduleRecord record;
  record.kind = ScheduleKind::kWindow;
  record.lanes = target.vector_bytes / widest;
  if (record.lanes < 2 || channels < record.lanes ||
      (target.vector_bytes < 32 && channels % record.lanes != 0))
    return {};
  Expr product = nest.exprs.Const(1);
  for (int loop : window->outer) product = nest.exprs.Mul(product, nest.OpOf(loop).extent);
  const int64_t rows = std::max<int64_t>(1, nest.exprs.HintOf(product));
  int top = window->lane;
  while (nest.loops[static_cast<size_t>(top)].parent >= 0)
    top = nest.loops[static_cast<size_t>(top)].parent;
  const int64_t workers = std::max(1, target.worker_count);
  const auto tasks = std::clamp<int64_t>(static_cast<int64_t>(nest.Work(top) / kTaskWork), 1,
                                         workers * kTasksPerWorker);
  record.grain = std::max<int64_t>(1, rows / tasks);
  if (tasks > rows) {
    const int64_t parts = (tasks + rows - 1) / rows;
    const int64_t vectors = (channels + record.lanes - 1) / record.lanes;
    record.chunk = (vectors + parts - 1) / parts * record.lanes;
    if (record.chunk >= channels) record.chunk = 0;
  }
  record.mr = target.vector_registers >= 32 ? 4 : 2;
  return {record};
}

Result<ScheduledKernel> BuildWindow(const loop::Function& function, uint32_t kernel,
                                    const ScheduleRecord& record, const Target& target) {
  const Nest nest(function, function.kernels[kernel]);
  const std::optional<Window> window = Reader(nest).Read();
  if (!window)
    return InvalidArgument("Schedule '{}' needs a window; kernel '{}' has none.",
                           FormatSchedule(record), nest.kernel.name);
  return WindowBuilder(nest, record, target, *window).Build();
}

}  // namespace halyard::schedule
