// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/team.h"

#include <algorithm>

#include "base/check.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using loop::LoopKind;
using loop::Op;
using loop::OpKind;
using V = kernel::ValueId;

namespace {

// The only loop of a body that otherwise holds constants and, for a reduction, yields what the loop
// results in.
loop::OpId PerfectlyNested(const loop::Kernel& kernel, const Op& outer) {
  loop::OpId found = loop::kNone;
  for (loop::OpId id : kernel.blocks[outer.body].ops) {
    const Op& op = kernel.ops[id];
    if (op.kind == OpKind::kConst) continue;
    if (op.kind == OpKind::kLoop && found == loop::kNone && op.loop == outer.loop &&
        op.reduces == outer.reduces) {
      found = id;
      continue;
    }
    if (op.kind == OpKind::kYield && found != loop::kNone &&
        op.operands == kernel.ops[found].results)
      continue;
    return loop::kNone;
  }
  return found;
}

constexpr int kPartsAhead = 32;  // elements of parts that a workitem loads before it adds them

DType ExchangeType(DType dtype) { return BitWidth(dtype) < 32 ? DType::kI32 : dtype; }

}  // namespace

std::map<loop::OpId, TeamLoop> TeamLoops(const Nest& nest, const std::vector<loop::OpId>& ops,
                                         Emitter* emitter) {
  const loop::Kernel& kernel = nest.kernel;
  ExprArena& exprs = nest.exprs;
  std::map<loop::OpId, TeamLoop> loops;
  for (loop::OpId id : ops) {
    const Op& top = kernel.ops[id];
    if (top.kind != OpKind::kLoop || top.loop == LoopKind::kSequential) continue;
    TeamLoop loop;
    loop.nest = {id};
    loop.symbol = top.symbol;
    loop.extent = top.extent;
    bool arg = std::any_of(top.reduces.begin(), top.reduces.end(), [](loop::ReduceKind kind) {
      return kind == loop::ReduceKind::kArgMax || kind == loop::ReduceKind::kArgMin;
    });
    while (!arg) {
      loop::OpId inner = PerfectlyNested(kernel, kernel.ops[loop.nest.back()]);
      if (inner == loop::kNone) break;
      bool fixed = true;
      for (loop::OpId outer : loop.nest)
        fixed &= !exprs.DependsOn(kernel.ops[inner].extent, kernel.ops[outer].symbol);
      for (Expr s : exprs.SymbolsOf(kernel.ops[inner].extent))
        for (const Nest::Indirect& indirect : nest.indirects) fixed &= indirect.symbol != s;
      if (!fixed) break;
      loop.nest.push_back(inner);
      loop.extent = exprs.Mul(loop.extent, kernel.ops[inner].extent);
    }
    if (loop.nest.size() > 1 && emitter != nullptr) {
      loop.symbol = exprs.Loop("flat", loop.extent);
      std::vector<std::pair<Expr, Expr>> digits;
      for (loop::OpId one : loop.nest)
        digits.emplace_back(kernel.ops[one].symbol, kernel.ops[one].extent);
      emitter->Flatten(loop.symbol, std::move(digits));
    }
    loops.emplace(id, std::move(loop));
  }
  return loops;
}

TeamEmitter::TeamEmitter(const Nest& nest, Writer& writer, Options options, Team team)
    : Emitter(nest.function, nest.kernel, writer, std::move(options)), nest_(nest), team_(team) {}

bool TeamEmitter::IsUsedByOwner(loop::BufferId buffer) {
  Expr extent;
  for (const AccessSite& site : nest_.accesses) {
    const Op& op = kernel_.ops[site.op];
    if (op.buffer != buffer) continue;
    if (op.kind == OpKind::kScatter || op.operands.size() > (op.kind == OpKind::kStore ? 1u : 0u))
      return false;
    const TeamLoop* around = nullptr;
    for (const auto& [id, loop] : loops_)
      if (!site.loops.empty() &&
          nest_.loops[static_cast<size_t>(site.loops.back())].op == loop.nest.back())
        around = &loop;
    if (around == nullptr || Resolve(op.index) != around->symbol) return false;
    if (extent.valid() && extent != around->extent) return false;
    extent = around->extent;
  }
  return extent.valid();
}

Status TeamEmitter::EmitRow(const std::vector<loop::OpId>& ops) {
  V first = writer_.Compare(Opcode::kEq, team_.member, writer_.Index(0));
  guard_ = first;
  if (stage_ && stage_->part != kNone)
    guard_ = AndMask(first, writer_.Compare(Opcode::kEq, stage_->part, writer_.Index(0)));
  for (loop::OpId id : ops) {
    OrderMemory({id});
    HY_TRY(EmitOp(id));
    if (stage_ && id == stage_->current && !stage_->is_last) break;
  }
  return OkStatus();
}

