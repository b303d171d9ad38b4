// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/contraction_sum.h"

#include <algorithm>

#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using V = kernel::ValueId;

namespace {
constexpr int64_t kSumWorkitems = 128;
constexpr int64_t kMostElements = int64_t{1} << 27;  // of a buffer, for 32-bit indices
}  // namespace

DType IndexDType(const loop::Function& function, const loop::Kernel& kernel) {
  for (const loop::Op& op : kernel.ops) {
    if (op.buffer == loop::kNone) continue;
    const Expr elements = function.buffers[op.buffer].elements;
    if (function.exprs->RangeOf(elements).hi > kMostElements) return DType::kI64;
  }
  return IndexType(Nest(function, kernel));
}

Workspace PartialWorkspace(ExprArena& exprs, const Problem& problem, int64_t parts) {
  Expr elements = exprs.Mul(exprs.Mul(problem.m.extent, problem.n.extent), problem.batch.extent);
  elements = exprs.Mul(elements, exprs.Const(parts));
  return Workspace{exprs.Mul(elements, exprs.Const(BitWidth(problem.dtype) / 8))};
}

kernel::BufferId AddPartial(Emitter& emitter, const Problem& problem, bool is_written) {
  kernel::Buffer buffer;
  buffer.name = "parts";
  buffer.dtype = problem.dtype;
  buffer.access = is_written ? kernel::Access::kWrite : kernel::Access::kRead;
  return emitter.AddBinding(Binding{Binding::Kind::kWorkspace, 0}, std::move(buffer));
}

V PartialIndex(ExprArena& exprs, Emitter& emitter, Writer& writer, const Problem& problem,
               bool swap, V part, V row, V col) {
  const Expr rows = swap ? problem.n.extent : problem.m.extent;
  const Expr cols = swap ? problem.m.extent : problem.n.extent;
  V at = writer.Mul(part, emitter.Evaluate(problem.batch.extent));
  if (!problem.batch.digits.empty()) at = writer.Add(at, emitter.Evaluate(problem.batch.flat));
  at = writer.Mul(at, emitter.Evaluate(exprs.Mul(rows, cols)));
  return writer.Add(writer.Add(at, writer.Mul(row, emitter.Evaluate(cols))), col);
}

