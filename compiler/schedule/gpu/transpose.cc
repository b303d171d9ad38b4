// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/transpose.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/gpu/piece_plan.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using loop::Op;
using loop::OpKind;
using V = kernel::ValueId;

namespace {

// Elements of at least 32 bits, which every device has in workgroup memory and which spread over
// the banks.
DType TileType(DType dtype) {
  if (BitWidth(dtype) >= 32) return dtype;
  return IsFloat(dtype) ? DType::kF32 : DType::kI32;
}

class TileEmitter : public Emitter {
 public:
  TileEmitter(const Nest& nest, Writer& writer)
      : Emitter(nest.function, nest.kernel, writer, GpuEmitterOptions()) {}

  // Reads the vector of the load at the current axis into `at`, one element of the tile after the
  // other.
  Status Stage(loop::OpId id, kernel::BufferId tile, V at) {
    HY_TRY(Emitter::EmitLoad(kernel_.ops[id]));
    V value = writer_.Convert(ValueOf(kernel_.ops[id].results[0]), TileType(kernel_.ops[id].dtype));
    writer_.Store(tile, at, writer_.Splat(value, lanes()));
    return OkStatus();
  }
  // From here on the load reads the tile at these indices.
  void ReadFrom(loop::OpId id, kernel::BufferId tile, V indices) {
    staged_[kernel_.ops[id].results[0]] = {tile, indices};
  }

 protected:
  Status EmitLoad(const Op& op) override {
    auto it = staged_.find(op.results[0]);
    if (it == staged_.end()) return Emitter::EmitLoad(op);
    auto [tile, indices] = it->second;
    V value = writer_.LanesOf(indices) == 1 ? writer_.Load(tile, indices, 1, /*stable=*/false)
                                            : writer_.Gather(tile, indices, /*stable=*/false);
    values_[op.results[0]] = writer_.Convert(value, op.dtype);
    return OkStatus();
  }

 private:
  std::map<loop::ValueId, std::pair<kernel::BufferId, V>> staged_;
};

bool IsContiguous(const Nest& nest, Expr index, int loop) {
  std::optional<Expr> stride = nest.exprs.StrideOf(index, nest.OpOf(loop).symbol);
  return stride && nest.exprs.IsConst(*stride, 1);
}

}  // namespace

std::optional<TransposePlan> PlanTranspose(const Nest& nest, const Piece& piece) {
  if (piece.chain.size() < 2) return std::nullopt;
  ChainSplit split = SplitChain(nest, piece);
  if (!split.serial.empty() || !MayVectorise(nest, split.grid)) return std::nullopt;
  for (loop::OpId id : RowOps(nest, piece)) {
    OpKind kind = nest.kernel.ops[id].kind;
    if (kind == OpKind::kLoop || kind == OpKind::kScatter) return std::nullopt;
  }
  TransposePlan plan;
  std::set<loop::BufferId> written;
  for (const AccessSite& site : nest.accesses)
    if (nest.kernel.ops[site.op].kind != OpKind::kLoad)
      written.insert(nest.kernel.ops[site.op].buffer);
  for (int loop : split.grid) {
    bool all = true;
    for (const AccessSite& site : nest.accesses) {
      const Op& op = nest.kernel.ops[site.op];
      if (IsInPiece(piece, site) && op.kind == OpKind::kStore)
        all &= IsContiguous(nest, op.index, loop);
    }
    if (all) plan.write = loop;
  }
  if (plan.write < 0) return std::nullopt;
  size_t most = 0;
  for (int loop : split.grid) {
    if (loop == plan.write) continue;
    std::vector<loop::OpId> loads;
    for (const AccessSite& site : nest.accesses) {
      const Op& op = nest.kernel.ops[site.op];
      if (!IsInPiece(piece, site) || op.kind != OpKind::kLoad || !op.operands.empty() ||
          written.count(op.buffer) > 0 || !IsContiguous(nest, op.index, loop))
        continue;
      bool indirect = false;
      for (Expr s : nest.exprs.SymbolsOf(op.index))
        for (const Nest::Indirect& i : nest.indirects) indirect |= i.symbol == s;
      if (!indirect && nest.Varies(op.index, plan.write)) loads.push_back(site.op);
    }
    if (loads.size() <= most) continue;
    most = loads.size();
    plan.read = loop;
    plan.loads = std::move(loads);
  }
  if (plan.read < 0) return std::nullopt;
  for (int loop : split.grid)
    if (loop != plan.read && loop != plan.write) plan.rest.push_back(loop);
  return plan;
}

int64_t TileBytes(const Nest& nest, const TransposePlan& plan, int64_t side) {
  int64_t bytes = 0;
  for (loop::OpId id : plan.loads)
    bytes += side * (side + 1) * BitWidth(TileType(nest.kernel.ops[id].dtype)) / 8;
  return bytes;
}

