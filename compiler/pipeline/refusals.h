// SPDX-License-Identifier: Apache-2.0
// Refusals: what a device that ends long loops (GpuTarget::max_loop_iterations) cannot run. Only a
// schedule shows how many iterations a workitem makes, so placement asks for it beforehand.
#pragma once

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Whether `device` ends the loops of a workitem that makes many iterations.
bool EndsLoops(const program::Device& device);

// Cuts, lowers, fuses and schedules as `device_of` has it what such devices get, adds to
// state.refusals the clusters of kernels that no schedule fits, and leaves everything else as it
// was. Whether it added any; other devices cost nothing. Layouts, chosen later, may still change a
// kernel: the schedule pass then fails.
Result<bool> FindRefusals(CompileState& state);

}  // namespace halyard::pipeline
