// SPDX-License-Identifier: Apache-2.0
// The loops of a piece's chain whose iterations write distinct elements go to the grid.
#include "compiler/schedule/cpu/row.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "compiler/kernel/jam.h"
#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/cpu/tasks.h"

namespace halyard::schedule {

using kernel::kNone;
using loop::LoopKind;
using loop::Op;
using loop::OpKind;
using V = kernel::ValueId;

namespace {

// Additions in a row before the next block: a sum of n values of f32 errs by at most about
// (1024 + n / 1024) * 2^-24.
constexpr int64_t kSumBlock = 1024;

constexpr int64_t kShortRow = 16;  // vectors
constexpr int kRowsTogether = 4;   // of short ones

constexpr int64_t kMaxWorkgroupBytes = int64_t{4} << 20;

// The parts of a chain under a choice of vector loops.
struct ChainRoles {
  std::vector<int> grid;    // flattened, outermost first
  std::vector<int> serial;  // loops of each task, outermost first
  int vector = -1;
  bool vector_in_grid = false;  // may be cut into chunks
};

ChainRoles RolesOf(const Nest& nest, const std::vector<int>& chain,
                   const std::set<int>& vector_loops) {
  ChainRoles roles;
  for (int loop : chain) {
    if (vector_loops.count(loop) > 0 && roles.vector < 0) {
      roles.vector = loop;
      roles.vector_in_grid = nest.WritesAreDistinct(loop);
    } else if (nest.WritesAreDistinct(loop)) {
      roles.grid.push_back(loop);
    } else {
      roles.serial.push_back(loop);
    }
  }
  return roles;
}

int BaseLanes(const Nest& nest, const Target& target) {
  int widest = 1, narrow = 8;
  for (const AccessSite& site : nest.accesses) {
    int bytes =
        std::max(1, BitWidth(nest.function.buffers[nest.kernel.ops[site.op].buffer].dtype) / 8);
    widest = std::max(widest, bytes);
    narrow = std::min(narrow, bytes);
  }
  for (const Op& op : nest.kernel.ops)
    if (op.kind == OpKind::kScalar && op.dtype != DType::kBool)
      widest = std::max(widest, std::min(4, BitWidth(op.dtype) / 8));
  if (widest == 8 && narrow < 8) widest = 4;
  return std::max(1, target.vector_bytes / widest);
}

Expr ProductOf(const Nest& nest, const std::vector<int>& loops) {
  Expr product = nest.exprs.Const(1);
  for (int loop : loops) product = nest.exprs.Mul(product, nest.OpOf(loop).extent);
  return product;
}

// Fills grain and chunk for the largest piece.
void ChooseTasks(const Nest& nest, const std::vector<Piece>& pieces, const std::set<int>& vectors,
                 const Target& target, ScheduleRecord* record) {
  const Piece* largest = nullptr;
  double most = -1;
  for (const Piece& piece : pieces) {
    if (piece.chain.empty()) continue;
    double work = nest.Work(piece.chain[0]);
    if (work > most) most = work, largest = &piece;
  }
  if (!largest) return;
  ChainRoles roles = RolesOf(nest, largest->chain, vectors);
  int64_t rows = std::max<int64_t>(1, nest.exprs.HintOf(ProductOf(nest, roles.grid)));
  int64_t workers = std::max(1, target.worker_count);
  double row_work = std::max(1.0, most / static_cast<double>(rows));
  int64_t grain = static_cast<int64_t>(std::ceil(kTaskWork / row_work));
  // Sizes that are not known yet: tasks just large enough, however many there will be.
  if (nest.exprs.AsConst(ProductOf(nest, roles.grid)))
    grain = std::max(grain, (rows + workers * kTasksPerWorker - 1) / (workers * kTasksPerWorker));
  grain = std::clamp<int64_t>(grain, 1, rows);
  int64_t tasks = (rows + grain - 1) / grain;
  record->grain = (rows + tasks - 1) / tasks;
  if (nest.exprs.AsConst(ProductOf(nest, roles.grid)) == rows && tasks == 1 && rows == 1)
    record->grain = 1;
  if (roles.vector >= 0 && roles.vector_in_grid && tasks < workers * kTasksPerWorker) {
    int64_t extent = std::max<int64_t>(1, nest.ExtentHint(roles.vector));
    double task_work = row_work * static_cast<double>(record->grain);
    int64_t parts = static_cast<int64_t>(task_work / kTaskWork);
    if (nest.exprs.AsConst(nest.OpOf(roles.vector).extent))
      parts = std::min(parts, (workers * kTasksPerWorker + tasks - 1) / tasks);
    if (parts > 1) {
      int64_t unit = int64_t{record->lanes} * 4;
      record->chunk = ((extent + parts - 1) / parts + unit - 1) / unit * unit;
    }
  }
}

// Whether rows of one piece may run side by side (kernel::JamOuterLoop) and are short.
bool HasShortRows(const Nest& nest, const std::vector<Piece>& pieces, const std::set<int>& vectors,
                  int lanes) {
  if (pieces.size() != 1 || pieces[0].chain.empty() || vectors.empty()) return false;
  for (int loop = 0; loop < std::ssize(nest.loops); ++loop) {
    for (const Expr symbol : nest.exprs.SymbolsOf(nest.OpOf(loop).extent)) {
      if (nest.exprs.SymbolKindOf(symbol) != SymbolKind::kDim) return false;
    }
    if (vectors.count(loop) > 0 && nest.ExtentHint(loop) > kShortRow * lanes) return false;
  }
  for (const AccessSite& site : nest.accesses) {
    const loop::Buffer& buffer = nest.function.buffers[nest.kernel.ops[site.op].buffer];
    if (buffer.role != loop::BufferRole::kLocal) continue;
    // Memory of a task that is a workspace is there once.
    const std::optional<int64_t> elements = nest.exprs.AsConst(buffer.elements);
    if (!elements || *elements * BitWidth(buffer.dtype) > kMaxWorkgroupBytes) return false;
  }
  const ChainRoles roles = RolesOf(nest, pieces[0].chain, vectors);
  return !roles.grid.empty() && roles.vector < 0;
}

class RowBuilder {
 public:
  RowBuilder(const loop::Function& function, const loop::Kernel& kernel,
             const ScheduleRecord& record, const Target& target)
      : nest_(function, kernel), exprs_(*function.exprs), record_(record), target_(target) {}

