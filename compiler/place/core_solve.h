// SPDX-License-Identifier: Apache-2.0
// The core's solver: the best assignment in the additive objective, exact where that is possible,
// and the same under memory limits by prices per byte. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/plan.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

struct CoreSolution {
  Assignment at;  // empty: nothing is feasible
  Method method = Method::kNone;
  bool is_optimal = false;
};

// Two devices: the cut. More: dynamic programming where the graph is narrow enough, expansion from
// every single-device start, the cheapest devices and `starts` otherwise.
CoreSolution SolveCore(const Core& core, const std::vector<Assignment>& starts, uint64_t* steps);

struct MemorySolution {
  Assignment at;  // of the least excess
  int64_t excess = 0;
  uint32_t rounds = 0;
};
// Looks for an assignment within the caps: at most eight rounds of raising and lowering a price per
// byte on the memories that overflow, then moves of single units out of them. Of those that fit the
// one with the best score.
MemorySolution SolveWithinCaps(const Problem& problem, const Simulator& simulator, const Core& core,
                               const std::vector<Assignment>& starts, uint64_t* steps);

}  // namespace halyard::place
