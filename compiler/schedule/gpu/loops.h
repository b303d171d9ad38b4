// SPDX-License-Identifier: Apache-2.0
// The schedules of loop kernels on GPUs that are no contraction. Map: one workitem per vector of
// iterations of the outer parallel loops, everything inside in order; covers every kernel that the
// emitter covers. Team: several workitems share an iteration and spread its inner loops (rows of
// reductions, or columns where the outer loops are the contiguous ones).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

Result<std::vector<ScheduleRecord>> EnumerateGpuLoops(const loop::Function& function,
                                                      uint32_t kernel, const Target& target);
Result<ScheduledKernel> BuildGpuLoops(const loop::Function& function, uint32_t kernel,
                                      const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
