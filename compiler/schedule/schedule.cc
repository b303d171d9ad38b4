// SPDX-License-Identifier: Apache-2.0
// Picks the scheduler by target and merges the candidates of every schedule that applies to a
// kernel.
#include "compiler/schedule/schedule.h"

#include <algorithm>

#include "compiler/schedule/common/nest.h"
#include "compiler/schedule/cpu/attention.h"
#include "compiler/schedule/cpu/contraction.h"
#include "compiler/schedule/cpu/row.h"
#include "compiler/schedule/cpu/window.h"
#include "compiler/schedule/gpu/attention.h"
#include "compiler/schedule/gpu/contraction.h"
#include "compiler/schedule/gpu/dependent_launch.h"
#include "compiler/schedule/gpu/library_call.h"
#include "compiler/schedule/gpu/loop_limit.h"
#include "compiler/schedule/gpu/loops.h"

namespace halyard::schedule {
namespace {

// More candidates than this cost more compile time than they win.
constexpr size_t kMaxContractionCandidates = 4;

// The best few. Where k may be cut into blocks, half of them do so and half do not: the model
// cannot tell what caches make of the two.
void KeepBest(std::vector<std::pair<ScheduleRecord, double>>* ranked) {
  int64_t whole = 0;
  for (const auto& [record, cycles] : *ranked) whole = std::max(whole, record.kc);
  const auto is_blocked = [&](const auto& candidate) { return candidate.first.kc < whole; };
  const auto blocked =
      static_cast<size_t>(std::count_if(ranked->begin(), ranked->end(), is_blocked));
  const size_t left = ranked->size() - blocked;
  size_t blocked_to_keep = std::min(blocked, kMaxContractionCandidates / 2);
  size_t whole_to_keep = std::min(left, kMaxContractionCandidates - blocked_to_keep);
  blocked_to_keep = std::min(blocked, kMaxContractionCandidates - whole_to_keep);
  std::erase_if(*ranked, [&](const auto& candidate) {
    size_t& room = is_blocked(candidate) ? blocked_to_keep : whole_to_keep;
    if (room == 0) return true;
    --room;
    return false;
  });
}

Status CheckArguments(const loop::Function& function, uint32_t kernel) {
  if (kernel >= function.kernels.size())
    return InvalidArgument("Kernel {} is asked for; the function has {}.", kernel,
                           function.kernels.size());
  return OkStatus();
}

// A contraction whose weights belong to one row or column each, as those of depthwise convolutions.
bool HasOneChannel(const loop::Function& function, uint32_t kernel) {
  const auto problem = ReadContraction(function, function.kernels[kernel], nullptr);
  const ExprArena& exprs = *function.exprs;
  return problem && (exprs.IsConst(problem->m.extent, 1) || exprs.IsConst(problem->n.extent, 1));
}

Result<std::vector<ScheduleRecord>> EnumerateGpu(const loop::Function& function, uint32_t kernel,
                                                 const Target& target) {
  // Loops as they are written are no rival of tiles.
  std::vector<ScheduleRecord> records = EnumerateGpuAttention(function, kernel, target);
  if (records.empty() && HasOneChannel(function, kernel)) {
    HY_ASSIGN(std::vector<ScheduleRecord> loops, EnumerateGpuLoops(function, kernel, target));
    if (loops[0].mr > 0) return loops;  // windows of neighbours overlap
  }
  if (records.empty()) records = EnumerateGpuContraction(function, kernel, target);
  if (!records.empty()) return records;
  return EnumerateGpuLoops(function, kernel, target);
}

// Of the records those whose loops the device runs to their end: for any sizes where there is one
// such record, otherwise those that a guard admits. UNIMPLEMENTED where no record is left.
Result<std::vector<ScheduleRecord>> KeepShortLoops(const loop::Function& function, uint32_t kernel,
                                                   std::vector<ScheduleRecord> records,
                                                   const Target& target) {
  std::vector<ScheduleRecord> always, guarded;
  Status refusal;
  for (ScheduleRecord& record : records) {
    Result<ScheduledKernel> built = BuildKernel(function, kernel, record, target);
    if (!built.ok()) {
      if (refusal.ok()) refusal = built.status();
      continue;
    }
    const bool needs_guard = LoopGuard(*function.exprs, *built, target).has_value();
    (needs_guard ? guarded : always).push_back(std::move(record));
  }
  if (!always.empty()) return always;
  if (guarded.empty()) return refusal;
  return guarded;
}

}  // namespace

Result<std::vector<ScheduleRecord>> EnumerateSchedules(const loop::Function& function,
                                                       uint32_t kernel, const Target& target) {
  HY_TRY(CheckArguments(function, kernel));
  if (target.kind != TargetKind::kCpu) {
    HY_ASSIGN(std::vector<ScheduleRecord> records, EnumerateGpu(function, kernel, target));
    if (target.gpu.max_loop_iterations == INT64_MAX) return records;
    return KeepShortLoops(function, kernel, std::move(records), target);
  }
  const loop::Kernel& source = function.kernels[kernel];
  HY_ASSIGN(std::vector<ScheduleRecord> rows, EnumerateRow(function, kernel, target));
  std::vector<ScheduleRecord> records = EnumerateAttention(function, kernel, target);
  if (!records.empty()) {
    records.insert(records.end(), rows.begin(), rows.end());
  } else if (std::optional<Problem> problem = ReadContraction(function, source, nullptr)) {
    auto ranked = RankContraction(function, source, *problem, target);
    KeepBest(&ranked);
    Nest nest(function, source);
    double row_cost = 0;
    for (size_t i = 0; i < nest.loops.size(); ++i)
      if (nest.loops[i].parent < 0)
        row_cost += nest.Cost(static_cast<int>(i), std::max(1, rows[0].lanes), nullptr);
    bool row_first = ranked.empty() || row_cost < ranked[0].second;
    if (row_first) records = EnumerateWindow(function, kernel, target);
    if (row_first) records.push_back(rows[0]);
    for (auto& candidate : ranked) records.push_back(std::move(candidate.first));
    if (!row_first) records.push_back(rows[0]);
    for (size_t i = 1; i < rows.size(); ++i) records.push_back(std::move(rows[i]));
  } else {
    records = EnumerateWindow(function, kernel, target);
    records.insert(records.end(), rows.begin(), rows.end());
  }
  // A construct that no schedule covers shows when the plainest record is built.
  Result<ScheduledKernel> plain = BuildKernel(function, kernel, records.back(), target);
  if (!plain.ok()) return plain.status();
  return records;
}

Result<ScheduledKernel> BuildKernel(const loop::Function& function, uint32_t kernel,
                                    const ScheduleRecord& record, const Target& target) {
  HY_TRY(CheckArguments(function, kernel));
  bool is_contraction =
      record.kind == ScheduleKind::kGpuTile || record.kind == ScheduleKind::kGpuMatrix ||
      record.kind == ScheduleKind::kGpuWgmma || record.kind == ScheduleKind::kGpuVector;
  bool is_attention = record.kind == ScheduleKind::kGpuAttention ||
                      record.kind == ScheduleKind::kGpuMatrixAttention;
  const bool is_library = record.kind == ScheduleKind::kGpuLibrary;
  bool for_gpu = is_contraction || is_attention || is_library ||
                 record.kind == ScheduleKind::kGpuMap || record.kind == ScheduleKind::kGpuTeam ||
                 record.kind == ScheduleKind::kGpuTranspose;
  if (for_gpu != (target.kind != TargetKind::kCpu))
    return InvalidArgument("Schedule '{}' does not fit target '{}'.", FormatSchedule(record),
                           target.name);
  if (for_gpu) {
    Result<ScheduledKernel> scheduled =
        is_attention     ? BuildGpuAttention(function, kernel, record, target)
        : is_contraction ? BuildGpuContraction(function, kernel, record, target)
        : is_library     ? BuildLibraryCall(function, kernel, record, target)
                         : BuildGpuLoops(function, kernel, record, target);
    if (!scheduled.ok()) return scheduled;
    HY_TRY(CheckLoopLimit(*function.exprs, *scheduled, target));
    PlaceAwaits(function, target, *scheduled);
    return scheduled;
  }
  if (record.kind == ScheduleKind::kRow) return BuildRow(function, kernel, record, target);
  if (record.kind == ScheduleKind::kAttention)
    return BuildAttention(function, kernel, record, target);
  if (record.kind == ScheduleKind::kWindow) return BuildWindow(function, kernel, record, target);
  return BuildContraction(function, kernel, record, target);
}

}  // namespace halyard::schedule