Status AddSumOfParts(const loop::Function& function, const loop::Kernel& kernel,
                     const Problem& problem, const ScheduleRecord& record, int64_t parts,
                     const Target& target, ScheduledKernel& scheduled) {
  ExprArena& exprs = *function.exprs;
  const Side& rows = record.swap ? problem.n : problem.m;
  const Side& cols = record.swap ? problem.m : problem.n;
  Writer writer(KernelName(kernel.name, "_sum"), IndexDType(function, kernel));
  Emitter emitter(function, kernel, writer, GpuEmitterOptions());
  writer.SetWorkgroup(kSumWorkitems, 0);
  for (const Side* side : {&problem.batch, &problem.m, &problem.n}) {
    if (side->digits.size() > 1) emitter.Flatten(side->flat, side->digits);
  }
  int lanes = static_cast<int>(16 / std::max(1, BitWidth(problem.dtype) / 8));
  while (!exprs.KnownMultipleOf(cols.extent, lanes)) lanes /= 2;
  const Expr row_symbol = exprs.Loop("row", rows.extent);
  const Expr col_symbol = exprs.Loop("column", cols.extent);
  const Expr vectors = exprs.FloorDiv(cols.extent, exprs.Const(lanes));
  const Expr total = exprs.Mul(vectors, rows.extent);
  Dispatch dispatch;
  dispatch.kernel = 1;
  dispatch.grid[0] = exprs.CeilDiv(total, exprs.Const(kSumWorkitems));
  dispatch.grid[1] = exprs.Const(1);
  dispatch.grid[2] = problem.batch.extent;
  if (exprs.AsConst(dispatch.grid[0]).value_or(0) > target.gpu.max_grid[0]) {
    return InvalidArgument("Kernel '{}' has too many results for a split sum.", kernel.name);
  }
  if (!problem.batch.digits.empty()) emitter.Bind(problem.batch.flat, writer.WorkgroupId(2));
  const V id = writer.Add(writer.Mul(writer.WorkgroupId(0), writer.Index(kSumWorkitems)),
                          writer.WorkitemId(0));
  const bool is_whole = exprs.KnownMultipleOf(total, kSumWorkitems);
  if (!is_whole) writer.BeginIf(writer.Compare(Opcode::kLt, id, emitter.Evaluate(total)));
  const V row = writer.FloorDiv(id, emitter.Evaluate(vectors), true);
  const V col =
      writer.Mul(writer.FloorMod(id, emitter.Evaluate(vectors), true), writer.Index(lanes));
  const kernel::BufferId partial = AddPartial(emitter, problem, false);
  V sum = kNone;
  for (int64_t part = 0; part < parts; ++part) {
    const V at =
        PartialIndex(exprs, emitter, writer, problem, record.swap, writer.Index(part), row, col);
    const V value = writer.Load(partial, at, lanes, false, lanes);
    sum = sum == kNone ? value : writer.Add(sum, value);
  }
  emitter.Bind(row_symbol, row);
  emitter.Shift(rows.flat, row_symbol, 0);
  emitter.Shift(cols.flat, col_symbol, 0);
  emitter.BeginVector(col_symbol, col, lanes, kNone);
  emitter.SetValue(problem.accumulator, sum);
  for (loop::OpId op : problem.epilogue) HY_TRY(emitter.EmitOp(op));
  emitter.EndVector();
  if (!is_whole) writer.EndIf({});
  dispatch.bindings = emitter.bindings;
  dispatch.scalars = emitter.scalars;
  scheduled.kernels.push_back(writer.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  return OkStatus();
}

void AddJoin(ExprArena& exprs, Emitter& emitter, const Problem& problem, Expr tiles,
             const GpuTile& tile, ScheduledKernel& scheduled, PartsOfTile* place) {
  const auto add = [&](std::string_view name, DType dtype, Expr elements, bool is_zero) {
    const auto index = static_cast<uint32_t>(scheduled.workspaces.size());
    const Expr bytes = exprs.Mul(elements, exprs.Const(BitWidth(dtype) / 8));
    scheduled.workspaces.push_back(Workspace{bytes, is_zero});
    kernel::Buffer buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.access = kernel::Access::kReadWrite;
    return emitter.AddBinding(Binding{Binding::Kind::kWorkspace, index}, std::move(buffer));
  };
  const int64_t each = int64_t{tile.split} * tile.m * tile.n;
  place->parts = add("parts", problem.dtype, exprs.Mul(tiles, exprs.Const(each)), false);
  place->counters = add("counters", DType::kI32, tiles, true);
  place->tiles = emitter.Evaluate(tiles);
}

std::vector<V> BeginJoined(Writer& writer, const PartsOfTile& place, std::span<const V> sums) {
  const kernel::Type type = writer.TypeOf(sums[0]);
  const int64_t elements = int64_t{type.rows} * type.cols;
  const V stride = writer.Index(type.cols);
  const int64_t row_major = static_cast<int64_t>(kernel::FragmentLayout::kRowMajor);
  const int64_t align = std::min<int64_t>(type.cols, 64);
  const auto count = static_cast<int64_t>(sums.size());
  const auto first_of = [&](V part) {
    V at = writer.Add(writer.Mul(part, place.tiles), place.tile);
    at = writer.Add(writer.Mul(at, writer.Index(place.subgroups)), place.subgroup);
    return writer.Mul(at, writer.Index(count * elements));
  };
  const V own = first_of(place.part);
  for (int64_t f = 0; f < count; ++f) {
    const V at = writer.Add(own, writer.Index(f * elements));
    writer.Do(Opcode::kFragmentStore, {at, sums[static_cast<size_t>(f)], stride},
              {row_major, align}, place.parts);
  }
  const V is_last = writer.Value(Opcode::kLastArrival, kernel::Type{DType::kBool, 1},
                                 {place.tile, writer.Index(place.split)}, {}, place.counters);
  writer.BeginIf(is_last);
  std::vector<V> joined;
  for (int64_t part = 0; part < place.split; ++part) {
    const V first = first_of(writer.Index(part));
    for (int64_t f = 0; f < count; ++f) {
      const V at = writer.Add(first, writer.Index(f * elements));
      const V more =
          writer.Value(Opcode::kFragmentLoad, type, {at, stride}, {row_major, align}, place.parts);
      if (part == 0) {
        joined.push_back(more);
      } else {
        V& sum = joined[static_cast<size_t>(f)];
        sum = writer.Value(Opcode::kAdd, type, {sum, more});
      }
    }
  }
  return joined;
}

}  // namespace halyard::schedule
