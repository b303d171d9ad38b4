// SPDX-License-Identifier: Apache-2.0
// Which contraction schedules to try, and in which order. The model counts cycles of one core at
// two fused multiply-adds a cycle with operands in L2; it ranks tiles, operand modes and
// orientations, nothing else.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "compiler/schedule/cpu/contraction.h"
#include "compiler/schedule/cpu/tasks.h"

namespace halyard::schedule {
namespace {

constexpr double kTaskCycles = 20000;
constexpr double kTaskOverhead = 300;      // cycles: the claim, the call, cold address arithmetic
constexpr double kWakeCycles = 600;        // for each worker that takes part in a stage
constexpr double kLateShare = 0.3;         // of a task, that the others wait for the last worker
constexpr double kFarBytesPerCycle = 20;   // from L3; half of it hides behind arithmetic
constexpr double kNearBytesPerCycle = 32;  // from L2, of sums that wait for the next block of k
// Blocks of k: long enough that what a tile costs beside its steps is little, short enough that a
// vector panel nearly fits L1 and many rows fit L2.
constexpr int64_t kLeastBlock = 192, kMostBlock = 640;

struct TileShape {
  int32_t mr, nv;
};

class Ranker {
 public:
  Ranker(const loop::Function& function, const loop::Kernel& kernel, const Problem& problem,
         const Target& target)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        problem_(problem),
        target_(target) {}

  std::vector<std::pair<ScheduleRecord, double>> Rank() {
    for (bool swap : {false, true}) Try(swap);
    std::stable_sort(ranked_.begin(), ranked_.end(),
                     [](const auto& x, const auto& y) { return x.second < y.second; });
    return std::move(ranked_);
  }

 private:
  // Cycles to evaluate a factor for one vector of consecutive values of `flat`.
  double SliceCost(const Factor& factor, Expr flat, int lanes) const {
    double cost = 1;
    for (loop::OpId id : factor.ops) {
      const loop::Op& op = kernel_.ops[id];
      if (op.kind == loop::OpKind::kScalar) cost += 1;
      if (op.kind == loop::OpKind::kIndirect) cost += 6;
      if (op.kind != loop::OpKind::kLoad) continue;
      Expr index = FlatIndex(exprs_, problem_, op.index);
      std::optional<Expr> stride = exprs_.StrideOf(index, flat);
      double gather = 1.3 * lanes;
      if (!stride) {
        gather += 8;
        Expr q = exprs_.Loop("q", exprs_.Const(int64_t{1} << 20));
        Expr l = exprs_.Loop("l", exprs_.Const(lanes));
        std::pair<Expr, Expr> split(flat, exprs_.Add(exprs_.Mul(q, exprs_.Const(lanes)), l));
        stride = exprs_.StrideOf(exprs_.Substitute(index, {&split, 1}), l);
      }
      bool smooth = stride && (exprs_.IsConst(*stride, 0) || exprs_.IsConst(*stride, 1));
      cost += smooth ? 1 : gather;
    }
    return cost;
  }

