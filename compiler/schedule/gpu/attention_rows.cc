// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/attention_rows.h"

#include <limits>
#include <numbers>
#include <vector>

#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int64_t kJoinWorkitems = 128;  // of the dispatch that joins parts

V Pure(Writer& writer, Opcode opcode, std::vector<V> operands) {
  const Type type = writer.TypeOf(operands[0]);
  return writer.Pure(opcode, type, std::move(operands));
}

// Element 0 of the row at `place`, in units of rows.
V RowIndex(const AttentionResults& r, const PartPlace& place) {
  const AttentionProblem& attention = r.online.attention;
  V at = r.writer.Mul(place.part, r.emitter.Evaluate(attention.batch_extent));
  at = r.writer.Add(at, place.batch);
  at = r.writer.Mul(at, r.emitter.Evaluate(attention.m_extent));
  return r.writer.Add(at, place.row);
}

// Lanes of a vector at `col` that are columns; kNone: all.
V ColumnMask(const AttentionResults& r, V col, int lanes) {
  const Expr width = r.online.values.n_extent;
  if (r.function.exprs->KnownMultipleOf(width, lanes)) return kNone;
  return r.writer.Compare(Opcode::kLt, r.writer.Iota(r.writer.index_dtype(), lanes),
                          r.writer.Sub(r.emitter.Evaluate(width), col));
}

V IsColumn(const AttentionResults& r, V col) {
  return r.writer.Compare(Opcode::kLt, col, r.emitter.Evaluate(r.online.values.n_extent));
}

}  // namespace

void BindBatch(const AttentionProblem& attention, V batch, Writer& writer, Emitter& emitter) {
  for (size_t i = attention.batch.size(); i-- > 0;) {
    const auto& [symbol, extent] = attention.batch[i];
    if (i == 0) {
      emitter.Bind(symbol, batch);
      break;
    }
    const V size = emitter.Evaluate(extent);
    emitter.Bind(symbol, writer.FloorMod(batch, size, true));
    batch = writer.FloorDiv(batch, size, true);
  }
}

V KeyBlocks(ExprArena& exprs, const OnlineSoftmax& online, Writer& writer, Emitter& emitter,
            Expr end, Expr row_symbol, V first, int64_t count, int64_t block) {
  const Expr extent = online.scores.n_extent;
  if (!end.valid()) return emitter.Evaluate(exprs.CeilDiv(extent, exprs.Const(block)));
  const AttentionProblem& attention = online.attention;
  const V last_row = writer.Sub(emitter.Evaluate(attention.m_extent), writer.Index(1));
  emitter.Bind(row_symbol, writer.Min(writer.Add(first, writer.Index(count - 1)), last_row));
  emitter.Shift(attention.m, row_symbol, 0);
  // One block at least: where a row sees nothing, its maximum is -infinity.
  const V visible = writer.Max(emitter.Evaluate(end), writer.Index(1));
  const V keys = writer.Min(visible, emitter.Evaluate(extent));
  return writer.FloorDiv(writer.Add(keys, writer.Index(block - 1)), writer.Index(block), true);
}

V ShownKeyBlocks(ExprArena& exprs, const OnlineSoftmax& online, Writer& writer, Emitter& emitter,
                 Expr end, Expr row_symbol, V first, int64_t block) {
  const Expr extent = online.scores.n_extent;
  if (!end.valid() && exprs.KnownMultipleOf(extent, block)) return kNone;
  V keys = emitter.Evaluate(extent);
  if (end.valid()) {
    emitter.Bind(row_symbol, first);
    emitter.Shift(online.attention.m, row_symbol, 0);
    keys = writer.Min(writer.Max(emitter.Evaluate(end), writer.Index(0)), keys);
  }
  return writer.FloorDiv(keys, writer.Index(block), true);
}

V MaxOverWorkgroup(Writer& writer, V value, int64_t subgroups) {
  for (const int mask : {1, 2, 4, 8, 16}) {
    value = Pure(writer, Opcode::kMax, {value, writer.ShuffleXor(value, mask)});
  }
  if (subgroups == 1) return value;
  const kernel::BufferId buffer = writer.AddAllocation("maxima", DType::kF32, subgroups);
  const V lane = writer.Pure(Opcode::kSubgroupLane, Type{writer.index_dtype(), 1}, {});
  writer.BeginIf(writer.Compare(Opcode::kEq, lane, writer.Index(0)));
  writer.Store(buffer, writer.SubgroupId(), value);
  writer.EndIf({});
  writer.Barrier();
  for (int64_t i = 0; i < subgroups; ++i) {
    const V other = writer.Load(buffer, writer.Index(i), 1, false);
    value = i == 0 ? other : Pure(writer, Opcode::kMax, {value, other});
  }
  return value;
}

