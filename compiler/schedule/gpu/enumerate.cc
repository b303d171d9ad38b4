// SPDX-License-Identifier: Apache-2.0
// Which map and team schedules are worth trying. Everything here is bound by memory: what counts is
// whole vectors along the contiguous loop, enough workitems, and reading a row once.
#include <algorithm>
#include <bit>

#include "compiler/schedule/gpu/loops.h"
#include "compiler/schedule/gpu/piece_plan.h"
#include "compiler/schedule/gpu/transpose.h"

namespace halyard::schedule {

using loop::Op;
using loop::OpKind;

namespace {

constexpr int64_t kWorkitemsPerUnit = 1024;  // that hide the latency of memory
constexpr int32_t kWorkgroup = 256;
constexpr int64_t kRowVectors = 4;  // of a persistent row in one workitem
constexpr int64_t kMaxRowElements = 64;
constexpr int64_t kLongRow = 512;
constexpr int64_t kMostWindowOps = 6000;  // of a strip of windows, which are written out
constexpr int64_t kMaxWrittenOps = 1500;  // of loops that are written out

int64_t Hint(const Nest& nest, Expr e) { return std::max<int64_t>(1, nest.exprs.HintOf(e)); }

int64_t Ceil2(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

int64_t OpsBelow(const Nest& nest, loop::BlockId block) {
  int64_t count = 0;
  for (loop::OpId id : nest.kernel.blocks[block].ops) {
    const Op& op = nest.kernel.ops[id];
    count += op.kind == OpKind::kLoop ? 4 + OpsBelow(nest, op.body) : 1;
  }
  return count;
}

class Enumerator {
 public:
  Enumerator(const loop::Function& function, uint32_t kernel, const Target& target)
      : nest_(function, function.kernels[kernel]),
        kernel_(kernel),
        exprs_(*function.exprs),
        target_(target) {
    units_ = target.gpu.unit_count > 0 ? target.gpu.unit_count : 16;
  }

  std::vector<ScheduleRecord> Run() {
    std::vector<Piece> pieces = Cut(nest_);
    if (pieces.empty()) {
      AddMap(Piece{}, 1, 1);
      return std::move(records_);
    }
    // The piece that does most decides.
    const Piece* main = &pieces[0];
    double most = -1;
    for (const Piece& piece : pieces) {
      double work = piece.chain.empty() ? 0 : nest_.Work(piece.chain[0]);
      if (work > most) most = work, main = &piece;
    }
    if (pieces.size() == 1) main = &pieces[0];
    if (!HasStrips(*main) && MayBeTeam(nest_, *main)) AddTeams(*main);
    // One workitem for a row that keeps a workgroup busy takes seconds where there are few.
    if (!records_.empty() && is_long_) return std::move(records_);
    if (std::optional<TransposePlan> plan = PlanTranspose(nest_, *main))
      AddTransposes(*main, *plan);
    AddMaps(*main);
    return std::move(records_);
  }

 private:
  void Add(const ScheduleRecord& record) {
    if (std::find(records_.begin(), records_.end(), record) == records_.end())
      records_.push_back(record);
  }

  // The loop of the grid along which most accesses are contiguous; -1: none.
  int FastestLoop(const Piece& piece, const std::vector<int>& grid) const {
    int best = -1, most = 0;
    for (int loop : grid) {
      int count = ContiguousAccesses(nest_, piece, loop, -1);
      if (count > 0 && count >= most) most = count, best = loop;
    }
    return best;
  }

  void AddMap(const Piece& piece, int lanes, int unroll, int strip = 0) {
    ScheduleRecord record;
    record.mr = strip;
    record.kind = ScheduleKind::kGpuMap;
    record.lanes = lanes;
    record.unroll = unroll;
    record.workgroup = std::min(kWorkgroup, target_.gpu.max_workgroup_size);
    if (!piece.chain.empty()) {
      std::vector<int> grid = SplitChain(nest_, piece).grid;
      int fastest = FastestLoop(piece, grid);
      if (fastest >= 0 && fastest != grid.back()) record.vector_loops = {fastest};
    }
    Add(record);
  }

  void AddMaps(const Piece& piece) {
    int lanes = 1, unroll = 1;
    if (!piece.chain.empty()) {
      std::vector<int> grid = SplitChain(nest_, piece).grid;
      int64_t total = Hint(nest_, CountOf(nest_, grid));
      bool known = exprs_.AsConst(CountOf(nest_, grid)).has_value();
      int64_t wanted = units_ * kWorkitemsPerUnit;
      if (!grid.empty() && MayVectorise(nest_, grid) && FastestLoop(piece, grid) >= 0) {
        lanes = VectorLanes(nest_, piece);
        while (known && lanes > 1 && total / lanes < wanted / 2) lanes /= 2;
      }
      loop::BlockId body = nest_.OpOf(piece.chain.back()).body;
      bool has_loops = false;
      for (loop::OpId id : nest_.kernel.blocks[body].ops)
        has_loops |= nest_.kernel.ops[id].kind == OpKind::kLoop;
      int64_t ops = OpsBelow(nest_, body);
      while (!has_loops && unroll < 2 && total / (lanes * unroll * 2) >= wanted * 2 &&
             ops * unroll * 4 <= kMaxWrittenOps / 10)
        unroll *= 2;
    }
    AddStrips(piece, lanes);
    AddMap(piece, lanes, unroll);
    if (unroll > 1) AddMap(piece, lanes, unroll * 2);
    if (lanes > 2) AddMap(piece, lanes / 2, unroll);
    AddMap(piece, 1, 1);
  }

  bool HasStrips(const Piece& piece) const {
    if (piece.chain.empty()) return false;
    const std::vector<int> grid = SplitChain(nest_, piece).grid;
    const int fastest = FastestLoop(piece, grid);
    return fastest >= 0 && SlidingLoop(nest_, piece, grid, fastest) >= 0;
  }

  // Windows that overlap. Vectors pay where they are whole accesses of the operand too: where its
  // windows do not slide along the vectors.
  void AddStrips(const Piece& piece, int lanes) {
    if (!HasStrips(piece)) return;
    const std::vector<int> grid = SplitChain(nest_, piece).grid;
    const int fastest = FastestLoop(piece, grid);
    const Expr extent = nest_.OpOf(SlidingLoop(nest_, piece, grid, fastest)).extent;
    if (Slides(nest_, piece, fastest)) lanes = 1;
    const int64_t total = Hint(nest_, CountOf(nest_, grid));
    const int64_t ops = OpsBelow(nest_, nest_.OpOf(piece.chain.back()).body);
    const int64_t steps = WindowSteps(nest_, piece);
    std::vector<int> strips;
    for (const int strip : {4, 7, 8, 5, 3, 2}) {
      if (exprs_.KnownMultipleOf(extent, strip) && steps * strip * ops <= kMostWindowOps) {
        strips.push_back(strip);
      }
    }
    int added = 0;
    for (size_t i = 0; i < strips.size() && added < 2; ++i) {
      const bool is_last = added == 0 && i + 1 == strips.size();
      const bool is_busy = total / (int64_t{strips[i]} * lanes) >= units_ * kWorkitemsPerUnit / 8;
      if (!is_busy && !is_last) continue;
      AddMap(piece, lanes, 1, strips[i]);
      ++added;
    }
  }

  void AddTransposes(const Piece& piece, const TransposePlan& plan) {
    int64_t shortest = std::min(Hint(nest_, nest_.OpOf(plan.read).extent),
                                Hint(nest_, nest_.OpOf(plan.write).extent));
    for (int side : {64, 32, 16}) {
      if (shortest < side || TileBytes(nest_, plan, side) > target_.gpu.workgroup_memory_bytes)
        continue;
      ScheduleRecord record;
      record.kind = ScheduleKind::kGpuTranspose;
      record.lanes = std::min(VectorLanes(nest_, piece), side / 8);
      record.side = side;
      record.workgroup =
          std::min({kWorkgroup, target_.gpu.max_workgroup_size, side * side / record.lanes});
      Add(record);
      if (side <= 32) break;
    }
  }

  // Parts of long loops, as many as keep the device busy where `blocks` workgroups do not:
  // `per_unit` workgroups, which should run at the same time, since a few that are left for the end
  // take as long as all of them.
  int64_t ChunkFor(int64_t blocks, int64_t longest, int64_t step, int64_t per_unit) const {
    int64_t parts = (units_ * per_unit + blocks - 1) / blocks;
    int64_t chunk = (longest / parts + step) / step * step;
    return blocks < units_ * 2 && chunk * 2 <= longest ? chunk : 0;
  }

  void AddTeam(int lanes, int unroll, int64_t team, bool columns, bool persistent, int fastest = -1,
               int64_t chunk = 0) {
    ScheduleRecord record;
    record.kind = ScheduleKind::kGpuTeam;
    record.lanes = lanes;
    record.unroll = unroll;
    record.team = static_cast<int32_t>(team);
    int64_t least = std::max(target_.gpu.subgroup_size, 1);
    int64_t size = columns ? kWorkgroup : std::max<int64_t>(team, kWorkgroup / 2);
    if (one_row_) size = team;
    size = std::min<int64_t>(std::max(size, least), target_.gpu.max_workgroup_size);
    record.workgroup = static_cast<int32_t>(size);
    if (one_row_) record.team = record.workgroup;
    record.columns = columns;
    record.persistent = persistent;
    record.chunk = chunk;
    if (fastest >= 0) record.vector_loops = {fastest};
    // Many sums of columns fit workgroup memory only with shorter vectors, or not at all.
    while (columns && !BuildGpuLoops(nest_.function, kernel_, record, target_).ok()) {
      if (record.lanes == 1) return;
      record.lanes /= 2;
    }
    Add(record);
  }

  void AddTeams(const Piece& piece) {
    one_row_ = ReadsItsStores(nest_, piece);
    std::vector<RowLoop> loops = RowLoops(nest_, piece);
    std::vector<int> grid = SplitChain(nest_, piece).grid;
    int64_t rows = Hint(nest_, CountOf(nest_, grid));
    int64_t longest = 1;
    bool all_known = true, reduces = false, vectors = true;
    int along_row = 0;
    for (const RowLoop& loop : loops) {
      longest = std::max(longest, Hint(nest_, loop.extent));
      all_known &= exprs_.AsConst(loop.extent).has_value();
      reduces |= loop.is_reduce;
      vectors &= nest_.CanVectorise(loop.inner);
      along_row = std::max(along_row, ContiguousAccesses(nest_, piece, loop.inner, loop.outer));
    }
    if (!reduces || longest < 8) return;
    is_long_ = longest > kLongRow && rows < units_ * kWorkitemsPerUnit;
    int fastest = FastestLoop(piece, grid);
    int along_chain = fastest >= 0 ? ContiguousAccesses(nest_, piece, fastest, loops[0].outer) : 0;
    int64_t wanted = units_ * kWorkitemsPerUnit;
    if (along_row > 0 || grid.empty())
      AddRows(piece, loops, rows, longest, all_known, vectors && along_row > 0, wanted);
    else if (along_chain > 0 && !one_row_)
      AddColumns(piece, grid, rows, longest, fastest, wanted);
  }

  void AddRows(const Piece& piece, const std::vector<RowLoop>& loops, int64_t rows, int64_t longest,
               bool all_known, bool vectors, int64_t wanted) {
    int lanes = vectors ? VectorLanes(nest_, piece) : 1;
    while (lanes > 1 && longest < lanes * 4) lanes /= 2;
    int64_t most = std::min<int64_t>(1024, target_.gpu.max_workgroup_size);
    // CUDA's compiler keeps twice as many of 16-bit elements in flight before registers run out.
    const bool is_narrow = target_.kind == TargetKind::kCuda && lanes == 8;
    int64_t team = std::min(Ceil2(longest / ((is_narrow ? 2 : 1) * kRowVectors * lanes)), most);
    // Few rows: larger teams.
    while (team < most && rows * team < wanted && team * lanes * 2 <= longest) team *= 2;
    auto fits = [&](int64_t size) {
      if (!all_known || size < 1 || size > most) return false;
      int64_t ops = 0;
      for (const RowLoop& loop : loops) {
        int64_t steps = (Hint(nest_, loop.extent) + size * lanes - 1) / (size * lanes);
        if (steps * lanes > kMaxRowElements) return false;
        ops += steps * OpsBelow(nest_, nest_.OpOf(loop.inner).body);
      }
      return ops <= kMaxWrittenOps;
    };
    if (MaySplit(nest_, piece)) {
      int64_t size = std::min<int64_t>(kWorkgroup, most);
      // NVIDIA's driver for Vulkan gives four vectors in flight so many registers that eight
      // workgroups do not run at the same time; with one vector each they do.
      const int ahead = target_.kind == TargetKind::kVulkan ? 1 : 4;
      if (int64_t chunk = ChunkFor(rows, longest, size * lanes * 4, 8))
        AddTeam(lanes, ahead, size, false, false, -1, chunk);
    }
    if (fits(team)) AddTeam(lanes, 1, team, false, true);
    if (fits(team / 2)) AddTeam(lanes, 1, team / 2, false, true);
    if (fits(team * 2) && team * 2 * lanes <= longest) AddTeam(lanes, 1, team * 2, false, true);
    int64_t looped = std::min<int64_t>(team, std::max<int64_t>(kWorkgroup, Ceil2(longest / 64)));
    AddTeam(lanes, longest / (looped * lanes) >= 8 ? 4 : 1, looped, false, false);
  }

  void AddColumns(const Piece& piece, const std::vector<int>& grid, int64_t rows, int64_t longest,
                  int fastest, int64_t wanted) {
    for (const AccessSite& site : nest_.accesses)
      if (nest_.function.buffers[nest_.kernel.ops[site.op].buffer].role == loop::BufferRole::kLocal)
        return;
    int lanes = MayVectorise(nest_, grid) ? VectorLanes(nest_, piece) : 1;
    while (lanes > 1 && rows < lanes * 8) lanes /= 2;
    if (MaySplit(nest_, piece)) {
      int64_t size = 8, width = int64_t{kWorkgroup} / size * lanes;
      if (int64_t chunk = ChunkFor((rows + width - 1) / width, longest, size * 4, 4))
        AddTeam(lanes, 4, size, true, false, fastest != grid.back() ? fastest : -1, chunk);
    }
    int64_t team = 1;
    while (team < 32 && rows / lanes * team < wanted && team * 4 <= longest) team *= 2;
    if (team == 1) return;
    AddTeam(lanes, longest / team >= 16 ? 4 : 1, team, true, false,
            fastest != grid.back() ? fastest : -1);
  }

  Nest nest_;
  uint32_t kernel_;
  ExprArena& exprs_;
  const Target& target_;
  int64_t units_ = 1;
  bool is_long_ = false;
  bool one_row_ = false;  // a workgroup must not hold several
  std::vector<ScheduleRecord> records_;
};

}  // namespace

Result<std::vector<ScheduleRecord>> EnumerateGpuLoops(const loop::Function& function,
                                                      uint32_t kernel, const Target& target) {
  std::vector<ScheduleRecord> records = Enumerator(function, kernel, target).Run();
  // A construct that no schedule covers shows when the plainest record is built.
  Result<ScheduledKernel> plain = BuildGpuLoops(function, kernel, records.back(), target);
  if (!plain.ok()) return plain.status();
  return records;
}

}  // namespace halyard::schedule
