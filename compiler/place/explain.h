// SPDX-License-Identifier: Apache-2.0
// Explanation: what a decided assignment says about itself: transfers, margins, what a missing
// kernel would save, loads. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/plan.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

// Fills everything of the plan that follows from the assignment: decisions (device and `decided`
// per unit are given), transfers, loads, totals and the copies of names and costs. `marked`: costs
// with the reasons that wishes added.
void ExplainPlan(const Problem& problem, const Core& core, const Simulator& simulator,
                 const Assignment& at, const std::vector<DecidedBy>& decided,
                 std::vector<std::vector<Cost>> marked, Plan* plan);

}  // namespace halyard::place
