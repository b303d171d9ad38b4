// SPDX-License-Identifier: Apache-2.0
// What a given assignment is predicted to take, where no plan is asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/place/problem.h"

namespace halyard::place {

struct PlanTimes {
  double makespan_seconds = 0;  // of a simulated run
  double additive_seconds = 0;  // all costs and transfers
};

// `devices`: per item. Memory limits do not count. INVALID_ARGUMENT where an item cannot run where
// it is.
Result<PlanTimes> PredictTimes(const Problem& problem, const std::vector<uint32_t>& devices);

}  // namespace halyard::place