// A barrier before an op that touches what others have touched since the last one.
void TeamEmitter::OrderMemory(const std::vector<loop::OpId>& ops) {
  std::set<loop::BufferId> reads, writes;
  std::vector<loop::OpId> open = ops;
  while (!open.empty()) {
    const Op& op = kernel_.ops[open.back()];
    open.pop_back();
    if (op.kind == OpKind::kLoop)
      open.insert(open.end(), kernel_.blocks[op.body].ops.begin(),
                  kernel_.blocks[op.body].ops.end());
    if (op.buffer == loop::kNone || shared_.count(op.buffer) == 0) continue;
    if (op.kind != OpKind::kStore) reads.insert(op.buffer);
    if (op.kind != OpKind::kLoad) writes.insert(op.buffer);
  }
  bool conflict = false;
  for (loop::BufferId b : reads) conflict |= written_since_.count(b) > 0;
  for (loop::BufferId b : writes)
    conflict |= written_since_.count(b) > 0 || read_since_.count(b) > 0;
  if (conflict) {
    writer_.Barrier();
    read_since_.clear();
    written_since_.clear();
  }
  read_since_.insert(reads.begin(), reads.end());
  written_since_.insert(writes.begin(), writes.end());
}

template <class F>
Status TeamEmitter::Guarded(const Op& op, F emit) {
  // A repeated row has local buffers of its own, and reads them.
  bool is_local = function_.buffers[op.buffer].role == loop::BufferRole::kLocal;
  V guard = is_local ? guard_ : AndMask(guard_, team_.valid);
  if (guard == kNone) return emit();
  writer_.BeginIf(guard);
  HY_TRY(emit());
  writer_.EndIf({});
  return OkStatus();
}

Status TeamEmitter::EmitLoad(const Op& op) {
  auto it = registers_.find(op.buffer);
  if (it == registers_.end()) {
    const bool repeats = step_ != nullptr && step_->active != kNone;
    const bool is_local = function_.buffers[op.buffer].role == loop::BufferRole::kLocal;
    const bool has_barriers = is_local && shared_.count(op.buffer) > 0;
    if (!repeats || has_barriers || written_.count(op.buffer) == 0) return Emitter::EmitLoad(op);
    // A step that repeats the start would read what its owner writes, with no barrier between.
    writer_.BeginIf(step_->active);
    HY_TRY(Emitter::EmitLoad(op));
    const V loaded = ValueOf(op.results[0]);
    writer_.BeginElse(std::span(&loaded, 1));
    const V other = writer_.Splat(writer_.Const(op.dtype, 0), writer_.LanesOf(loaded));
    values_[op.results[0]] = writer_.EndIf(std::span(&other, 1))[0];
    return OkStatus();
  }
  auto value = it->second.find(step_->number);
  HY_CHECK(value != it->second.end(), "kernel '{}' loads a local element before it is stored",
           kernel_.name);
  values_[op.results[0]] = value->second.value;
  unrounded_.erase(op.results[0]);
  if (value->second.unrounded != kNone) unrounded_[op.results[0]] = value->second.unrounded;
  return OkStatus();
}

Status TeamEmitter::EmitStore(const Op& op) {
  if (stage_ && !stage_->is_last && step_ == nullptr) return OkStatus();
  auto it = registers_.find(op.buffer);
  if (it == registers_.end()) return Guarded(op, [&] { return Emitter::EmitStore(op); });
  const V value = ValueOf(op.operands[0]), wide = writer_.BeforeRounding(value);
  it->second[step_->number] = {writer_.Splat(value, axis_.lanes),
                               wide == kNone ? wide : writer_.Splat(wide, axis_.lanes)};
  if (wide != kNone) unrounded_[op.operands[0]] = wide;
  return OkStatus();
}

Status TeamEmitter::EmitScatter(const Op& op) {
  return Guarded(op, [&] { return Emitter::EmitScatter(op); });
}

