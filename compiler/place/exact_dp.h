// SPDX-License-Identifier: Apache-2.0
// ExactDp: the optimum of the additive objective on narrow graphs, for any number of devices:
// dynamic programming over the order of the units, where a state says for every tensor still to be
// read which device made it and which devices have it. Internal to placement.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/place/core.h"

namespace halyard::place {

// Nothing when the graph is too wide for `step_limit` transitions, or out of order. `steps` grows
// by those made. Of equal optima the one whose devices are lexicographically smallest in the order
// of the search. `bound`: what some assignment costs; the lower, the fewer steps, and the same
// result.
std::optional<Assignment> SolveExactDp(const Core& core, uint64_t step_limit, uint64_t* steps,
                                       Ticks bound = kNever);

}  // namespace halyard::place