  void Try(bool swap) {
    const Side& rows = swap ? problem_.n : problem_.m;
    const Side& vecs = swap ? problem_.m : problem_.n;
    const Factor& row_factor = swap ? problem_.b : problem_.a;
    const Factor& vec_factor = swap ? problem_.a : problem_.b;
    if (vecs.digits.empty() || exprs_.IsConst(vecs.extent, 1)) return;
    std::optional<int64_t> k_const = exprs_.AsConst(problem_.k.extent);
    bool linear_row = row_factor.load != loop::kNone && row_factor.k_stride.has_value();
    bool pack_a = !linear_row && k_const.has_value();
    std::vector<OperandMode> modes;
    bool contiguous = vec_factor.own_stride && exprs_.IsConst(*vec_factor.own_stride, 1);
    if (PackingOf(function_, kernel_, problem_, swap, 16)) {
      modes = {OperandMode::kPackedConstant};
    } else if (contiguous && vec_factor.k_stride) {
      modes = {OperandMode::kInPlace};
      if (k_const) modes.push_back(OperandMode::kPacked);
    } else {
      modes = {k_const ? OperandMode::kPacked : OperandMode::kInPlace};
    }
    int lanes = std::max(1, target_.vector_bytes / std::max(1, BitWidth(problem_.dtype) / 8));
    std::optional<int64_t> vec_const = exprs_.AsConst(vecs.extent);
    if (vec_const && *vec_const > 0)
      lanes = static_cast<int>(std::min<uint64_t>(
          static_cast<uint64_t>(lanes), std::bit_ceil(static_cast<uint64_t>(*vec_const))));
    std::vector<TileShape> shapes;
    if (target_.vector_registers >= 32)
      shapes = {{6, 4}, {8, 3}, {13, 2}, {24, 1}};
    else
      shapes = {{6, 2}, {4, 3}, {12, 1}};
    int64_t row_hint = std::max<int64_t>(1, exprs_.HintOf(rows.extent));
    int64_t vec_vectors = std::max<int64_t>(1, (exprs_.HintOf(vecs.extent) + lanes - 1) / lanes);
    std::optional<int64_t> row_const = exprs_.AsConst(rows.extent);
    if (row_const && *row_const <= 3) {
      // Few rows: wide tiles, so that enough sums run side by side.
      int32_t most = target_.vector_registers >= 32 ? 8 : 4;
      shapes.push_back({static_cast<int32_t>(std::max<int64_t>(1, *row_const)), most});
    }
    for (TileShape shape : shapes) {
      if (row_const)
        shape.mr =
            static_cast<int32_t>(std::min<int64_t>(shape.mr, std::max<int64_t>(1, *row_const)));
      shape.nv = static_cast<int32_t>(std::min<int64_t>(shape.nv, vec_vectors));
      for (OperandMode mode : modes) {
        Add(swap, shape, mode, pack_a, lanes, row_hint, row_factor, vec_factor, rows, vecs, 0);
        const int64_t block = row_const && vec_const ? BlockOf(k_const.value_or(0), lanes) : 0;
        if (block > 0)
          Add(swap, shape, mode, pack_a, lanes, row_hint, row_factor, vec_factor, rows, vecs,
              block);
      }
    }
  }

  // A divisor of k in whole vectors and whole runs of a window; 0: none, or k is short.
  int64_t BlockOf(int64_t k, int lanes) const {
    int64_t unit = std::max(lanes, 8);
    if (problem_.k.digits.size() > 1) {
      const int64_t run = exprs_.AsConst(problem_.k.digits.back().second).value_or(0);
      if (run < 1) return 0;
      unit = std::lcm(unit, run);
    }
    int64_t best = 0;
    for (int64_t parts = 2; k % unit == 0 && k / parts >= kLeastBlock; ++parts) {
      const int64_t block = k / parts;
      if (k % parts == 0 && block % unit == 0 && block <= kMostBlock) best = std::max(best, block);
    }
    return best;
  }