Status TeamEmitter::EmitLoop(loop::OpId id) {
  auto it = loops_.find(id);
  if (it == loops_.end()) return Emitter::EmitLoop(id);
  const TeamLoop& loop = it->second;
  const Op& inner = kernel_.ops[loop.nest.back()];
  for (size_t i = 0; i + 1 < loop.nest.size(); ++i)
    for (loop::OpId constant : kernel_.blocks[kernel_.ops[loop.nest[i]].body].ops)
      if (kernel_.ops[constant].kind == OpKind::kConst) HY_TRY(EmitOp(constant));
  if (stage_ && stage_->done.count(id) > 0) {
    if (inner.loop == LoopKind::kReduce)
      FinishReduce(kernel_.ops[id], loop.extent, CombineParts(id, inner));
    return OkStatus();
  }
  V row_guard = guard_;
  if (inner.loop == LoopKind::kParallel) {
    HY_TRY(Spread(loop, nullptr));
    guard_ = row_guard;
    return OkStatus();
  }
  std::vector<V> accumulators = Identities(inner, team_.columns ? axis_.lanes : team_.lanes);
  HY_TRY(Spread(loop, &accumulators));
  guard_ = row_guard;
  std::vector<V> results = CombineTeam(inner, std::move(accumulators));
  if (stage_) {
    StoreParts(id, results);
    return OkStatus();
  }
  FinishReduce(kernel_.ops[id], loop.extent, results);
  return OkStatus();
}

Status TeamEmitter::Spread(const TeamLoop& loop, std::vector<V>* accumulators) {
  return team_.columns ? SpreadColumns(loop, accumulators) : SpreadRows(loop, accumulators);
}

TeamEmitter::Step TeamEmitter::StepAt(const TeamLoop& loop, V start, int64_t number, bool whole) {
  Step step;
  step.number = number;
  step.base = team_.columns
                  ? writer_.Add(start, team_.member)
                  : writer_.Add(start, writer_.Mul(team_.member, writer_.Index(team_.lanes)));
  if (whole) return step;
  V extent = writer_.Add(Begin(loop), Count(loop));
  V inside = writer_.Compare(Opcode::kLt, step.base, extent);
  if (!team_.columns && !exprs_.KnownMultipleOf(loop.extent, team_.lanes)) {
    V index = writer_.Add(step.base, writer_.Iota(writer_.index_dtype(), team_.lanes));
    step.mask = writer_.Compare(Opcode::kLt, index, writer_.Splat(extent, team_.lanes));
  }
  step.active = inside;
  step.base = writer_.Select(inside, step.base, Begin(loop));
  return step;
}

Status TeamEmitter::RunStep(const TeamLoop& loop, const Step& step, std::vector<V>* accumulators) {
  const Op& inner = kernel_.ops[loop.nest.back()];
  V row_guard = guard_;
  // Lanes beyond the end are masked; a step without a single lane is repeated from the start and
  // stores nothing.
  guard_ = step.active;
  step_ = &step;
  if (team_.columns) {
    Bind(loop.symbol, step.base);
  } else {
    BeginVector(loop.symbol, step.base, team_.lanes, step.mask);
  }
  if (accumulators == nullptr) {
    HY_TRY(EmitBlock(inner.body));
  } else {
    std::vector<V> before = *accumulators;
    HY_TRY(Accumulate(inner, *accumulators));
    V keep = step.mask != kNone ? step.mask : step.active;
    if (keep != kNone)
      for (size_t i = 0; i < before.size(); ++i)
        (*accumulators)[i] = writer_.Select(keep, (*accumulators)[i], before[i]);
  }
  if (!team_.columns) EndVector();
  step_ = nullptr;
  guard_ = row_guard;
  return OkStatus();
}

Status TeamEmitter::SpreadRows(const TeamLoop& loop, std::vector<V>* accumulators) {
  int64_t stride = int64_t{team_.size} * team_.lanes;
  std::optional<int64_t> extent = exprs_.AsConst(Resolve(loop.extent));
  if (team_.persistent && extent) {
    for (int64_t at = 0, number = 0; at < *extent; at += stride, ++number)
      HY_TRY(RunStep(loop, StepAt(loop, writer_.Index(at), number, at + stride <= *extent),
                     accumulators));
    return FoldLanes(kernel_.ops[loop.nest.back()], accumulators);
  }
  return SpreadLooped(loop, stride, accumulators);
}

Status TeamEmitter::SpreadColumns(const TeamLoop& loop, std::vector<V>* accumulators) {
  return SpreadLooped(loop, team_.size, accumulators);
}

