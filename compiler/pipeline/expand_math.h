// SPDX-License-Identifier: Apache-2.0
// Writes what a CPU target has no instruction for as arithmetic: transcendentals, and fused
// multiply-adds where the hardware has none. A pass of its own after scheduling, because a race
// needs the same step.
#pragma once

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/pipeline/state.h"
#include "compiler/target/target.h"

namespace halyard::pipeline {

kernel::Kernel ExpandMathFor(const kernel::Kernel& code, const Target& target);

Status ExpandMath(CompileState& state);

}  // namespace halyard::pipeline
