// SPDX-License-Identifier: Apache-2.0
// Solving: from a problem to a plan. Budgets count steps, never time: the same problem gives the
// same plan, byte for byte. The algorithm is in docs/placement.md.
#pragma once

#include "base/status.h"
#include "compiler/place/plan.h"
#include "compiler/place/problem.h"

namespace halyard::place {

// INVALID_ARGUMENT where the problem is ill-formed or wishes contradict each other, UNIMPLEMENTED
// where an item can run nowhere, OUT_OF_MEMORY with the shortfall per memory where no plan meets
// the limits.
Result<Plan> Solve(const Problem& problem);

}  // namespace halyard::place