// Whole steps of all members, `unroll` at a time, then the rest one by one.
Status TeamEmitter::SpreadLooped(const TeamLoop& loop, int64_t stride,
                                 std::vector<V>* accumulators) {
  const Op& inner = kernel_.ops[loop.nest.back()];
  int chains = team_.unroll;
  V begin = Begin(loop), count = Count(loop), step = writer_.Index(stride * chains);
  V whole_count = writer_.Sub(count, writer_.FloorMod(count, step, true));
  V main = writer_.Add(begin, whole_count), end = writer_.Add(begin, count);
  std::vector<V> carried = accumulators ? *accumulators : std::vector<V>();
  size_t width = carried.size();
  for (int c = 1; c < chains; ++c)
    for (size_t i = 0; i < width; ++i) carried.push_back(carried[i]);
  if (writer_.AsConst(whole_count) != 0) {
    Writer::Loop whole =
        writer_.BeginFor(begin, main, step, carried, writer_.AsConst(whole_count).has_value());
    std::vector<V> next = whole.carried;
    for (int c = 0; c < chains; ++c) {
      V start = writer_.Add(whole.variable, writer_.Index(stride * c));
      auto from = next.begin() + static_cast<ptrdiff_t>(width) * c;
      std::vector<V> one(from, from + static_cast<ptrdiff_t>(width));
      HY_TRY(RunStep(loop, StepAt(loop, start, c, true), accumulators ? &one : nullptr));
      std::copy(one.begin(), one.end(), next.begin() + static_cast<ptrdiff_t>(width) * c);
    }
    carried = writer_.EndFor(next);
  }
  for (int live = chains / 2; accumulators && live > 0; live /= 2) {
    for (int c = 0; c < live; ++c) {
      auto at = [&](int chain) { return carried.begin() + static_cast<ptrdiff_t>(width) * chain; };
      std::vector<V> sum(at(c), at(c + 1)), other(at(c + live), at(c + live + 1));
      Combine(inner, sum, other);
      std::copy(sum.begin(), sum.end(), at(c));
    }
  }
  carried.resize(width);
  if (!writer_.AsConst(count) || writer_.AsConst(whole_count) != writer_.AsConst(count)) {
    Writer::Loop rest = writer_.BeginFor(main, end, writer_.Index(stride), carried, false);
    std::vector<V> next = rest.carried;
    HY_TRY(RunStep(loop, StepAt(loop, rest.variable, 0, false), accumulators ? &next : nullptr));
    carried = writer_.EndFor(next);
  }
  if (!accumulators) return OkStatus();
  *accumulators = std::move(carried);
  return team_.columns ? OkStatus() : FoldLanes(inner, accumulators);
}

// The iterations of a spread loop that this team runs.
V TeamEmitter::Begin(const TeamLoop& loop) {
  bool is_part = stage_ && loop.nest[0] == stage_->current;
  return is_part ? stage_->begin : writer_.Index(0);
}

V TeamEmitter::Count(const TeamLoop& loop) {
  bool is_part = stage_ && loop.nest[0] == stage_->current;
  return is_part ? stage_->count : Evaluate(loop.extent);
}

// Where a part's accumulators are: rows hold their parts together, columns their neighbours.
V TeamEmitter::PartIndex(loop::OpId id, V part) {
  if (team_.columns) return writer_.Add(writer_.Mul(part, stage_->rows), stage_->row);
  return writer_.Add(writer_.Mul(stage_->row, Evaluate(stage_->parts.at(id))), part);
}

void TeamEmitter::StoreParts(loop::OpId id, const std::vector<V>& values) {
  std::vector<V> wide = Widened(values);
  V index = PartIndex(id, stage_->part);
  writer_.BeginIf(writer_.Compare(Opcode::kEq, team_.member, writer_.Index(0)));
  for (size_t i = 0; i < wide.size(); ++i)
    writer_.Store(stage_->place(id, i, writer_.TypeOf(wide[i]).dtype), index,
                  writer_.Splat(wide[i], axis_.lanes), kNone, axis_.lanes);
  writer_.EndIf({});
}

std::vector<V> TeamEmitter::CombineParts(loop::OpId id, const Op& inner) {
  std::vector<V> values = Identities(inner, axis_.lanes);
  V parts = Evaluate(stage_->parts.at(id));
  // Few workitems do this, and a load at a time would be the latency of memory each time.
  const int64_t rounds = exprs_.AsConst(stage_->parts.at(id)).value_or(kPartsAhead) / team_.size;
  const int64_t ahead = std::clamp<int64_t>(rounds, 1, kPartsAhead / axis_.lanes);
  Writer::Loop loop = writer_.BeginFor(team_.member, parts, writer_.Index(team_.size), values,
                                       false, static_cast<int>(ahead));
  std::vector<V> sum = loop.carried, wide = Widened(values), loaded;
  V index = PartIndex(id, loop.variable);
  for (size_t i = 0; i < wide.size(); ++i)
    loaded.push_back(writer_.Load(stage_->place(id, i, writer_.TypeOf(wide[i]).dtype), index,
                                  axis_.lanes, /*stable=*/false, axis_.lanes));
  Combine(inner, sum, Narrowed(loaded, values));
  return CombineTeam(inner, writer_.EndFor(sum));
}

