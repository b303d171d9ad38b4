// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/gemv.h"

#include <algorithm>

#include "compiler/schedule/common/emitter.h"
#include "compiler/schedule/common/pieces.h"
#include "compiler/schedule/common/writer.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/contraction_sum.h"
#include "compiler/schedule/gpu/grid.h"

namespace halyard::schedule {

using kernel::kNone;
using kernel::Opcode;
using kernel::Type;
using V = kernel::ValueId;

namespace {

constexpr int64_t kGemvWorkitems = 256;

class GemvBuilder {
 public:
  GemvBuilder(const loop::Function& function, const loop::Kernel& kernel,
              const ScheduleRecord& record, const Target& target, Problem problem)
      : function_(function),
        kernel_(kernel),
        exprs_(*function.exprs),
        record_(record),
        tile_(record.tile),
        target_(target),
        problem_(std::move(problem)),
        writer_(KernelName(kernel.name, ""), IndexDType(function, kernel)),
        emitter_(function, kernel, writer_, GpuEmitterOptions()),
        few_(record.swap ? problem_.n : problem_.m),
        long_(record.swap ? problem_.m : problem_.n),
        few_factor_(record.swap ? problem_.b : problem_.a),
        long_factor_(record.swap ? problem_.a : problem_.b) {}

  Result<ScheduledKernel> Build();

 private:
  Status Bad(std::string_view why) const {
    return InvalidArgument("Schedule '{}' does not fit kernel '{}': {}.", FormatSchedule(record_),
                           kernel_.name, why);
  }
  Status CheckRecord();
  Status SumOverK();
  // Adds the products at the workitem's part of step `step`; `checks`: the step may pass the end of
  // k.
  Status Step(V step, bool checks, std::vector<V>& sums);
  Status StoreShuffled();
  Status StoreSliced();
  Status StoreOne(V few, V place, V sum, int lanes);
  V Sum(V a, V b) { return writer_.Pure(Opcode::kAdd, writer_.TypeOf(a), {a, b}); }

  const loop::Function& function_;
  const loop::Kernel& kernel_;
  ExprArena& exprs_;
  const ScheduleRecord& record_;
  const GpuTile& tile_;
  const Target& target_;
  Problem problem_;
  Writer writer_;
  Emitter emitter_;
  const Side &few_, &long_;
  const Factor &few_factor_, &long_factor_;