  void Add(bool swap, TileShape shape, OperandMode mode, bool pack_a, int lanes, int64_t row_hint,
           const Factor& row_factor, const Factor& vec_factor, const Side& rows, const Side& vecs,
           int64_t block) {
    ScheduleRecord record;
    record.kind = ScheduleKind::kContraction;
    record.swap = swap;
    record.lanes = lanes;
    record.mr = shape.mr;
    record.nv = shape.nv;
    record.unroll = shape.mr * shape.nv <= 8 ? 8 : 4;
    record.b = mode;
    record.pack_a = pack_a;
    int64_t k = std::max<int64_t>(1, exprs_.HintOf(problem_.k.extent));
    record.kc = block > 0 ? block : exprs_.AsConst(problem_.k.extent).value_or(0);
    const int64_t blocks = block > 0 ? k / block : 1;
    int64_t width = int64_t{shape.nv} * lanes;
    int64_t vec_hint = std::max<int64_t>(1, exprs_.HintOf(vecs.extent));
    int64_t row_panels = (row_hint + shape.mr - 1) / shape.mr;
    int64_t vec_panels = (vec_hint + width - 1) / width;
    // A batch of unknown size may be one.
    int64_t batches = std::max<int64_t>(1, exprs_.AsConst(problem_.batch.extent).value_or(1));
    auto h = static_cast<double>(shape.mr), nv = static_cast<double>(shape.nv);
    if (exprs_.AsConst(rows.extent))
      h = static_cast<double>(row_hint) / static_cast<double>(row_panels);
    double bytes = static_cast<double>(lanes * BitWidth(problem_.dtype)) / 8;
    double per_k = std::max({h * nv * 0.5, (h + nv) * 0.5, 4.0 / 1.0, nv * bytes / 40});
    double out = nv * h;
    const std::optional<Expr>& stride = swap ? problem_.out_stride_m : problem_.out_stride_n;
    bool smooth_out = stride && exprs_.IsConst(*stride, 1);
    double tile = per_k * static_cast<double>(k) + 15 * static_cast<double>(blocks) +
                  out * (1 + problem_.epilogue_weight * 0.7) +
                  (smooth_out ? out : out * 1.6 * lanes);
    // The last panel has only the vectors it needs.
    double vec_units = static_cast<double>((vec_hint + lanes - 1) / lanes) / nv;
    if (!exprs_.AsConst(vecs.extent)) vec_units = static_cast<double>(vec_panels);
    double cycles = tile * static_cast<double>(row_panels) * vec_units;
    double pack_rows = 0, pack_vecs = 0;
    if (pack_a)
      pack_rows = static_cast<double>(row_hint) * std::ceil(static_cast<double>(k) / lanes) *
                  SliceCost(row_factor, problem_.k.flat, lanes);
    if (mode == OperandMode::kPacked)
      pack_vecs = static_cast<double>(k) * vec_units * nv * SliceCost(vec_factor, vecs.flat, lanes);
    if (mode == OperandMode::kInPlace &&
        !(vec_factor.load != loop::kNone && vec_factor.own_stride &&
          exprs_.IsConst(*vec_factor.own_stride, 1)))
      cycles += static_cast<double>(k * row_panels) * vec_units * nv *
                SliceCost(vec_factor, vecs.flat, lanes);
    // Rows far apart in memory: more cache lines and pages per step.
    if (!pack_a && !(row_factor.k_stride &&
                     (exprs_.IsConst(*row_factor.k_stride, 1) ||
                      (row_factor.own_stride && exprs_.IsConst(*row_factor.own_stride, 1)))))
      cycles *= 1.3;
    if (mode == OperandMode::kInPlace && vec_hint * k > 64 * 1024) cycles *= 1.15;

    TaskCost cost;
    cost.tile = tile;
    cost.row_panels = row_panels;
    cost.vec_panels = vec_panels;
    cost.pack_row_panel = pack_rows / static_cast<double>(row_panels);
    cost.pack_vec_panel = pack_vecs / static_cast<double>(vec_panels);
    const int64_t element = BitWidth(problem_.dtype) / 8;
    cost.row_panel_bytes = std::max<int64_t>(1, k / blocks * shape.mr * element);
    cost.vec_panel_bytes = std::max<int64_t>(1, k / blocks * width * element);
    cost.tile_bytes = width * shape.mr * element;
    cost.blocks = blocks;
    cost.packs_rows = pack_a;
    const double one = cycles + pack_rows + pack_vecs;  // batch
    const int64_t workers = std::max(1, target_.worker_count);
    // Either tasks of whole batches, or parts of one.
    const auto tasks =
        std::clamp<int64_t>(static_cast<int64_t>(one * static_cast<double>(batches) / kTaskCycles),
                            1, workers * kTasksPerWorker);
    TaskSize size{row_panels, vec_panels};
    record.grain = std::max<int64_t>(1, batches / tasks);
    if (batches < tasks || blocks > 1 ||
        (pack_a && row_panels * cost.row_panel_bytes > target_.l2_bytes / 2))
      size = SizeTasks(cost, batches);
    // Sizes that are not known yet: tasks just large enough, however many there will be.
    if (workers > 1 && !exprs_.AsConst(rows.extent)) {
      double task = tile * static_cast<double>(size.vec_panels);
      size.row_panels =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / task), 1, size.row_panels);
    }
    if (workers > 1 && !exprs_.AsConst(vecs.extent)) {
      double task = tile * static_cast<double>(size.row_panels);
      size.vec_panels =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / task), 1, size.vec_panels);
    }
    record.mc = size.row_panels * shape.mr;
    record.nc = size.vec_panels * width;
    if (!exprs_.AsConst(problem_.batch.extent) && size.row_panels == row_panels &&
        size.vec_panels == vec_panels)
      record.grain =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / std::max(1.0, one)), 1, 1024);
    const int64_t row_tasks = (row_panels + size.row_panels - 1) / size.row_panels;
    const int64_t vec_tasks = (vec_panels + size.vec_panels - 1) / size.vec_panels;
    cycles += pack_rows * static_cast<double>(vec_tasks) +
              pack_vecs * static_cast<double>(row_tasks) +
              TrafficCycles(cost, size) * static_cast<double>(row_tasks * vec_tasks);
    cycles *= static_cast<double>(batches);
    for (const auto& [other, cost] : ranked_)
      if (other == record) return;
    ranked_.emplace_back(std::move(record), cycles);
  }

  // What one task costs, in panels of the operands.
  struct TaskCost {
    double tile = 0;  // cycles
    int64_t row_panels = 1, vec_panels = 1;
    double pack_row_panel = 0, pack_vec_panel = 0;     // cycles
    int64_t row_panel_bytes = 1, vec_panel_bytes = 1;  // of one block of k
    int64_t tile_bytes = 1;                            // of sums
    int64_t blocks = 1;                                // of k
    bool packs_rows = false;
  };
  struct TaskSize {
    int64_t row_panels = 1, vec_panels = 1;
  };

  // What a task waits for operands from beyond L2. Vector panels are the outer loop: where the rows
  // of the task do not stay in L2 beside one panel, each panel brings them again.
  double TrafficCycles(const TaskCost& cost, TaskSize size) const {
    if (cost.blocks > 1) {
      const int64_t rows = size.row_panels * cost.row_panel_bytes;
      const int64_t sums = size.row_panels * size.vec_panels * cost.tile_bytes;
      const auto blocks = static_cast<double>(cost.blocks);
      const bool is_near = rows + sums + cost.vec_panel_bytes < target_.l2_bytes * 3 / 4;
      const double far = static_cast<double>(size.vec_panels * cost.vec_panel_bytes + rows);
      return far * blocks / kFarBytesPerCycle +
             2 * static_cast<double>(sums) * (blocks - 1) /
                 (is_near ? kNearBytesPerCycle : kFarBytesPerCycle / 4);
    }
    double rows = static_cast<double>(size.row_panels * cost.row_panel_bytes);
    const auto panel = static_cast<double>(cost.vec_panel_bytes);
    const double l2 = 0.75 * static_cast<double>(target_.l2_bytes);
    double bytes = panel * static_cast<double>(size.vec_panels);
    if (rows + panel > l2) {
      rows *= static_cast<double>(size.vec_panels);
      if (panel > l2) bytes *= static_cast<double>(size.row_panels);
    }
    if (cost.packs_rows) rows = 0;  // counted with the packing
    // Few panels stay in L2 from one task of a worker to its next.
    const int64_t row_tasks = (cost.row_panels + size.row_panels - 1) / size.row_panels;
    if (bytes < l2 / 2 && row_tasks > target_.worker_count)
      bytes *= static_cast<double>(target_.worker_count) / static_cast<double>(row_tasks);
    return (bytes + rows) / kFarBytesPerCycle;
  }

  // The task size whose last worker ends first. Small tasks balance, large ones pack and fetch
  // less.
  TaskSize SizeTasks(const TaskCost& cost, int64_t batches) const {
    const auto workers = std::max(1, target_.worker_count);
    auto sizes = [](int64_t panels) {
      std::vector<int64_t> list;
      for (int64_t parts = 1;; parts += std::max<int64_t>(1, parts / 8)) {
        const int64_t size = (panels + parts - 1) / parts;
        if (list.empty() || list.back() != size) list.push_back(size);
        if (size == 1) return list;
      }
    };
    TaskSize best{cost.row_panels, cost.vec_panels};
    double best_time = 0;
    for (int64_t vec_panels : sizes(cost.vec_panels)) {
      for (int64_t row_panels : sizes(cost.row_panels)) {
        if (cost.packs_rows && row_panels > 1 &&
            row_panels * cost.row_panel_bytes > target_.l2_bytes / 2)
          continue;
        const TaskSize size{row_panels, vec_panels};
        const double task = cost.tile * static_cast<double>(row_panels * vec_panels) +
                            cost.pack_row_panel * static_cast<double>(row_panels) +
                            cost.pack_vec_panel * static_cast<double>(vec_panels) +
                            TrafficCycles(cost, size) + kTaskOverhead;
        const int64_t row_tasks = (cost.row_panels + row_panels - 1) / row_panels;
        const int64_t vec_tasks = (cost.vec_panels + vec_panels - 1) / vec_panels;
        const int64_t tasks = row_tasks * vec_tasks * batches;
        // Beyond one round for each worker, others take over from a worker that is late.
        const int64_t rounds = (tasks + workers - 1) / workers;
        double time = task * static_cast<double>(rounds);
        if (workers > 1)
          time += kLateShare * task +
                  kWakeCycles * static_cast<double>(std::min<int64_t>(tasks, workers));
        if (best_time == 0 || time < best_time) {
          best_time = time;
          best = size;
        }
      }
    }
    return best;
  }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const Problem& problem_;
  const Target& target_;
  std::vector<std::pair<ScheduleRecord, double>> ranked_;
};

}  // namespace

std::vector<std::pair<ScheduleRecord, double>> RankContraction(const loop::Function& function,
                                                               const loop::Kernel& kernel,
                                                               const Problem& problem,
                                                               const Target& target) {
  return Ranker(function, kernel, problem, target).Rank();
}

}  // namespace halyard::schedule
