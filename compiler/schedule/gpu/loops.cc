// SPDX-License-Identifier: Apache-2.0
// Builds the map, team and transpose schedules, piece by piece. Pieces that the schedule does not
// fit are maps.
#include "compiler/schedule/gpu/loops.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/schedule/gpu/piece_plan.h"
#include "compiler/schedule/gpu/team.h"
#include "compiler/schedule/gpu/transpose.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using loop::Op;
using loop::OpKind;
using V = kernel::ValueId;

namespace {

constexpr int64_t kMaxPrivateBytes = 1024;         // of one workitem's local buffer
constexpr int64_t kReservedWorkgroupBytes = 8192;  // for partial results of reductions

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Writes reductions out, with their symbols as numbers: what neighbours read alike is then one
// load.
class StripEmitter : public Emitter {
 public:
  using Emitter::Emitter;
  bool writes_out = false;
  int64_t number = 0;  // of the neighbour that is being emitted

  // What the neighbours store; `place(i)` brings back where neighbour i is.
  template <class F>
  Status EmitStores(F place) {
    for (const Kept& kept : stores_) {
      place(kept.number);
      for (size_t i = 0; i < kept.values.size(); ++i) {
        SetValue(kept.op->operands[i], kept.values[i]);
      }
      HY_TRY(Emitter::EmitStore(*kept.op));
    }
    stores_.clear();
    return OkStatus();
  }

 protected:
  // Without a branch, in which a load would be one of its own.
  Status EmitLoad(const Op& op) override {
    if (!writes_out || lanes() != 1 || op.operands.empty()) return Emitter::EmitLoad(op);
    const V mask = ValueOf(op.operands[0]), other = ValueOf(op.operands[1]);
    if (writer_.AsConst(mask) || IndirectMask(op.index) != kNone) return Emitter::EmitLoad(op);
    const Place place = PlaceOf(op.buffer);
    const Index index = Shifted(LowerIndex(op.index), place);
    values_[op.results[0]] =
        writer_.LoadMasked(place.buffer, index.value, mask, other, written_.count(op.buffer) == 0);
    return OkStatus();
  }

  // Behind the loads of all neighbours: what is stored might be what they read, as far as a
  // compiler knows.
  Status EmitStore(const Op& op) override {
    if (!writes_out) return Emitter::EmitStore(op);
    std::vector<V> values;
    for (loop::ValueId v : op.operands) values.push_back(ValueOf(v));
    stores_.push_back({&op, number, std::move(values)});
    return OkStatus();
  }

  Status EmitLoop(loop::OpId id) override {
    const Op& op = kernel_.ops[id];
    if (!writes_out || op.loop != loop::LoopKind::kReduce) return Emitter::EmitLoop(id);
    std::vector<V> results = Identities(op, lanes());
    const int64_t extent = exprs_.AsConst(op.extent).value_or(0);
    for (int64_t i = 0; i < extent; ++i) {
      Shift(op.symbol, exprs_.Const(0), i);
      HY_TRY(ReduceStep(op, results));
    }
    FinishReduce(op, op.extent, results);
    return OkStatus();
  }

 private:
  struct Kept {
    const Op* op = nullptr;
    int64_t number = 0;
    std::vector<V> values;
  };
  std::vector<Kept> stores_;
};

class GpuLoopBuilder {
 public:
  GpuLoopBuilder(const loop::Function& function, const loop::Kernel& kernel,
                 const ScheduleRecord& record, const Target& target)
      : nest_(function, kernel), exprs_(*function.exprs), record_(record), target_(target) {}

  Result<ScheduledKernel> Build() {
    HY_TRY(CheckRecord());
    scheduled_.record = record_;
    std::vector<Piece> pieces = Cut(nest_);
    for (size_t i = 0; i < pieces.size(); ++i) {
      std::string suffix = pieces.size() == 1 ? "" : fmt::format("_{}", i);
      HY_TRY_CONTEXT(BuildPiece(pieces[i], suffix), "scheduling kernel '{}'", nest_.kernel.name);
    }
    return std::move(scheduled_);
  }

