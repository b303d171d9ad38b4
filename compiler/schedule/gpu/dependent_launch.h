// SPDX-License-Identifier: Apache-2.0
// Lets a kernel begin before the dispatches that it depends on are done: it waits itself, right
// before it first touches memory that they may have written or still read. The reasoning is in
// docs/decisions/0011-attention-and-kernels-that-wait.md.
#pragma once

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Whether a kernel of the schedule gains by that. Tiles of products without matrix units do not: a
// unit has room for several of their workgroups, which are few, and those that wait are placed
// where there is room, several on units that were done first and none on others.
bool BeginsEarly(const ScheduleRecord& record);

// Adds await_dispatches and, before its last access, release_dispatches to every kernel of a GPU with
// GpuFeature::kDependentLaunch that does not wait already. A kernel of one workitem stays as it is.
void PlaceAwaits(const loop::Function& function, const Target& target, ScheduledKernel& scheduled);

}  // namespace halyard::schedule