  OperandAccess access_;
  int lanes_ = 1;
  int64_t few_count_ = 1;
  int64_t rows_ = 1;  // sums of a workitem for each place of the few side: long places, or
                      // vectors of them
  int64_t workitems_ = 0;
  V k_lane_ = kNone;       // which of the workitems that share k
  V group_ = kNone;        // which of the groups (along k) or vectors of places (along the side)
  V long_first_ = kNone;   // of the workgroup
  std::vector<V> places_;  // of the long side, per row
  Expr few_symbol_, long_symbol_, k_symbol_;
  std::vector<V> sums_;  // few-major
};

Status GemvBuilder::CheckRecord() {
  const auto is_power = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
  if (!is_power(tile_.n) || !is_power(tile_.item_n) || !is_power(tile_.k) ||
      tile_.n % tile_.item_n != 0 || tile_.item_n > 64) {
    return Bad("bad tile");
  }
  if (record_.unroll < 1 || record_.unroll > 16) return Bad("bad unroll");
  const std::optional<int64_t> few = exprs_.AsConst(few_.extent);
  if (!few || *few < 1 || *few > kFewRows) return Bad("no side of the contraction is short");
  few_count_ = *few;
  if (long_.digits.empty()) return Bad("nothing runs along the long side");
  access_ = AccessOf(function_, kernel_, problem_, long_factor_, long_);
  lanes_ = access_.lanes;
  if (!access_.along_k && tile_.item_n != lanes_) return Bad("a workitem has one vector of places");
  rows_ = access_.along_k ? tile_.item_n : 1;
  if (access_.along_k && tile_.k > target_.gpu.subgroup_size) {
    return Bad("more workitems share k than a subgroup has");
  }
  workitems_ = tile_.k * (tile_.n / tile_.item_n);
  if (workitems_ > target_.gpu.max_workgroup_size) return Bad("too many workitems");
  // A subgroup that shuffles must be whole.
  if (access_.along_k && workitems_ % target_.gpu.subgroup_size != 0) {
    return Bad("the workgroup is no multiple of the subgroup");
  }
  return OkStatus();
}

Status GemvBuilder::Step(V step, bool checks, std::vector<V>& sums) {
  const int64_t k_lanes = access_.along_k ? lanes_ : 1;
  V k = writer_.Add(writer_.Mul(step, writer_.Index(tile_.k * k_lanes)),
                    writer_.Mul(k_lane_, writer_.Index(k_lanes)));
  V is_there = kNone;
  if (checks) {
    const V total = emitter_.Evaluate(problem_.k.extent);
    is_there = writer_.Compare(Opcode::kLt, k, total);
    k = writer_.Min(k, writer_.Sub(total, writer_.Index(k_lanes)));
  }
  const auto evaluate = [&](const Factor& factor, V place) -> Result<V> {
    const bool is_vector = access_.along_k || &factor == &long_factor_;
    if (access_.along_k) {
      emitter_.BeginVector(k_symbol_, k, lanes_, kNone);
      emitter_.Bind(long_symbol_, place);
    } else {
      emitter_.Bind(k_symbol_, k);
      if (is_vector) {
        emitter_.BeginVector(long_symbol_, place, lanes_, kNone);
      }
    }
    for (loop::OpId op : factor.ops) HY_TRY(emitter_.EmitOp(op));
    emitter_.EndVector();
    V value = writer_.Splat(emitter_.ValueOf(factor.value), is_vector ? lanes_ : 1);
    if (is_there != kNone) {
      const V zero = writer_.Const(problem_.dtype, 0, writer_.LanesOf(value));
      value = writer_.Pure(Opcode::kSelect, writer_.TypeOf(value), {is_there, value, zero});
    }
    return writer_.Splat(value, lanes_);
  };
  std::vector<V> weights;
  for (int64_t r = 0; r < rows_; ++r) {
    HY_ASSIGN(V weight, evaluate(long_factor_, places_[static_cast<size_t>(r)]));
    weights.push_back(weight);
  }
  for (int64_t f = 0; f < few_count_; ++f) {
    emitter_.Shift(few_.flat, few_symbol_, f);
    HY_ASSIGN(const V x, evaluate(few_factor_, places_[0]));
    for (int64_t r = 0; r < rows_; ++r) {
      V& sum = sums[static_cast<size_t>(f * rows_ + r)];
      const V weight = weights[static_cast<size_t>(r)];
      const Type type = writer_.TypeOf(sum);
      sum = IsFloat(problem_.dtype) ? writer_.Pure(Opcode::kFma, type, {weight, x, sum})
                                    : Sum(sum, writer_.Pure(Opcode::kMul, type, {weight, x}));
    }
  }
  return OkStatus();
}

Status GemvBuilder::SumOverK() {
  sums_.assign(static_cast<size_t>(few_count_ * rows_), writer_.Const(problem_.dtype, 0, lanes_));
  const int64_t depth = tile_.k * (access_.along_k ? lanes_ : 1);
  const Expr steps = exprs_.CeilDiv(problem_.k.extent, exprs_.Const(depth));
  const Expr main =
      exprs_.Mul(exprs_.FloorDiv(problem_.k.extent, exprs_.Const(depth * record_.unroll)),
                 exprs_.Const(record_.unroll));
  if (!exprs_.IsConst(main, 0)) {
    const Writer::Loop loop =
        writer_.BeginFor(writer_.Index(0), emitter_.Evaluate(main), writer_.Index(record_.unroll),
                         sums_, exprs_.RangeOf(main).lo > 0);
    std::vector<V> sums = loop.carried;
    for (int64_t u = 0; u < record_.unroll; ++u) {
      HY_TRY(Step(writer_.Add(loop.variable, writer_.Index(u)), false, sums));
    }
    sums_ = writer_.EndFor(sums);
  }
  if (exprs_.KnownEqual(main, steps)) return OkStatus();
  const Writer::Loop rest = writer_.BeginFor(emitter_.Evaluate(main), emitter_.Evaluate(steps),
                                             writer_.Index(1), sums_, false);
  std::vector<V> sums = rest.carried;
  HY_TRY(Step(rest.variable, !exprs_.KnownMultipleOf(problem_.k.extent, depth), sums));
  sums_ = writer_.EndFor(sums);
  return OkStatus();
}

Status GemvBuilder::StoreOne(V few, V place, V sum, int lanes) {
  V is_there = kNone;
  if (!exprs_.KnownMultipleOf(long_.extent, tile_.n)) {
    is_there = writer_.Compare(Opcode::kLt, place, emitter_.Evaluate(long_.extent));
    writer_.BeginIf(is_there);
  }
  emitter_.Bind(few_symbol_, few);
  emitter_.Shift(few_.flat, few_symbol_, 0);
  emitter_.BeginVector(long_symbol_, place, lanes, kNone);
  emitter_.SetValue(problem_.accumulator, sum);
  for (loop::OpId op : problem_.epilogue) HY_TRY(emitter_.EmitOp(op));
  emitter_.EndVector();
  if (is_there != kNone) writer_.EndIf({});
  return OkStatus();
}

// Every workitem of a group ends up with every sum of the group and stores its own share of them.
Status GemvBuilder::StoreShuffled() {
  std::vector<V> sums;
  for (V sum : sums_) {
    V one = lanes_ == 1 ? sum : writer_.Pure(Opcode::kReduceAdd, Type{problem_.dtype, 1}, {sum});
    for (int64_t mask = tile_.k / 2; mask > 0; mask /= 2) {
      one = Sum(one, writer_.ShuffleXor(one, static_cast<int>(mask)));
    }
    sums.push_back(one);
  }
  const V group_first = writer_.Add(long_first_, writer_.Mul(group_, writer_.Index(rows_)));
  const auto count = static_cast<int64_t>(sums.size());
  for (int64_t first = 0; first < count; first += tile_.k) {
    const int64_t last = std::min(count, first + tile_.k);
    V own = sums[static_cast<size_t>(first)];
    for (int64_t i = first + 1; i < last; ++i) {
      const V is_own = writer_.Compare(Opcode::kEq, k_lane_, writer_.Index(i - first));
      own = writer_.Select(is_own, sums[static_cast<size_t>(i)], own);
    }
    const V number = writer_.Add(k_lane_, writer_.Index(first));
    const bool is_all = last - first == tile_.k;
    if (!is_all) writer_.BeginIf(writer_.Compare(Opcode::kLt, number, writer_.Index(last)));
    const V few = writer_.FloorDiv(number, writer_.Index(rows_), true);
    const V place = writer_.Add(group_first, writer_.FloorMod(number, writer_.Index(rows_), true));
    HY_TRY(StoreOne(few, place, own, 1));
    if (!is_all) writer_.EndIf({});
  }
  return OkStatus();
}

// partial[slice of k][place of the few side][place of the long side]
Status GemvBuilder::StoreSliced() {
  const kernel::BufferId partial =
      writer_.AddAllocation("partial", problem_.dtype, tile_.k * few_count_ * tile_.n);
  const V column = writer_.Mul(group_, writer_.Index(lanes_));
  for (int64_t f = 0; f < few_count_; ++f) {
    V at = writer_.Add(writer_.Mul(k_lane_, writer_.Index(few_count_)), writer_.Index(f));
    at = writer_.Add(writer_.Mul(at, writer_.Index(tile_.n)), column);
    writer_.Store(partial, at, sums_[static_cast<size_t>(f)], kNone, lanes_);
  }
  writer_.Barrier();
  const int64_t vectors = few_count_ * (tile_.n / lanes_);
  for (int64_t first = 0; first < vectors; first += workitems_) {
    const V number = writer_.Add(writer_.WorkitemId(0), writer_.Index(first));
    const bool is_all = first + workitems_ <= vectors;
    if (!is_all) writer_.BeginIf(writer_.Compare(Opcode::kLt, number, writer_.Index(vectors)));
    const V own = writer_.Mul(number, writer_.Index(lanes_));
    V sum = kNone;
    for (int64_t slice = 0; slice < tile_.k; ++slice) {
      const V at = writer_.Add(own, writer_.Index(slice * few_count_ * tile_.n));
      const V part = writer_.Load(partial, at, lanes_, false, lanes_);
      sum = sum == kNone ? part : Sum(sum, part);
    }
    const V few = writer_.FloorDiv(own, writer_.Index(tile_.n), true);
    const V place = writer_.Add(long_first_, writer_.FloorMod(own, writer_.Index(tile_.n), true));
    HY_TRY(StoreOne(few, place, sum, lanes_));
    if (!is_all) writer_.EndIf({});
  }
  return OkStatus();
}

Result<ScheduledKernel> GemvBuilder::Build() {
  HY_TRY(CheckRecord());
  writer_.SetWorkgroup(workitems_, access_.along_k ? target_.gpu.subgroup_size : 0);
  for (const Side* side : {&problem_.batch, &problem_.m, &problem_.n, &problem_.k}) {
    if (side->digits.size() > 1) emitter_.Flatten(side->flat, side->digits);
  }
  few_symbol_ = exprs_.Loop("few", few_.extent);
  long_symbol_ = exprs_.Loop("place", long_.extent);
  k_symbol_ = exprs_.Loop("step", problem_.k.extent);
  Dispatch dispatch;
  dispatch.grid[0] = exprs_.CeilDiv(long_.extent, exprs_.Const(tile_.n));
  dispatch.grid[1] = exprs_.Const(1);
  dispatch.grid[2] = problem_.batch.extent;
  for (int axis = 0; axis < 3; ++axis) {
    if (exprs_.AsConst(dispatch.grid[axis]).value_or(0) > target_.gpu.max_grid[axis]) {
      return Bad("its grid is too large for the target");
    }
  }
  if (!problem_.batch.digits.empty()) {
    emitter_.Bind(problem_.batch.flat, writer_.WorkgroupId(2));
  }
  long_first_ = writer_.Mul(writer_.WorkgroupId(0), writer_.Index(tile_.n));
  const V id = writer_.WorkitemId(0);
  if (access_.along_k) {
    k_lane_ = writer_.FloorMod(id, writer_.Index(tile_.k), true);
    group_ = writer_.FloorDiv(id, writer_.Index(tile_.k), true);
  } else {
    const V vectors = writer_.Index(tile_.n / lanes_);
    k_lane_ = writer_.FloorDiv(id, vectors, true);
    group_ = writer_.FloorMod(id, vectors, true);
  }
  // Places beyond the end repeat the last one and are not stored.
  const V first = writer_.Add(long_first_, writer_.Mul(group_, writer_.Index(tile_.item_n)));
  for (int64_t r = 0; r < rows_; ++r) {
    V place = writer_.Add(first, writer_.Index(r));
    if (!exprs_.KnownMultipleOf(long_.extent, tile_.n)) {
      const int64_t last = access_.along_k ? 1 : lanes_;
      place = writer_.Min(place, writer_.Sub(emitter_.Evaluate(long_.extent), writer_.Index(last)));
    }
    places_.push_back(place);
  }
  emitter_.Bind(few_symbol_, writer_.Index(0));
  emitter_.Shift(few_.flat, few_symbol_, 0);
  emitter_.Shift(long_.flat, long_symbol_, 0);
  emitter_.Shift(problem_.k.flat, k_symbol_, 0);
  HY_TRY(SumOverK());
  HY_TRY(access_.along_k ? StoreShuffled() : StoreSliced());
  ScheduledKernel scheduled;
  scheduled.record = record_;
  dispatch.bindings = emitter_.bindings;
  dispatch.scalars = emitter_.scalars;
  scheduled.kernels.push_back(writer_.Finish());
  scheduled.dispatches.push_back(std::move(dispatch));
  const int64_t memory =
      access_.along_k ? 0 : tile_.k * few_count_ * tile_.n * BitWidth(problem_.dtype) / 8;
  if (memory > target_.gpu.workgroup_memory_bytes) return Bad("too much workgroup memory");
  return scheduled;
}

}  // namespace

std::vector<std::pair<ScheduleRecord, double>> RankGemv(const loop::Function& function,
                                                        const loop::Kernel& kernel,
                                                        const Problem& problem,
                                                        const Target& target) {
  ExprArena& exprs = *function.exprs;
  std::vector<std::pair<ScheduleRecord, double>> ranked;
  const std::optional<int64_t> m = exprs.AsConst(problem.m.extent);
  const std::optional<int64_t> n = exprs.AsConst(problem.n.extent);
  const bool swap = n && *n <= kFewRows && !(m && *m <= *n);
  const std::optional<int64_t> few = swap ? n : m;
  if (!few || *few < 1 || *few > kFewRows) return ranked;
  const Side& side = swap ? problem.m : problem.n;
  const OperandAccess access =
      AccessOf(function, kernel, problem, swap ? problem.a : problem.b, side);
  const int64_t places = std::max<int64_t>(1, exprs.HintOf(side.extent));
  const int64_t batches = std::max<int64_t>(1, exprs.HintOf(problem.batch.extent));
  const int64_t k = std::max<int64_t>(1, exprs.HintOf(problem.k.extent));
  const int64_t units = target.gpu.unit_count > 0 ? target.gpu.unit_count : 16;
  const auto add = [&](int64_t share, int64_t item, int64_t workgroup_places, int64_t unroll) {
    ScheduleRecord record;
    record.kind = ScheduleKind::kGpuVector;
    record.swap = swap;
    record.lanes = access.lanes;
    record.unroll = static_cast<int32_t>(unroll);
    record.tile.n = static_cast<int32_t>(workgroup_places);
    record.tile.item_n = static_cast<int32_t>(item);
    record.tile.k = static_cast<int32_t>(share);
    const int64_t workgroups = (places + workgroup_places - 1) / workgroup_places * batches;
    // A unit wants two workgroups; beyond that, a workitem wants much of its own.
    const double full = static_cast<double>(2 * units);
    const double idle = std::max(1.0, full / static_cast<double>(workgroups));
    const double own = access.along_k ? static_cast<double>(item) : static_cast<double>(share) / 64;
    const double bytes = static_cast<double>(places * batches * k * 4);
    ranked.emplace_back(std::move(record), bytes / 4000 * idle * (1 + 0.1 / own));
  };
  if (access.along_k) {
    const int64_t share = target.gpu.subgroup_size;
    const int64_t groups = std::max<int64_t>(1, kGemvWorkitems / share);
    // Long places side by side give loads in flight and share the short side, as long as there are
    // workgroups for every unit; where there are not, steps of k in flight do.
    for (int64_t item = std::max<int64_t>(1, 4 / *few); item >= 1; item /= 2) {
      add(share, item, groups * item, item > 1 ? 1 : std::max<int64_t>(1, 4 / *few));
    }
  } else {
    for (const int64_t workitems : {2 * kGemvWorkitems, 4 * kGemvWorkitems, kGemvWorkitems}) {
      const int64_t vectors = 8;  // a line of the second-level cache
      if (workitems > target.gpu.max_workgroup_size) continue;
      int64_t share = workitems / vectors;
      while (share > 1 && share * *few * vectors * access.lanes * BitWidth(problem.dtype) / 8 >
                              std::min<int64_t>(target.gpu.workgroup_memory_bytes, 32 << 10)) {
        share /= 2;
      }
      add(share, access.lanes, vectors * access.lanes, 4);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& x, const auto& y) { return x.second < y.second; });
  return ranked;
}

Result<ScheduledKernel> BuildGemv(const loop::Function& function, uint32_t kernel,
                                  const ScheduleRecord& record, const Target& target) {
  std::string why;
  std::optional<Problem> problem = ReadContraction(function, function.kernels[kernel], &why);
  if (!problem) {
    return InvalidArgument("Schedule '{}' needs a contraction; kernel '{}' is none: {}.",
                           FormatSchedule(record), function.kernels[kernel].name, why);
  }
  return GemvBuilder(function, function.kernels[kernel], record, target, std::move(*problem))
      .Build();
}

}  // namespace halyard::schedule