 private:
  Status CheckRecord() const;
  Status BuildPiece(const Piece& piece, const std::string& suffix) {
    if (record_.kind == ScheduleKind::kGpuTeam && record_.chunk > 0 && MaySplit(nest_, piece))
      return BuildSplit(piece, suffix);
    if (record_.kind == ScheduleKind::kGpuTeam && MayBeTeam(nest_, piece))
      return BuildTeam(piece, suffix, nullptr);
    if (record_.kind == ScheduleKind::kGpuTranspose)
      if (std::optional<TransposePlan> plan = PlanTranspose(nest_, piece)) {
        Writer writer(KernelName(nest_.kernel.name, suffix), IndexType(nest_));
        std::vector<Binding> bindings;
        std::vector<Expr> scalars;
        HY_ASSIGN(Grid grid, EmitTranspose(nest_, piece, *plan, record_, target_, writer, &bindings,
                                           &scalars));
        Finish(writer, std::move(bindings), std::move(scalars), grid);
        return OkStatus();
      }
    return BuildMap(piece, suffix);
  }
  Status BuildMap(const Piece& piece, const std::string& suffix);
  // A stage of BuildSplit: which of the row's loops have run, and which runs here.
  struct Cutting {
    std::vector<loop::OpId> loops;
    size_t current = 0;
    std::map<std::pair<loop::OpId, size_t>, uint32_t> partials;  // workspaces, by accumulator
    std::map<loop::BufferId, uint32_t> locals;                   // workspaces
  };
  Status BuildTeam(const Piece& piece, const std::string& suffix, Cutting* cutting);
  Status BuildSplit(const Piece& piece, const std::string& suffix);
  std::set<loop::BufferId> LocalsOf(const Piece& piece) const;
  Status PlaceTeamBuffers(const Piece& piece, Writer& writer, TeamEmitter& emitter,
                          const TeamEmitter::Team& team, Expr blocks, V row, Cutting* cutting);
  // Places a local buffer in a workspace; one part per `owner` of `owners`.
  // `index`: of a workspace that it has already; kNone: a new one.
  Status PlaceInWorkspace(loop::BufferId id, Emitter& emitter, Writer& writer, Expr owners, V owner,
                          uint32_t* index = nullptr);
  void Finish(Writer& writer, std::vector<Binding> bindings, std::vector<Expr> scalars,
              const Grid& grid);

