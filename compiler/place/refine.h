// SPDX-License-Identifier: Apache-2.0
// Refinement: moves at the borders of a plan that the simulation likes (after Fiduccia and
// Mattheyses 1982, with the makespan as gain), and the pulling back of islands whose gain is within
// the noise. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/plan.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

// Units of one device that tensors connect; ascending, and in the order of their first units.
std::vector<std::vector<uint32_t>> FindIslands(const Core& core, const Assignment& at);

// Twice the standard deviation of the difference between two plans, or 1 % of the makespan, or two
// synchronisations: what a change must win to be believed.
Ticks NoiseBetween(const Problem& problem, const Core& core, const Assignment& a,
                   const Assignment& b, Ticks makespan);

// Moves units and islands at borders while the score falls and the memory fits, at most
// `step_limit` steps of the simulator. Marks what moved.
void RefineBorders(const Simulator& simulator, const Core& core, uint64_t step_limit,
                   Assignment& at, std::vector<DecidedBy>& decided);

// Moves units to a device of their neighbours where that saves a transfer and lowers the sum of all
// costs, as long as all of that lengthens the simulated run by less than the noise: transfers that
// it overlaps with others are work all the same.
void SaveTransfers(const Problem& problem, const Simulator& simulator, const Core& core,
                   Assignment& at, std::vector<DecidedBy>& decided);

// Pulls islands back to `main`, the device of the best plan that has one, where they win less than
// the noise. Islands that hold a unit which that device cannot run stay.
void PullBackIslands(const Problem& problem, const Simulator& simulator, const Core& core,
                     uint32_t main, Assignment& at, std::vector<DecidedBy>& decided);

}  // namespace halyard::place
