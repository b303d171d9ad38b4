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
#include "compiler/schedule/gpu/loops.h"

namespace halyard::schedule {
namespace {

// More candidates than this cost more compile time than they win.
constexpr size_t kMaxContractionCandidates = 4;

Status CheckArguments(const loop::Function& function, uint32_t kernel) {
  if (kernel >= function.kernels.size())
    return InvalidArgument("Kernel {} is asked for; the function has {}.", kernel,
                           function.kernels.size());
  return OkStatus();
}

}  // namespace

Result<std::vector<ScheduleRecord>> EnumerateSchedules(const loop::Function& function,
                                                       uint32_t kernel, const Target& target) {
  HY_TRY(CheckArguments(function, kernel));
  if (target.kind != TargetKind::kCpu) {
    // Loops as they are written are no rival of tiles.
    std::vector<ScheduleRecord> records = EnumerateGpuAttention(function, kernel, target);
    if (records.empty()) records = EnumerateGpuContraction(function, kernel, target);
    if (!records.empty()) return records;
    return EnumerateGpuLoops(function, kernel, target);
  }
  const loop::Kernel& source = function.kernels[kernel];
  HY_ASSIGN(std::vector<ScheduleRecord> rows, EnumerateRow(function, kernel, target));
  std::vector<ScheduleRecord> records = EnumerateAttention(function, kernel, target);
  if (!records.empty()) {
    records.insert(records.end(), rows.begin(), rows.end());
  } else if (std::optional<Problem> problem = ReadContraction(function, source, nullptr)) {
    auto ranked = RankContraction(function, source, *problem, target);
    if (ranked.size() > kMaxContractionCandidates) ranked.resize(kMaxContractionCandidates);
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
  bool is_contraction = record.kind == ScheduleKind::kGpuTile ||
                        record.kind == ScheduleKind::kGpuMatrix ||
                        record.kind == ScheduleKind::kGpuVector;
  bool is_attention = record.kind == ScheduleKind::kGpuAttention;
  bool for_gpu = is_contraction || is_attention || record.kind == ScheduleKind::kGpuMap ||
                 record.kind == ScheduleKind::kGpuTeam ||
                 record.kind == ScheduleKind::kGpuTranspose;
  if (for_gpu != (target.kind != TargetKind::kCpu))
    return InvalidArgument("Schedule '{}' does not fit target '{}'.", FormatSchedule(record),
                           target.name);
  if (is_attention) return BuildGpuAttention(function, kernel, record, target);
  if (is_contraction) return BuildGpuContraction(function, kernel, record, target);
  if (for_gpu) return BuildGpuLoops(function, kernel, record, target);
  if (record.kind == ScheduleKind::kRow) return BuildRow(function, kernel, record, target);
  if (record.kind == ScheduleKind::kAttention)
    return BuildAttention(function, kernel, record, target);
  if (record.kind == ScheduleKind::kWindow) return BuildWindow(function, kernel, record, target);
  return BuildContraction(function, kernel, record, target);
}

}  // namespace halyard::schedule
