// SPDX-License-Identifier: Apache-2.0
// The window schedule: reductions over a small window that slides along an outer loop, channels on
// the lanes (depthwise convolutions and pools with channels innermost). A few neighbouring
// positions are computed together, so that they share what they read and the weights stay in
// registers; where the whole window lies inside the picture nothing is masked. The border runs as
// loops.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Best first; empty where the kernel has not that form.
std::vector<ScheduleRecord> EnumerateWindow(const loop::Function& function, uint32_t kernel,
                                            const Target& target);
Result<ScheduledKernel> BuildWindow(const loop::Function& function, uint32_t kernel,
                                    const ScheduleRecord& record, const Target& target);

}  // namespace halyard::schedule
