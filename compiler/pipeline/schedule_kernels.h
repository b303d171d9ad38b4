// SPDX-License-Identifier: Apache-2.0
// The scheduling pass: chooses a schedule for every loop kernel and builds its Kernel IR. It stands
// after fusion, because only a final kernel can be timed, and before assembly, because packings and
// workspaces follow from the choice.
#pragma once

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Ranks the candidates by the analytic model. With tuning and a measurer the best few race on the
// device, unless the timing cache knows the winner; equal kernels race once. A candidate that does not
// compile takes no part; where none compiles, that is the failure. Every choice becomes a `schedule`
// record that says who decided, and so does what takes no part.
Status ScheduleKernels(CompileState& state);

}  // namespace halyard::pipeline