  Result<ScheduledKernel> Build() {
    for (int loop : record_.vector_loops) {
      if (loop < 0 || static_cast<size_t>(loop) >= nest_.loops.size() || !nest_.CanVectorise(loop))
        return InvalidArgument("Schedule '{}' vectorises loop {} of kernel '{}', which cannot be.",
                               FormatSchedule(record_), loop, nest_.kernel.name);
      vectors_.insert(loop);
    }
    if (record_.lanes < 1 || record_.lanes > 64 || (record_.lanes & (record_.lanes - 1)) != 0)
      return InvalidArgument("Schedule '{}' has {} lanes; a power of two up to 64 is needed.",
                             FormatSchedule(record_), record_.lanes);
    if (record_.unroll < 1 || record_.unroll > 16 || (record_.unroll & (record_.unroll - 1)) != 0)
      return InvalidArgument("Schedule '{}' has unroll {}; a power of two up to 16 is needed.",
                             FormatSchedule(record_), record_.unroll);
    scheduled_.record = record_;
    std::vector<Piece> pieces = Cut(nest_);
    for (size_t i = 0; i < pieces.size(); ++i)
      HY_TRY_CONTEXT(BuildPiece(pieces[i], pieces.size() == 1 ? "" : fmt::format("_{}", i)),
                     "scheduling kernel '{}'", nest_.kernel.name);
    return std::move(scheduled_);
  }

 private:
  Status PlaceLocals(const Piece& piece, Writer& writer, Emitter& emitter,
                     const Dispatch& dispatch);
  Status BuildPiece(const Piece& piece, const std::string& suffix);

