// SPDX-License-Identifier: Apache-2.0
// Which contraction schedules to try, and in which order. The model counts cycles of one core at
// two fused multiply-adds a cycle with operands in L2; it ranks tiles, operand modes and
// orientations, nothing else.
#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/schedule/cpu/contraction.h"

namespace halyard::schedule {
namespace {

constexpr double kTaskCycles = 20000;
constexpr int64_t kTasksPerWorker = 4;

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
      shapes = {{6, 4}, {8, 3}, {14, 2}, {24, 1}};
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
      for (OperandMode mode : modes)
        Add(swap, shape, mode, pack_a, lanes, row_hint, row_factor, vec_factor, rows, vecs);
    }
  }

  void Add(bool swap, TileShape shape, OperandMode mode, bool pack_a, int lanes, int64_t row_hint,
           const Factor& row_factor, const Factor& vec_factor, const Side& rows, const Side& vecs) {
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
    record.kc = exprs_.AsConst(problem_.k.extent).value_or(0);
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
    double tile = per_k * static_cast<double>(k) + 15 + out * (1 + problem_.epilogue_weight * 0.7) +
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

    int64_t workers = std::max(1, target_.worker_count);
    double all = (cycles + pack_rows + pack_vecs) * static_cast<double>(batches);
    auto tasks = static_cast<int64_t>(all / kTaskCycles);
    tasks = std::clamp<int64_t>(tasks, 1, workers * kTasksPerWorker);
    int64_t need = (tasks + batches - 1) / batches, row_tasks = 1, vec_tasks = 1;
    if (workers == 1) need = 1;
    bool rows_first =
        pack_a || (mode != OperandMode::kPacked && vec_panels < need && row_panels >= need);
    if (rows_first) {
      row_tasks = std::min(need, row_panels);
      vec_tasks = std::min((need + row_tasks - 1) / row_tasks, vec_panels);
    } else {
      vec_tasks = std::min(need, vec_panels);
      row_tasks = std::min((need + vec_tasks - 1) / vec_tasks, row_panels);
    }
    int64_t row_per_task = (row_panels + row_tasks - 1) / row_tasks;
    int64_t vec_per_task = (vec_panels + vec_tasks - 1) / vec_tasks;
    // Sizes that are not known yet: tasks just large enough, however many there will be.
    if (workers > 1 && !exprs_.AsConst(rows.extent)) {
      double task = tile * static_cast<double>(vec_per_task);
      row_per_task =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / task), 1, row_per_task);
    }
    if (workers > 1 && !exprs_.AsConst(vecs.extent)) {
      double task = tile * static_cast<double>(row_per_task);
      vec_per_task =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / task), 1, vec_per_task);
    }
    if (pack_a) {
      int64_t row_bytes = std::max<int64_t>(1, k * shape.mr * BitWidth(problem_.dtype) / 8);
      row_per_task = std::clamp<int64_t>(target_.l2_bytes / 2 / row_bytes, 1, row_per_task);
      row_tasks = (row_panels + row_per_task - 1) / row_per_task;
    }
    record.mc = row_per_task * shape.mr;
    record.nc = vec_per_task * width;
    record.grain = std::max<int64_t>(1, batches / std::max<int64_t>(1, tasks));
    if (need > 1) record.grain = 1;
    if (!exprs_.AsConst(problem_.batch.extent) && need <= 1) {
      double one = cycles + pack_rows + pack_vecs;
      record.grain =
          std::clamp<int64_t>(static_cast<int64_t>(2 * kTaskCycles / std::max(1.0, one)), 1, 1024);
    }
    cycles +=
        pack_rows * static_cast<double>(vec_tasks) + pack_vecs * static_cast<double>(row_tasks);
    cycles *= static_cast<double>(batches);
    for (const auto& [other, cost] : ranked_)
      if (other == record) return;
    ranked_.emplace_back(std::move(record), cycles);
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