Result<Grid> EmitTranspose(const Nest& nest, const Piece& piece, const TransposePlan& plan,
                           const ScheduleRecord& record, const Target& target, Writer& writer,
                           std::vector<Binding>* bindings, std::vector<Expr>* scalars) {
  ExprArena& exprs = nest.exprs;
  TileEmitter emitter(nest, writer);
  int lanes = record.lanes;
  int64_t side = record.side, workgroup = record.workgroup;
  int64_t vectors = side / lanes;  // per row of the tile
  const Op& read = nest.OpOf(plan.read);
  const Op& write = nest.OpOf(plan.write);
  Expr side_expr = exprs.Const(side);
  Expr read_tiles = exprs.CeilDiv(read.extent, side_expr);
  Expr write_tiles = exprs.CeilDiv(write.extent, side_expr);
  Expr blocks = exprs.Mul(exprs.Mul(CountOf(nest, plan.rest), write_tiles), read_tiles);
  Grid grid(exprs, target, blocks);
  writer.SetWorkgroup(workgroup, 0);
  V item = writer.WorkitemId(0);
  V block = grid.Block(writer);
  V inside = kNone;
  if (grid.is_folded) {
    inside = writer.Compare(Opcode::kLt, block, emitter.Evaluate(blocks));
    block = writer.Select(inside, block, writer.Index(0));
  }
  auto digit = [&](Expr extent) {
    V count = emitter.Evaluate(extent);
    V rest = writer.FloorDiv(block, count, true);
    V result = writer.Sub(block, writer.Mul(rest, count));
    block = rest;
    return result;
  };
  V read_first = writer.Mul(digit(read_tiles), writer.Index(side));
  V write_first = writer.Mul(digit(write_tiles), writer.Index(side));
  for (size_t i = plan.rest.size(); i-- > 0;) {
    const Op& loop = nest.OpOf(plan.rest[i]);
    emitter.Bind(loop.symbol, i == 0 ? block : digit(loop.extent));
  }
  V read_end = emitter.Evaluate(read.extent), write_end = emitter.Evaluate(write.extent);

  std::vector<kernel::BufferId> tiles;
  for (loop::OpId id : plan.loads)
    tiles.push_back(writer.AddAllocation(fmt::format("tile{}", tiles.size()),
                                         TileType(nest.kernel.ops[id].dtype), side * (side + 1)));
  int64_t passes = std::max<int64_t>(1, side * vectors / workgroup);
  struct Position {
    V row, column;  // within the tile; column: of the vector's first element
  };
  auto position = [&](int64_t pass) {
    V v = writer.Add(item, writer.Index(pass * workgroup));
    return Position{
        writer.FloorDiv(v, writer.Index(vectors), true),
        writer.Mul(writer.FloorMod(v, writer.Index(vectors), true), writer.Index(lanes))};
  };
  auto lanes_inside = [&](V base, V end) {
    V index = writer.Add(base, writer.Iota(writer.index_dtype(), lanes));
    return writer.Compare(Opcode::kLt, index, writer.Splat(end, lanes));
  };

  // Constants and indices of the outer blocks, once.
  loop::OpId top = nest.loops[static_cast<size_t>(piece.chain[0])].op;
  for (loop::OpId id : piece.ops)
    if (id != top) HY_TRY(emitter.EmitOp(id));
  for (int loop : piece.chain)
    if (loop != piece.chain.back())
      for (loop::OpId id : nest.kernel.blocks[nest.OpOf(loop).body].ops)
        if (nest.kernel.ops[id].kind == OpKind::kConst) HY_TRY(emitter.EmitOp(id));

  // Rows of the tile run along the reading loop. Beyond the end, the first element again: nothing
  // uses it.
  for (int64_t pass = 0; pass < passes; ++pass) {
    Position at = position(pass);
    V along = writer.Add(read_first, at.column), across = writer.Add(write_first, at.row);
    V mask = kNone;
    if (!exprs.KnownMultipleOf(read.extent, side)) {
      if (lanes > 1 && !exprs.KnownMultipleOf(read.extent, lanes))
        mask = lanes_inside(along, read_end);
      along = writer.Select(writer.Compare(Opcode::kLt, along, read_end), along, writer.Index(0));
    }
    if (!exprs.KnownMultipleOf(write.extent, side))
      across =
          writer.Select(writer.Compare(Opcode::kLt, across, write_end), across, writer.Index(0));
    emitter.Bind(write.symbol, across);
    emitter.BeginVector(read.symbol, along, lanes, mask);
    V place = writer.Add(writer.Mul(at.row, writer.Index(side + 1)), at.column);
    for (size_t i = 0; i < plan.loads.size(); ++i)
      HY_TRY(emitter.Stage(plan.loads[i], tiles[i], place));
    emitter.EndVector();
  }
  writer.Barrier();
  for (int64_t pass = 0; pass < passes; ++pass) {
    Position at = position(pass);
    V along = writer.Add(write_first, at.column), across = writer.Add(read_first, at.row);
    V mask = kNone, guard = inside;
    auto require = [&](V condition) {
      guard = guard == kNone ? condition
                             : writer.Pure(Opcode::kAnd, writer.TypeOf(guard), {guard, condition});
    };
    if (!exprs.KnownMultipleOf(write.extent, side)) {
      if (lanes > 1 && !exprs.KnownMultipleOf(write.extent, lanes))
        mask = lanes_inside(along, write_end);
      require(writer.Compare(Opcode::kLt, along, write_end));
    }
    if (!exprs.KnownMultipleOf(read.extent, side))
      require(writer.Compare(Opcode::kLt, across, read_end));
    if (guard != kNone) writer.BeginIf(guard);
    V row =
        lanes == 1 ? at.column : writer.Add(at.column, writer.Iota(writer.index_dtype(), lanes));
    V indices = writer.Add(writer.Mul(row, writer.Index(side + 1)), at.row);
    for (size_t i = 0; i < plan.loads.size(); ++i)
      emitter.ReadFrom(plan.loads[i], tiles[i], indices);
    emitter.Bind(read.symbol, across);
    emitter.BeginVector(write.symbol, along, lanes, mask);
    HY_TRY(emitter.EmitBlock(nest.OpOf(piece.chain.back()).body));
    emitter.EndVector();
    if (guard != kNone) writer.EndIf({});
  }
  *bindings = emitter.bindings;
  *scalars = emitter.scalars;
  return grid;
}

}  // namespace halyard::schedule
