// SPDX-License-Identifier: Apache-2.0
// Lets a kernel begin before the dispatches that it depends on are done: it waits itself, right
// before it first touches memory that they may have written or still read. The reasoning is in
// docs/decisions/0011-attention-and-kernels-that-wait.md.
#pragma once

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Adds await_dispatches and, before its last access, release_dispatches to every kernel of a GPU with
// GpuFeature::kDependentLaunch that begins early and does not wait already. A kernel of one workitem
// stays as it is.
void PlaceAwaits(const loop::Function& function, const Target& target, ScheduledKernel& scheduled);

}  // namespace halyard::schedule
