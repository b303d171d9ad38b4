// SPDX-License-Identifier: Apache-2.0
// Unroll and jam: several iterations of a kernel's outermost loop side by side, so that reductions
// of one need not wait for those of the one before.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"

namespace halyard::kernel {

// `kernel`: of a CPU, verified, with one outermost loop, whose step is 1, which carries nothing and
// whose iterations do not depend on each other. `count` of them become one: ops that are equal in
// all are written once, the others after each other, op by op; loops inside become one with the ops
// of all; workgroup and private memory is there `count` times. What is left over runs as before;
// `is_whole`: nothing ever is.
//
// INVALID_ARGUMENT where there is no such loop, or a loop in it has other bounds in other iterations.
Result<Kernel> JamOuterLoop(const Kernel& kernel, int count, bool is_whole);

}  // namespace halyard::kernel