JoinedRow JoinRow(Writer& writer, std::span<const V> maxima, std::span<const V> sums) {
  JoinedRow joined;
  joined.maximum = maxima[0];
  for (size_t i = 1; i < maxima.size(); ++i) {
    joined.maximum = Pure(writer, Opcode::kMax, {joined.maximum, maxima[i]});
  }
  // Where every key is hidden, weights are 0 and not exp(-inf + inf).
  const V is_hidden =
      writer.Compare(Opcode::kEq, joined.maximum, writer.Float(DType::kF32, -kInfinity));
  const V safe = writer.Select(is_hidden, writer.Float(DType::kF32, 0), joined.maximum);
  joined.shift =
      Pure(writer, Opcode::kMul, {safe, writer.Float(DType::kF32, -std::numbers::log2e)});
  for (size_t i = 0; i < maxima.size(); ++i) {
    const V part = Pure(writer, Opcode::kMul, {sums[i], ShareOf(writer, maxima[i], joined)});
    joined.sum = i == 0 ? part : Pure(writer, Opcode::kAdd, {joined.sum, part});
  }
  return joined;
}

V ShareOf(Writer& writer, V maximum, const JoinedRow& joined) {
  const V log2e = writer.Float(DType::kF32, std::numbers::log2e);
  return Pure(writer, Opcode::kExp2, {Pure(writer, Opcode::kFma, {maximum, log2e, joined.shift})});
}

int ResultLanes(const loop::Function& function, const loop::Kernel& kernel,
                const OnlineSoftmax& online) {
  for (loop::OpId id : online.values.epilogue) {
    const loop::Op& op = kernel.ops[id];
    if (op.kind != loop::OpKind::kStore) continue;
    return 16 / std::max(1, BitWidth(function.buffers[op.buffer].dtype) / 8);
  }
  return 4;
}

Status EmitAttentionResult(const AttentionResults& r, V row, V col, V values, V maximum, V sum) {
  ExprArena& exprs = *r.function.exprs;
  // A row that sees no key has the sum that its softmax has: not a number, or 0 over no keys. The
  // weights of other rows sum up to 1 or more, so where is_hidden is used 0 tells those rows apart.
  const V is_hidden =
      r.writer.Compare(Opcode::kEq, maximum, r.writer.Float(DType::kF32, -kInfinity));
  V hidden_sum = r.writer.Float(DType::kF32, std::numeric_limits<double>::quiet_NaN());
  if (exprs.RangeOf(r.online.scores.n_extent).lo < 1) {
    const V is_empty = r.writer.Compare(Opcode::kEq, r.emitter.Evaluate(r.online.scores.n_extent),
                                        r.writer.Index(0));
    hidden_sum = r.writer.Select(is_empty, r.writer.Float(DType::kF32, 0), hidden_sum);
  }
  const int lanes = r.writer.LanesOf(values);
  const bool checks_col = !exprs.KnownMultipleOf(r.online.values.n_extent, 16);
  if (checks_col) r.writer.BeginIf(IsColumn(r, col));
  r.emitter.Bind(r.row_symbol, row);
  r.emitter.Shift(r.online.attention.m, r.row_symbol, 0);
  if (r.online.is_hidden != loop::kNone) {
    r.emitter.SetValue(r.online.is_hidden,
                       r.writer.Compare(Opcode::kEq, sum, r.writer.Float(DType::kF32, 0)));
  } else {
    sum = r.writer.Select(is_hidden, hidden_sum, sum);
  }
  r.emitter.SetValue(r.online.sum, sum);
  for (loop::OpId id : r.online.row_ops) HY_TRY(r.emitter.EmitOp(id));
  r.emitter.Shift(r.online.values.n, r.col_symbol, 0);
  r.emitter.BeginVector(r.col_symbol, col, lanes, ColumnMask(r, col, lanes));
  r.emitter.SetValue(r.online.values.sum, values);
  for (loop::OpId id : r.online.values.epilogue) {
    const loop::Op& op = r.kernel.ops[id];
    if (op.opcode != Opcode::kDiv || op.operands[0] != r.online.values.sum ||
        op.operands[1] != r.online.sum) {
      HY_TRY(r.emitter.EmitOp(id));
      continue;
    }
    // One division for the vector: each would take as long as dozens of products.
    const V share = Pure(r.writer, Opcode::kDiv, {r.writer.Float(DType::kF32, 1), sum});
    r.emitter.SetValue(op.results[0],
                       Pure(r.writer, Opcode::kMul, {values, r.writer.Splat(share, lanes)}));
  }
  r.emitter.EndVector();
  if (checks_col) r.writer.EndIf({});
  return OkStatus();
}

AttentionParts AddAttentionParts(Emitter& emitter, bool is_written) {
  uint32_t number = 0;
  const auto add = [&](const char* name) {
    kernel::Buffer buffer;
    buffer.name = name;
    buffer.dtype = DType::kF32;
    buffer.access = is_written ? kernel::Access::kWrite : kernel::Access::kRead;
    return emitter.AddBinding(Binding{Binding::Kind::kWorkspace, number++}, std::move(buffer));
  };
  AttentionParts parts;
  parts.values = add("part_values");
  parts.maxima = add("part_maxima");
  parts.sums = add("part_sums");
  return parts;
}