  Nest nest_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const Target& target_;
  ScheduledKernel scheduled_;
};

Status GpuLoopBuilder::CheckRecord() const {
  auto bad = [&](const char* what) {
    return InvalidArgument("Schedule '{}' of kernel '{}' has {}.", FormatSchedule(record_),
                           nest_.kernel.name, what);
  };
  if (!IsPowerOfTwo(record_.lanes) || record_.lanes > 16)
    return bad("lanes that are no power of two up to 16");
  if (!IsPowerOfTwo(record_.unroll) || record_.unroll > 16)
    return bad("an unroll that is no power of two up to 16");
  if (!IsPowerOfTwo(record_.workgroup) || record_.workgroup > target_.gpu.max_workgroup_size)
    return bad("a workgroup that is no power of two within the device's limit");
  if (record_.kind == ScheduleKind::kGpuTeam && record_.chunk % record_.lanes != 0)
    return bad("a chunk that is no multiple of its lanes");
  if (record_.kind == ScheduleKind::kGpuTeam &&
      (!IsPowerOfTwo(record_.team) || record_.workgroup % record_.team != 0 ||
       record_.workgroup % std::max(1, target_.gpu.subgroup_size) != 0))
    return bad("a team that does not fit its workgroup");
  if (record_.kind == ScheduleKind::kGpuTranspose &&
      (!IsPowerOfTwo(record_.side) || record_.side < record_.lanes || record_.side > 128 ||
       int64_t{record_.side} * record_.side / record_.lanes % record_.workgroup != 0))
    return bad("a tile that does not fit its workgroup");
  for (int loop : record_.vector_loops)
    if (loop < 0 || static_cast<size_t>(loop) >= nest_.loops.size())
      return bad("a loop that the kernel does not have");
  return OkStatus();
}

std::set<loop::BufferId> GpuLoopBuilder::LocalsOf(const Piece& piece) const {
  std::set<loop::BufferId> locals;
  for (const AccessSite& site : nest_.accesses) {
    loop::BufferId id = nest_.kernel.ops[site.op].buffer;
    if (nest_.function.buffers[id].role == loop::BufferRole::kLocal && IsInPiece(piece, site))
      locals.insert(id);
  }
  return locals;
}

Status GpuLoopBuilder::PlaceInWorkspace(loop::BufferId id, Emitter& emitter, Writer& writer,
                                        Expr owners, V owner, uint32_t* index) {
  const loop::Buffer& local = nest_.function.buffers[id];
  for (Expr symbol : exprs_.SymbolsOf(local.elements))
    if (exprs_.SymbolKindOf(symbol) != SymbolKind::kDim)
      return Unimplemented("Local buffer '{}' has a size that depends on a loop ({}).", local.name,
                           exprs_.Format(local.elements));
  Workspace workspace;
  int64_t element_bytes = std::max(1, BitWidth(local.dtype) / 8);
  workspace.bytes = exprs_.Mul(exprs_.Mul(owners, local.elements), exprs_.Const(element_bytes));
  uint32_t place_index = index ? *index : kNone;
  if (place_index == kNone) {
    place_index = static_cast<uint32_t>(scheduled_.workspaces.size());
    scheduled_.workspaces.push_back(workspace);
  }
  if (index) *index = place_index;
  kernel::Buffer parameter;
  parameter.name = local.name;
  parameter.dtype = local.dtype;
  parameter.access = kernel::Access::kReadWrite;
  Binding binding{Binding::Kind::kWorkspace, place_index};
  kernel::BufferId place = emitter.AddBinding(binding, std::move(parameter));
  emitter.PlaceLocal(id, place,
                     owner == kNone ? kNone : writer.Mul(owner, emitter.Evaluate(local.elements)));
  return OkStatus();
}

void GpuLoopBuilder::Finish(Writer& writer, std::vector<Binding> bindings,
                            std::vector<Expr> scalars, const Grid& grid) {
  Dispatch dispatch;
  dispatch.kernel = static_cast<uint32_t>(scheduled_.kernels.size());
  dispatch.bindings = std::move(bindings);
  dispatch.scalars = std::move(scalars);
  std::copy(std::begin(grid.extents), std::end(grid.extents), std::begin(dispatch.grid));
  scheduled_.kernels.push_back(writer.Finish());
  scheduled_.dispatches.push_back(std::move(dispatch));
}

Status GpuLoopBuilder::BuildMap(const Piece& piece, const std::string& suffix) {
  ChainSplit split = SplitChain(nest_, piece);
  // The loop that the schedule names counts fastest.
  for (int loop : record_.vector_loops) {
    auto it = std::find(split.grid.begin(), split.grid.end(), loop);
    if (it != split.grid.end()) std::rotate(it, it + 1, split.grid.end());
  }
  // Neighbours along the loop that windows slide along are one iteration of the grid.
  Expr strip_symbol;
  int strip_loop = -1;
  if (record_.mr > 0) {
    strip_loop = SlidingLoop(nest_, piece, split.grid, split.grid.empty() ? -1 : split.grid.back());
    if (strip_loop < 0 || !exprs_.KnownMultipleOf(nest_.OpOf(strip_loop).extent, record_.mr)) {
      return InvalidArgument("Schedule '{}' needs windows that slide; kernel '{}' has none.",
                             FormatSchedule(record_), nest_.kernel.name);
    }
    strip_symbol = exprs_.Loop(
        "strip", exprs_.FloorDiv(nest_.OpOf(strip_loop).extent, exprs_.Const(record_.mr)));
  }
  Expr total = exprs_.Const(1);
  std::vector<std::pair<Expr, Expr>> digits;
  for (int loop : split.grid) {
    const Op& op = nest_.OpOf(loop);
    const bool is_strip = loop == strip_loop;
    Expr extent = is_strip ? exprs_.FloorDiv(op.extent, exprs_.Const(record_.mr)) : op.extent;
    digits.emplace_back(is_strip ? strip_symbol : op.symbol, extent);
    total = exprs_.Mul(total, extent);
  }
  int lanes = split.grid.empty() || !MayVectorise(nest_, split.grid) ? 1 : record_.lanes;
  int unroll = split.grid.empty() ? 1 : record_.unroll;
  int64_t workgroup = split.grid.empty() ? 1 : record_.workgroup;
  int64_t per_block = workgroup * unroll * lanes;

  Writer writer(KernelName(nest_.kernel.name, suffix), IndexType(nest_));
  writer.SetWorkgroup(workgroup, 0);
  StripEmitter emitter(nest_.function, nest_.kernel, writer, GpuEmitterOptions());
  emitter.writes_out = strip_loop >= 0;
  Grid grid(exprs_, target_, exprs_.CeilDiv(total, exprs_.Const(per_block)));
  Expr flat = exprs_.Loop("flat", total);
  emitter.Flatten(flat, std::move(digits));
  V first = writer.Index(0), block = writer.Index(0), item = writer.Index(0);
  if (!split.grid.empty()) {
    block = writer.Mul(grid.Block(writer), writer.Index(per_block));
    item = writer.WorkitemId(0);
    first = writer.Add(block, writer.Mul(item, writer.Index(lanes)));
  }

  for (loop::BufferId id : LocalsOf(piece)) {
    const loop::Buffer& local = nest_.function.buffers[id];
    std::optional<int64_t> elements = exprs_.AsConst(local.elements);
    if (elements && *elements * std::max(1, BitWidth(local.dtype) / 8) <= kMaxPrivateBytes) {
      emitter.PlaceLocal(
          id,
          writer.AddAllocation(local.name, local.dtype, std::max<int64_t>(1, *elements),
                               kernel::MemorySpace::kPrivate),
          kNone);
    } else {
      // With local buffers lanes are 1; vectors of one workitem follow each other, so that it
      // needs one part only.
      Expr owners =
          exprs_.Mul(exprs_.CeilDiv(total, exprs_.Const(per_block)), exprs_.Const(workgroup));
      V owner = split.grid.empty()
                    ? V{kNone}
                    : writer.Add(writer.Mul(grid.Block(writer), writer.Index(workgroup)), item);
      HY_TRY(PlaceInWorkspace(id, emitter, writer, owners, owner));
    }
  }

  auto one_body = [&](V base, V mask) -> Status {
    emitter.BeginVector(flat, base, lanes, mask);
    loop::OpId top =
        piece.chain.empty() ? loop::kNone : nest_.loops[static_cast<size_t>(piece.chain[0])].op;
    for (loop::OpId id : piece.ops)
      if (id != top) HY_TRY(emitter.EmitOp(id));
    for (int loop : split.serial) {
      const Op& op = nest_.OpOf(loop);
      Writer::Loop serial = writer.BeginFor(writer.Index(0), emitter.Evaluate(op.extent),
                                            writer.Index(1), {}, exprs_.RangeOf(op.extent).lo >= 1);
      emitter.Bind(op.symbol, serial.variable);
    }
    if (!piece.chain.empty()) {
      for (int loop : piece.chain)
        if (loop != piece.chain.back())
          for (loop::OpId id : nest_.kernel.blocks[nest_.OpOf(loop).body].ops)
            if (nest_.kernel.ops[id].kind == OpKind::kConst) HY_TRY(emitter.EmitOp(id));
      HY_TRY(emitter.EmitBlock(nest_.OpOf(piece.chain.back()).body));
    }
    for (size_t i = 0; i < split.serial.size(); ++i) writer.EndFor({});
    emitter.EndVector();
    return OkStatus();
  };
  const Expr flat_strip = strip_loop < 0 ? Expr() : emitter.Resolve(strip_symbol);
  auto body = [&](V base, V mask) -> Status {
    if (strip_loop < 0) return one_body(base, mask);
    const auto place = [&](int64_t i) {
      emitter.Shift(nest_.OpOf(strip_loop).symbol, exprs_.Mul(flat_strip, exprs_.Const(record_.mr)),
                    i);
    };
    for (emitter.number = 0; emitter.number < record_.mr; ++emitter.number) {
      place(emitter.number);
      HY_TRY(one_body(base, mask));
    }
    emitter.BeginVector(flat, base, lanes, mask);
    HY_TRY(emitter.EmitStores(place));
    emitter.EndVector();
    return OkStatus();
  };
  auto vector_at = [&](int u) {
    return writer.Add(first, writer.Index(int64_t{u} * workgroup * lanes));
  };
  // A vector that may lie at or beyond the end.
  auto guarded = [&](V base) -> Status {
    V end = emitter.Evaluate(total);
    writer.BeginIf(writer.Compare(Opcode::kLt, base, end));
    V mask = kNone;
    if (lanes > 1 && !exprs_.KnownMultipleOf(total, lanes)) {
      V index = writer.Add(base, writer.Iota(writer.index_dtype(), lanes));
      mask = writer.Compare(Opcode::kLt, index, writer.Splat(end, lanes));
    }
    HY_TRY(body(base, mask));
    writer.EndIf({});
    return OkStatus();
  };
  if (!grid.is_folded && exprs_.KnownMultipleOf(total, per_block)) {
    for (int u = 0; u < unroll; ++u) HY_TRY(body(vector_at(u), kNone));
  } else if (lanes * unroll == 1) {
    HY_TRY(guarded(first));
  } else {
    // Whole workgroups without a test, so that their loads are issued together.
    V end = emitter.Evaluate(total);
    V whole = writer.Compare(Opcode::kLe, writer.Add(block, writer.Index(per_block)), end);
    writer.BeginIf(whole);
    for (int u = 0; u < unroll; ++u) HY_TRY(body(vector_at(u), kNone));
    writer.BeginElse({});
    for (int u = 0; u < unroll; ++u) HY_TRY(guarded(vector_at(u)));
    writer.EndIf({});
  }
  Finish(writer, emitter.bindings, emitter.scalars, grid);
  return OkStatus();
}

Status GpuLoopBuilder::PlaceTeamBuffers(const Piece& piece, Writer& writer, TeamEmitter& emitter,
                                        const TeamEmitter::Team& team, Expr blocks, V row,
                                        Cutting* cutting) {
  // Buffers that one op of the row writes and another one touches.
  std::map<loop::BufferId, std::pair<int, bool>> uses;
  for (const AccessSite& site : nest_.accesses) {
    if (!IsInPiece(piece, site)) continue;
    const Op& op = nest_.kernel.ops[site.op];
    auto& [count, is_written] = uses[op.buffer];
    ++count;
    is_written |= op.kind != OpKind::kLoad;
  }
  int64_t rows_per_block = team.workgroup / team.size;
  int64_t room = target_.gpu.workgroup_memory_bytes - kReservedWorkgroupBytes;
  std::set<loop::BufferId> locals = LocalsOf(piece);
  if (team.columns && !locals.empty())
    return InvalidArgument("Schedule '{}' has columns, but kernel '{}' has local buffers.",
                           FormatSchedule(record_), nest_.kernel.name);
  for (loop::BufferId id : locals) {
    const loop::Buffer& local = nest_.function.buffers[id];
    if (cutting) {
      uint32_t& index = cutting->locals.try_emplace(id, kNone).first->second;
      HY_TRY(PlaceInWorkspace(id, emitter, writer, exprs_.Mul(blocks, exprs_.Const(rows_per_block)),
                              row, &index));
      continue;
    }
    bool own = emitter.IsUsedByOwner(id);
    std::optional<int64_t> elements = exprs_.AsConst(local.elements);
    int64_t bytes = elements ? rows_per_block * *elements * (BitWidth(local.dtype) / 8) : INT64_MAX;
    if (own && team.persistent && elements) {
      emitter.KeepInRegisters(id);
      continue;
    }
    if (!own) emitter.ShareBuffer(id);
    if (bytes <= room && BitWidth(local.dtype) >= 32) {
      room -= bytes;
      kernel::BufferId place = writer.AddAllocation(
          local.name, local.dtype, std::max<int64_t>(1, rows_per_block * *elements));
      V slot = writer.FloorDiv(team.item, writer.Index(team.size), true);
      emitter.PlaceLocal(id, place, writer.Mul(slot, writer.Index(*elements)));
    } else {
      Expr owners = exprs_.Mul(blocks, exprs_.Const(rows_per_block));
      HY_TRY(PlaceInWorkspace(id, emitter, writer, owners, row));
    }
  }
  for (const auto& [id, use] : uses)
    if (use.second && use.first > 1 && locals.count(id) == 0) emitter.ShareBuffer(id);
  return OkStatus();
}

// One dispatch per spread loop, and one that finishes the rows where the last loop is a reduction.
Status GpuLoopBuilder::BuildSplit(const Piece& piece, const std::string& suffix) {
  Cutting cutting;
  bool ends_with_reduction = false;
  for (const RowLoop& loop : RowLoops(nest_, piece)) {
    cutting.loops.push_back(nest_.loops[static_cast<size_t>(loop.outer)].op);
    ends_with_reduction = loop.is_reduce;
  }
  size_t stages = cutting.loops.size() + (ends_with_reduction ? 1 : 0);
  for (; cutting.current < stages; ++cutting.current)
    HY_TRY(BuildTeam(piece, fmt::format("{}_part{}", suffix, cutting.current), &cutting));
  return OkStatus();
}

Status GpuLoopBuilder::BuildTeam(const Piece& piece, const std::string& suffix, Cutting* cutting) {
  Writer writer(KernelName(nest_.kernel.name, suffix), IndexType(nest_));
  writer.SetWorkgroup(record_.workgroup, target_.gpu.subgroup_size);
  ChainSplit split = SplitChain(nest_, piece);
  for (int loop : record_.vector_loops) {
    auto it = std::find(split.grid.begin(), split.grid.end(), loop);
    if (it != split.grid.end()) std::rotate(it, it + 1, split.grid.end());
  }
  const std::vector<loop::OpId>& row_ops = RowOps(nest_, piece);
  std::vector<RowLoop> row_loops = RowLoops(nest_, piece);
  Expr rows = CountOf(nest_, split.grid);

  TeamEmitter::Team team;
  team.columns = record_.columns && !split.grid.empty();
  team.size = record_.team;
  team.workgroup = record_.workgroup;
  team.subgroup = std::max(1, target_.gpu.subgroup_size);
  team.unroll = record_.unroll;
  team.item = writer.WorkitemId(0);
  int chain_lanes = 1;
  if (team.columns) {
    if (MayVectorise(nest_, split.grid)) chain_lanes = record_.lanes;
    team.width = team.workgroup / team.size;
    team.member = writer.FloorDiv(team.item, writer.Index(team.width), true);
  } else {
    bool vectors = true;
    for (const RowLoop& loop : row_loops) vectors &= nest_.CanVectorise(loop.inner);
    team.lanes = vectors ? record_.lanes : 1;
    team.persistent = record_.persistent && !cutting;
    team.member = team.size == team.workgroup
                      ? team.item
                      : writer.FloorMod(team.item, writer.Index(team.size), true);
  }

  // Rows of a workgroup: one per team, or one vector per column of workitems.
  int64_t rows_per_block =
      team.columns ? int64_t{team.width} * chain_lanes : team.workgroup / team.size;
  Expr blocks = exprs_.CeilDiv(rows, exprs_.Const(rows_per_block));
  bool has_loop = cutting && cutting->current < cutting->loops.size();
  Expr extent, parts = exprs_.Const(1);
  if (has_loop) {
    for (const RowLoop& loop : row_loops)
      if (nest_.loops[static_cast<size_t>(loop.outer)].op == cutting->loops[cutting->current])
        extent = loop.extent;
    parts = exprs_.CeilDiv(extent, exprs_.Const(record_.chunk));
  }
  Grid grid(exprs_, target_, exprs_.Mul(blocks, parts));
  V slot = team.columns ? writer.FloorMod(team.item, writer.Index(team.width), true)
           : team.size == team.workgroup
               ? writer.Index(0)
               : writer.FloorDiv(team.item, writer.Index(team.size), true);
  Emitter::Options options = GpuEmitterOptions();
  TeamEmitter emitter(nest_, writer, options, team);
  V block = grid.Block(writer), part = kNone;
  if (has_loop) {
    V count = emitter.Evaluate(parts);
    part = writer.FloorMod(block, count, true);
    block = writer.FloorDiv(block, count, true);
  }
  V padded = writer.Add(writer.Mul(block, writer.Index(rows_per_block)),
                        writer.Mul(slot, writer.Index(chain_lanes)));
  // Teams beyond the last row do what the first one does, but for its stores: barriers must be
  // reached by all.
  V row = split.grid.empty() ? writer.Index(0) : padded;
  V column_mask = kNone;
  // Workgroups beyond the last have no place in a workspace; alike for the whole workgroup.
  if (grid.is_folded) writer.BeginIf(writer.Compare(Opcode::kLt, block, emitter.Evaluate(blocks)));
  if (!exprs_.KnownMultipleOf(rows, rows_per_block)) {
    if (ReadsItsStores(nest_, piece))
      return InvalidArgument(
          "Schedule '{}' repeats rows of kernel '{}', which read what they store.",
          FormatSchedule(record_), nest_.kernel.name);
    V end = emitter.Evaluate(rows);
    V valid = writer.Compare(Opcode::kLt, padded, end);
    if (chain_lanes > 1 && !exprs_.KnownMultipleOf(rows, chain_lanes)) {
      V index = writer.Add(padded, writer.Iota(writer.index_dtype(), chain_lanes));
      column_mask = writer.Compare(Opcode::kLt, index, writer.Splat(end, chain_lanes));
    }
    row = writer.Select(valid, row, writer.Index(0));
    emitter.SetValid(valid);
  }

  std::map<std::pair<loop::OpId, size_t>, kernel::BufferId> partial_places;
  emitter.SetLoops(TeamLoops(nest_, row_ops, &emitter));
  HY_TRY(PlaceTeamBuffers(piece, writer, emitter, team, blocks, padded, cutting));
  if (cutting) {
    TeamEmitter::Stage stage;
    stage.done.insert(cutting->loops.begin(),
                      cutting->loops.begin() + static_cast<ptrdiff_t>(cutting->current));
    for (const RowLoop& loop : row_loops)
      stage.parts[nest_.loops[static_cast<size_t>(loop.outer)].op] =
          exprs_.CeilDiv(loop.extent, exprs_.Const(record_.chunk));
    Expr padded_rows = exprs_.Mul(blocks, exprs_.Const(rows_per_block));
    stage.row = padded;
    stage.rows = emitter.Evaluate(padded_rows);
    if (has_loop) {
      stage.current = cutting->loops[cutting->current];
      stage.is_last = cutting->current + 1 == cutting->loops.size() &&
                      nest_.kernel.ops[stage.current].loop == loop::LoopKind::kParallel;
      stage.part = part;
      stage.begin = writer.Mul(part, writer.Index(record_.chunk));
      stage.count = writer.Index(record_.chunk);
      if (!exprs_.KnownMultipleOf(extent, record_.chunk))
        stage.count = writer.Min(stage.count, writer.Sub(emitter.Evaluate(extent), stage.begin));
    }
    stage.place = [&, padded_rows, stage_parts = stage.parts](loop::OpId loop, size_t accumulator,
                                                              DType dtype) {
      auto [it, added] = cutting->partials.try_emplace(
          std::pair(loop, accumulator), static_cast<uint32_t>(scheduled_.workspaces.size()));
      if (added)
        scheduled_.workspaces.push_back(Workspace{exprs_.Mul(
            exprs_.Mul(padded_rows, stage_parts.at(loop)), exprs_.Const(BitWidth(dtype) / 8))});
      auto [place, is_new] = partial_places.try_emplace(std::pair(loop, accumulator), kNone);
      if (is_new) {
        kernel::Buffer parameter;
        parameter.name = fmt::format("part{}", it->second);
        parameter.dtype = dtype;
        parameter.access = kernel::Access::kReadWrite;
        place->second = emitter.AddBinding(Binding{Binding::Kind::kWorkspace, it->second},
                                           std::move(parameter));
      }
      return place->second;
    };
    emitter.SetStage(std::move(stage));
  }

  if (team.columns) {
    Expr flat = exprs_.Loop("flat", rows);
    std::vector<std::pair<Expr, Expr>> digits;
    for (int loop : split.grid)
      digits.emplace_back(nest_.OpOf(loop).symbol, nest_.OpOf(loop).extent);
    emitter.Flatten(flat, std::move(digits));
    emitter.BeginVector(flat, row, chain_lanes, column_mask);
  } else {
    for (size_t i = split.grid.size(); i-- > 0;) {
      const Op& loop = nest_.OpOf(split.grid[i]);
      if (i == 0) {
        emitter.Bind(loop.symbol, row);
        break;
      }
      V extent = emitter.Evaluate(loop.extent);
      V rest = writer.FloorDiv(row, extent, true);
      emitter.Bind(loop.symbol, writer.Sub(row, writer.Mul(rest, extent)));
      row = rest;
    }
  }
  std::vector<loop::OpId> ops;
  if (!piece.chain.empty()) {
    loop::OpId top = nest_.loops[static_cast<size_t>(piece.chain[0])].op;
    for (loop::OpId id : piece.ops)
      if (id != top) ops.push_back(id);
    for (int loop : piece.chain)
      if (loop != piece.chain.back())
        for (loop::OpId id : nest_.kernel.blocks[nest_.OpOf(loop).body].ops)
          if (nest_.kernel.ops[id].kind == OpKind::kConst) ops.push_back(id);
  }
  ops.insert(ops.end(), row_ops.begin(), row_ops.end());
  HY_TRY(emitter.EmitRow(ops));
  if (team.columns) emitter.EndVector();
  if (grid.is_folded) writer.EndIf({});
  Finish(writer, emitter.bindings, emitter.scalars, grid);
  if (WorkgroupMemoryBytes(scheduled_.kernels.back(), target_) > target_.gpu.workgroup_memory_bytes)
    return InvalidArgument("Schedule '{}' of kernel '{}' has too much workgroup memory.",
                           FormatSchedule(record_), nest_.kernel.name);
  return OkStatus();
}

}  // namespace

Result<ScheduledKernel> BuildGpuLoops(const loop::Function& function, uint32_t kernel,
                                      const ScheduleRecord& record, const Target& target) {
  return GpuLoopBuilder(function, function.kernels[kernel], record, target).Build();
}

}  // namespace halyard::schedule
