// SPDX-License-Identifier: Apache-2.0
// Contractions with a side of at most kFewRows places (ScheduleKind::kGpuVector): the other operand
// is read once, straight from global memory, and bounds the time. Where it is contiguous along k,
// the workitems of a subgroup share k and add their sums by shuffles; where it is contiguous along
// its side, slices of the workgroup share k and add their sums through workgroup memory.
#pragma once

#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/common/contraction_problem.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

inline constexpr int64_t kFewRows = 8;

// Best first, with the model's nanoseconds; empty where neither side is short. In the record, gpu.n
// counts places of the long side in a workgroup, tile.item_n those of a workitem, tile.k the
// workitems that share k.
std::vector<std::pair<ScheduleRecord, double>> RankGemv(const loop::Function& function,
                                                        const loop::Kernel& kernel,
                                                        const Problem& problem,
                                                        const Target& target);

Result<ScheduledKernel> BuildGemv(const loop::Function& function, uint32_t kernel,
                                  const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
