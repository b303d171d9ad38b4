// SPDX-License-Identifier: Apache-2.0
// What a given assignment is predicted to take, where no plan is asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/place/problem.h"

namespace halyard::place {

// Seconds of a simulated run; `devices`: per item. Memory limits do not count. INVALID_ARGUMENT
// where an item cannot run where it is.
Result<double> PredictMakespan(const Problem& problem, const std::vector<uint32_t>& devices);

}  // namespace halyard::place