// From one accumulator per lane to scalars.
Status TeamEmitter::FoldLanes(const Op& op, std::vector<V>* accumulators) {
  if (accumulators != nullptr) *accumulators = ReduceLanes(op, std::move(*accumulators), 1);
  return OkStatus();
}

// To and from the dtypes that subgroups and workgroup memory exchange: at least 32 bits.
std::vector<V> TeamEmitter::Widened(const std::vector<V>& values) {
  std::vector<V> result;
  for (V v : values) result.push_back(writer_.Convert(v, ExchangeType(writer_.TypeOf(v).dtype)));
  return result;
}

std::vector<V> TeamEmitter::Narrowed(const std::vector<V>& values, const std::vector<V>& like) {
  std::vector<V> result;
  for (size_t i = 0; i < values.size(); ++i)
    result.push_back(writer_.Convert(values[i], writer_.TypeOf(like[i]).dtype));
  return result;
}

void TeamEmitter::CombineSubgroup(const Op& op, std::vector<V>& values, int members) {
  for (int mask = 1; mask < members; mask *= 2) {
    std::vector<V> others;
    for (V v : Widened(values)) others.push_back(writer_.ShuffleXor(v, mask));
    Combine(op, values, Narrowed(others, values));
  }
}

std::vector<V> TeamEmitter::CombineTeam(const Op& op, std::vector<V> values) {
  if (team_.size == 1) return values;
  int lanes = axis_.lanes;
  if (!team_.columns) CombineSubgroup(op, values, std::min(team_.size, team_.subgroup));
  // What is left: one part per subgroup of the team, or per member of a column's team.
  int parts = team_.columns ? team_.size : team_.size / team_.subgroup;
  if (parts <= 1) return values;
  std::vector<kernel::BufferId> places;
  std::vector<V> out = Widened(values);
  int64_t count =
      team_.columns ? int64_t{team_.workgroup} * lanes : int64_t{team_.workgroup} / team_.subgroup;
  for (size_t i = 0; i < out.size(); ++i)
    places.push_back(writer_.AddAllocation(fmt::format("partial{}", partials_++),
                                           writer_.TypeOf(out[i]).dtype, count));
  auto load = [&](V index, int align) {
    std::vector<V> loaded;
    for (kernel::BufferId place : places)
      loaded.push_back(writer_.Load(place, index, lanes, false, align));
    return Narrowed(loaded, values);
  };
  if (team_.columns) {
    V own = writer_.Mul(team_.item, writer_.Index(lanes));
    for (size_t i = 0; i < out.size(); ++i)
      writer_.Store(places[i], own, writer_.Splat(out[i], lanes), kNone, lanes);
    writer_.Barrier();
    V column = writer_.FloorMod(team_.item, writer_.Index(team_.width), true);
    std::vector<V> sum;
    for (int part = 0; part < parts; ++part) {
      V at = writer_.Mul(writer_.Add(column, writer_.Index(int64_t{part} * team_.width)),
                         writer_.Index(lanes));
      std::vector<V> next = load(at, lanes);
      if (part == 0)
        sum = next;
      else
        Combine(op, sum, next);
    }
    return sum;
  }
  V subgroup = writer_.FloorDiv(team_.item, writer_.Index(team_.subgroup), true);
  V lane = writer_.FloorMod(team_.item, writer_.Index(team_.subgroup), true);
  writer_.BeginIf(writer_.Compare(Opcode::kEq, lane, writer_.Index(0)));
  for (size_t i = 0; i < out.size(); ++i) writer_.Store(places[i], subgroup, out[i]);
  writer_.EndIf({});
  writer_.Barrier();
  V first = team_.size == team_.workgroup
                ? writer_.Index(0)
                : writer_.Mul(writer_.FloorDiv(team_.item, writer_.Index(team_.size), true),
                              writer_.Index(parts));
  if (parts <= team_.subgroup) {
    V part = writer_.FloorMod(lane, writer_.Index(parts), true);
    std::vector<V> sum = load(writer_.Add(first, part), 1);
    CombineSubgroup(op, sum, parts);
    return sum;
  }
  std::vector<V> sum = load(first, 1);
  for (int part = 1; part < parts; ++part)
    Combine(op, sum, load(writer_.Add(first, writer_.Index(part)), 1));
  return sum;
}

}  // namespace halyard::schedule
