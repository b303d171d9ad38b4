// SPDX-License-Identifier: Apache-2.0
// Lets a kernel begin before the dispatches that it depends on are done: it waits itself, right
// before it first touches memory that they may have written or still read. The reasoning is in
// docs/decisions/0011-attention-and-kernels-that-wait.md.
#pragma once

#include "compiler/loop/loop_ir.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Adds await_dispatches and, before its last access, release_dispatches to every kernel of a GPU
// with GpuFeature::kDependentLaunch that does not wait already, and tells it whether it begins
// early. A tile of a product without matrix units does not: it starts behind a full edge, releases
// nobody before it ends, and has the wait as its first op only because what comes out of a wait is
// read as memory that changes. Loads of constants may move, and the compiler moved those of a
// tile's next step behind the products of this one, which took 1.2 to 1.7 times as long on an H200.
// On NVIDIA GPUs without the feature products that load the operands of a step ahead have that wait
// too (loads moved alike in the machine code for sm_75 and sm_80, which was never run). A kernel of
// one workitem stays as it is.
void PlaceAwaits(const loop::Function& function, const Target& target, ScheduledKernel& scheduled);

}  // namespace halyard::schedule