void StoreAttentionPart(const AttentionResults& r, const AttentionParts& parts,
                        const PartPlace& place, V values, V maximum, V sum) {
  ExprArena& exprs = *r.function.exprs;
  const Expr width = r.online.values.n_extent;
  const int lanes = r.writer.LanesOf(values);
  const V row = RowIndex(r, place);
  const bool checks_col = !exprs.KnownMultipleOf(width, 16);
  if (checks_col) r.writer.BeginIf(IsColumn(r, place.col));
  const V at = r.writer.Add(r.writer.Mul(row, r.emitter.Evaluate(width)), place.col);
  r.writer.Store(parts.values, at, values, ColumnMask(r, place.col, lanes),
                 exprs.KnownMultipleOf(width, lanes) ? lanes : 1);
  r.writer.BeginIf(r.writer.Compare(Opcode::kEq, place.col, r.writer.Index(0)));
  r.writer.Store(parts.maxima, row, maximum);
  r.writer.Store(parts.sums, row, sum);
  r.writer.EndIf({});
  if (checks_col) r.writer.EndIf({});
}

Status AddAttentionJoin(const loop::Function& function, const loop::Kernel& kernel,
                        const OnlineSoftmax& online, int64_t part_count, const Target& target,
                        ScheduledKernel& scheduled) {
  ExprArena& exprs = *function.exprs;
  const AttentionProblem& attention = online.attention;
  const Expr width = online.values.n_extent;
  Writer writer(KernelName(kernel.name, "_join"), IndexDType(function, kernel));
  Emitter emitter(function, kernel, writer, GpuEmitterOptions());
  writer.SetWorkgroup(kJoinWorkitems, 0);
  const AttentionResults results{function,
                                 kernel,
                                 online,
                                 writer,
                                 emitter,
                                 exprs.Loop("row", attention.m_extent),
                                 exprs.Loop("column", width)};
  int lanes = 4;
  while (!exprs.KnownMultipleOf(width, lanes)) lanes /= 2;
  const Expr vectors = exprs.FloorDiv(width, exprs.Const(lanes));
  const Expr rows = exprs.Mul(attention.batch_extent, attention.m_extent);
  const Expr total = exprs.Mul(rows, vectors);
  Dispatch dispatch;
  dispatch.kernel = 1;
  dispatch.grid[0] = exprs.CeilDiv(total, exprs.Const(kJoinWorkitems));
  dispatch.grid[1] = dispatch.grid[2] = exprs.Const(1);
  if (exprs.AsConst(dispatch.grid[0]).value_or(0) > target.gpu.max_grid[0]) {
    return InvalidArgument("Kernel '{}' has too many results to join parts of.", kernel.name);
  }
  const V id = writer.Add(writer.Mul(writer.WorkgroupId(0), writer.Index(kJoinWorkitems)),
                          writer.WorkitemId(0));
  const bool is_whole = exprs.KnownMultipleOf(total, kJoinWorkitems);
  if (!is_whole) writer.BeginIf(writer.Compare(Opcode::kLt, id, emitter.Evaluate(total)));
  for (loop::OpId op : attention.constants) HY_TRY(emitter.EmitOp(op));
  const V row_number = writer.FloorDiv(id, emitter.Evaluate(vectors), true);
  const V col =
      writer.Mul(writer.FloorMod(id, emitter.Evaluate(vectors), true), writer.Index(lanes));
  const V row = writer.FloorMod(row_number, emitter.Evaluate(attention.m_extent), true);
  const V batch = writer.FloorDiv(row_number, emitter.Evaluate(attention.m_extent), true);
  BindBatch(attention, batch, writer, emitter);
  const AttentionParts parts = AddAttentionParts(emitter, false);
  std::vector<V> maxima, sums;
  for (int64_t part = 0; part < part_count; ++part) {
    const V at = RowIndex(results, {writer.Index(part), batch, row, col});
    maxima.push_back(writer.Load(parts.maxima, at, 1, false));
    sums.push_back(writer.Load(parts.sums, at, 1, false));
  }
  const JoinedRow joined = JoinRow(writer, maxima, sums);
  V values = kNone;
  for (int64_t part = 0; part < part_count; ++part) {
    V at = RowIndex(results, {writer.Index(part), batch, row, col});
    at = writer.Add(writer.Mul(at, emitter.Evaluate(width)), col);
    const V share = ShareOf(writer, maxima[static_cast<size_t>(part)], joined);
    const V load = writer.Load(parts.values, at, lanes, false, lanes);
    const V scaled = Pure(writer, Opcode::kMul, {load, writer.Splat(share, lanes)});
    values = values == kNone ? scaled : Pure(writer, Opcode::kAdd, {values, scaled});
  }
  HY_TRY(EmitAttentionResult(results, row, col, values, joined.maximum, joined.sum));
  if (!is_whole) writer.EndIf({});
  dispatch.bindings = emitter.bindings;
  dispatch.scalars = emitter.scalars;
  scheduled.kernels.push_back(writer.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  const Expr count = exprs.Mul(rows, exprs.Const(part_count * 4));
  scheduled.workspaces.push_back(Workspace{exprs.Mul(count, width)});
  scheduled.workspaces.push_back(Workspace{count});
  scheduled.workspaces.push_back(Workspace{count});
  return OkStatus();
}

}  // namespace halyard::schedule
