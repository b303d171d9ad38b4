// SPDX-License-Identifier: Apache-2.0
// The row schedule: loop nests as they are written, outer parallel loops spread over tasks, one
// vector loop per nest. Covers every loop kernel that the emitter covers, templates included (as
// plain loops).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

Result<std::vector<ScheduleRecord>> EnumerateRow(const loop::Function& function, uint32_t kernel,
                                                 const Target& target);
Result<ScheduledKernel> BuildRow(const loop::Function& function, uint32_t kernel,
                                 const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
