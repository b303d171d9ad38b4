// SPDX-License-Identifier: Apache-2.0
// The attention schedule: rows whose body is a sequence of small contractions and row loops over
// buffers that live for one row (scores, softmax, weighted values). A task takes a block of rows,
// so that the contractions run as register tiles over several rows at once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Best first; empty where the kernel has not that form.
std::vector<ScheduleRecord> EnumerateAttention(const loop::Function& function, uint32_t kernel,
                                               const Target& target);
Result<ScheduledKernel> BuildAttention(const loop::Function& function, uint32_t kernel,
                                       const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