  Nest nest_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const Target& target_;
  std::set<int> vectors_;
  ScheduledKernel scheduled_;
};

Status RowBuilder::PlaceLocals(const Piece& piece, Writer& writer, Emitter& emitter,
                               const Dispatch& dispatch) {
  std::set<loop::BufferId> locals;
  for (const AccessSite& site : nest_.accesses) {
    loop::BufferId id = nest_.kernel.ops[site.op].buffer;
    if (nest_.function.buffers[id].role != loop::BufferRole::kLocal) continue;
    bool here = piece.chain.empty() || (!site.loops.empty() && site.loops[0] == piece.chain[0]);
    if (here) locals.insert(id);
  }
  for (loop::BufferId id : locals) {
    const loop::Buffer& local = nest_.function.buffers[id];
    int64_t element_bytes = std::max(1, BitWidth(local.dtype) / 8);
    std::optional<int64_t> elements = exprs_.AsConst(local.elements);
    if (elements && *elements * element_bytes <= kMaxWorkgroupBytes) {
      emitter.PlaceLocal(
          id, writer.AddAllocation(local.name, local.dtype, std::max<int64_t>(1, *elements)),
          kNone);
      continue;
    }
    for (Expr symbol : exprs_.SymbolsOf(local.elements))
      if (exprs_.SymbolKindOf(symbol) != SymbolKind::kDim)
        return Unimplemented("Local buffer '{}' has a size that depends on a loop ({}).",
                             local.name, exprs_.Format(local.elements));
    Expr tasks = exprs_.Mul(dispatch.grid[0], dispatch.grid[1]);
    Workspace workspace;
    workspace.bytes = exprs_.Mul(exprs_.Mul(tasks, local.elements), exprs_.Const(element_bytes));
    scheduled_.workspaces.push_back(workspace);
    kernel::Buffer parameter;
    parameter.name = local.name;
    parameter.dtype = local.dtype;
    parameter.access = kernel::Access::kReadWrite;
    Binding binding{Binding::Kind::kWorkspace,
                    static_cast<uint32_t>(scheduled_.workspaces.size() - 1)};
    kernel::BufferId place = emitter.AddBinding(binding, std::move(parameter));
    V task = writer.WorkgroupId(0);
    if (!exprs_.IsConst(dispatch.grid[1], 1))
      task =
          writer.Add(writer.Mul(task, emitter.Evaluate(dispatch.grid[1])), writer.WorkgroupId(1));
    emitter.PlaceLocal(id, place, writer.Mul(task, emitter.Evaluate(local.elements)));
  }
  return OkStatus();
}

Status RowBuilder::BuildPiece(const Piece& piece, const std::string& suffix) {
  Writer writer(KernelName(nest_.kernel.name, suffix));
  Emitter::Options options;
  options.lanes = record_.lanes;
  options.unroll = record_.unroll;
  options.sum_block = kSumBlock;
  options.masked_tails = target_.vector_bytes >= 32;
  for (int loop : vectors_) options.vector_loops.insert(nest_.loops[static_cast<size_t>(loop)].op);
  Emitter emitter(nest_.function, nest_.kernel, writer, options);
  Dispatch dispatch;
  for (Expr& extent : dispatch.grid) extent = exprs_.Const(1);

  ChainRoles roles;
  if (!piece.chain.empty()) roles = RolesOf(nest_, piece.chain, vectors_);
  Expr rows = ProductOf(nest_, roles.grid);
  if (record_.grain > 0) dispatch.grid[0] = exprs_.CeilDiv(rows, exprs_.Const(record_.grain));
  bool chunked = roles.vector >= 0 && roles.vector_in_grid && record_.chunk > 0;
  if (chunked) {
    if (record_.chunk % record_.lanes != 0)
      return InvalidArgument("Schedule '{}' has a chunk that is no multiple of its lanes.",
                             FormatSchedule(record_));
    dispatch.grid[1] = exprs_.CeilDiv(nest_.OpOf(roles.vector).extent, exprs_.Const(record_.chunk));
  }
  HY_TRY(PlaceLocals(piece, writer, emitter, dispatch));

  if (piece.chain.empty()) {
    for (loop::OpId id : piece.ops) HY_TRY(emitter.EmitOp(id));
  } else {
    loop::OpId top = nest_.loops[static_cast<size_t>(piece.chain[0])].op;
    for (loop::OpId id : piece.ops)
      if (id != top) HY_TRY(emitter.EmitOp(id));
    int open = 0;
    if (!roles.grid.empty()) {
      V row = writer.I64(0);
      V total = emitter.Evaluate(rows);
      V lo = row, hi = total;
      if (record_.grain > 0) {
        lo = writer.Mul(writer.WorkgroupId(0), writer.I64(record_.grain));
        hi = writer.Add(lo, writer.I64(record_.grain));
        if (!exprs_.KnownMultipleOf(rows, record_.grain)) hi = writer.Min(hi, total);
      }
      if (record_.grain == 1) {
        row = lo;
      } else {
        row = writer.BeginFor(lo, hi, writer.I64(1), {}, record_.grain > 0).variable;
        ++open;
      }
      for (size_t i = roles.grid.size(); i-- > 0;) {
        const Op& loop = nest_.OpOf(roles.grid[i]);
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
    for (int loop : roles.serial) {
      const Op& op = nest_.OpOf(loop);
      V variable = writer
                       .BeginFor(writer.I64(0), emitter.Evaluate(op.extent), writer.I64(1), {},
                                 exprs_.RangeOf(op.extent).lo >= 1)
                       .variable;
      ++open;
      emitter.Bind(op.symbol, variable);
    }
    // Constants that stand between the loops of the chain.
    for (int loop : piece.chain)
      if (loop != piece.chain.back())
        for (loop::OpId id : nest_.kernel.blocks[nest_.OpOf(loop).body].ops)
          if (nest_.kernel.ops[id].kind == OpKind::kConst) HY_TRY(emitter.EmitOp(id));
    if (roles.vector < 0) {
      HY_TRY(emitter.EmitBlock(nest_.OpOf(piece.chain.back()).body));
    } else {
      // The vector loop runs innermost of the chain, around the body of the last loop.
      V lo = kNone, hi = kNone;
      int64_t divisor = 1;
      Expr extent = nest_.OpOf(roles.vector).extent;
      if (chunked) {
        lo = writer.Mul(writer.WorkgroupId(1), writer.I64(record_.chunk));
        hi = writer.Add(lo, writer.I64(record_.chunk));
        if (!exprs_.KnownMultipleOf(extent, record_.chunk))
          hi = writer.Min(hi, emitter.Evaluate(extent));
        if (exprs_.KnownMultipleOf(extent, record_.lanes)) divisor = record_.lanes;
      }
      HY_TRY(emitter.EmitParallel(nest_.loops[static_cast<size_t>(roles.vector)].op, lo, hi,
                                  divisor, nest_.OpOf(piece.chain.back()).body));
    }
    while (open-- > 0) writer.EndFor({});
  }
  dispatch.kernel = static_cast<uint32_t>(scheduled_.kernels.size());
  dispatch.bindings = emitter.bindings;
  dispatch.scalars = emitter.scalars;
  kernel::Kernel made = writer.Finish();
  if (record_.mr != 0) {
    const bool is_whole = record_.grain > 0 && record_.grain % record_.mr == 0 &&
                          exprs_.KnownMultipleOf(rows, record_.grain);
    HY_ASSIGN(made, kernel::JamOuterLoop(made, record_.mr, is_whole));
  }
  scheduled_.kernels.push_back(std::move(made));
  scheduled_.dispatches.push_back(std::move(dispatch));
  return OkStatus();
}

}  // namespace

Result<std::vector<ScheduleRecord>> EnumerateRow(const loop::Function& function, uint32_t kernel,
                                                 const Target& target) {
  Nest nest(function, function.kernels[kernel]);
  std::vector<Piece> pieces = Cut(nest);
  int lanes = BaseLanes(nest, target);
  std::vector<ScheduleRecord> records;
  auto add = [&](const std::set<int>& vectors, int use_lanes, int unroll, int side_by_side = 0) {
    ScheduleRecord record;
    record.lanes = vectors.empty() ? 1 : use_lanes;
    record.unroll = unroll;
    record.vector_loops.assign(vectors.begin(), vectors.end());
    ChooseTasks(nest, pieces, vectors, target, &record);
    if (side_by_side > 0) {
      if (record.grain < side_by_side) return;
      record.mr = side_by_side;
      record.grain = (record.grain + side_by_side - 1) / side_by_side * side_by_side;
      // Its outermost loops decide.
      if (!BuildRow(function, kernel, record, target).ok()) return;
    }
    if (std::find(records.begin(), records.end(), record) == records.end())
      records.push_back(std::move(record));
  };
  std::set<int> best;
  double best_cost = 0;
  bool has_reduce = false;
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    if (nest.loops[i].parent < 0) best_cost += nest.Cost(static_cast<int>(i), lanes, &best);
    has_reduce |= nest.OpOf(static_cast<int>(i)).loop == LoopKind::kReduce;
  }
  // A short row waits for its own sums; AVX-512 has the registers for four of them.
  const bool is_short =
      has_reduce && HasShortRows(nest, pieces, best, lanes) && target.vector_bytes >= 32;
  if (is_short && target.vector_bytes >= 64) add(best, lanes, 2, kRowsTogether);
  add(best, lanes, has_reduce ? 4 : 1);
  if (is_short) add(best, lanes, 2, kRowsTogether);
  // Another loop of the same nest on the lanes, where the model finds it close.
  for (size_t i = 0; i < nest.loops.size() && records.size() < 3; ++i) {
    int loop = static_cast<int>(i);
    if (best.count(loop) > 0 || !nest.CanVectorise(loop)) continue;
    int top = loop;
    while (nest.loops[static_cast<size_t>(top)].parent >= 0)
      top = nest.loops[static_cast<size_t>(top)].parent;
    std::set<int> other;
    double cost = 0;
    for (size_t t = 0; t < nest.loops.size(); ++t) {
      if (nest.loops[t].parent >= 0) continue;
      if (static_cast<int>(t) == top)
        cost += nest.CostWith(top, loop, lanes);
      else
        cost += nest.Cost(static_cast<int>(t), lanes, &other);
    }
    other.insert(loop);
    if (cost < 2 * best_cost) add(other, lanes, has_reduce ? 4 : 1);
  }
  if (!best.empty() && lanes > 4) add(best, lanes / 2, has_reduce ? 2 : 1);
  add({}, 1, 1);
  return records;
}

Result<ScheduledKernel> BuildRow(const loop::Function& function, uint32_t kernel,
                                 const ScheduleRecord& record, const Target& target) {
  return RowBuilder(function, function.kernels[kernel], record, target).Build();
}

}  // namespace halyard::schedule
