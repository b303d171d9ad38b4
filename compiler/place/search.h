// SPDX-License-Identifier: Apache-2.0
// Search: plans that are good in the additive objective where no exact method applies: expansions
// from several starts, then moves of single units judged by the true cost. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/core.h"

namespace halyard::place {

// The cheapest feasible device of every unit; ties: the first.
Assignment CheapestDevices(const Core& core);
// `device` wherever it is feasible; the rest on the device that costs least with its transfers,
// decided unit by unit until nothing improves.
Assignment MostlyOn(const Core& core, uint32_t device, uint64_t* steps);
// The first feasible device of a list of priorities, for each unit by itself.
Assignment FirstOf(const Core& core, const std::vector<uint32_t>& priority);

// Moves single units, and pairs that share a tensor, while the additive cost falls; in order of
// units and devices. `free`: the units that may move; empty: all.
void Descend(const Core& core, Assignment& at, const std::vector<bool>& free, uint64_t step_limit,
             uint64_t* steps);

// The same where no move helped before `unit` came to where it is now, and stays: of its
// neighbours, and of those of what moves. Returns what was gained, at most 0.
Ticks DescendAround(const Core& core, Assignment& at, uint32_t unit, uint64_t step_limit,
                    uint64_t* steps);

// The best of expansions and descents from all starts; each start that is feasible bounds the
// result. `step_limit` for each start.
Assignment SearchFromStarts(const Core& core, const std::vector<Assignment>& starts,
                            uint64_t step_limit, uint64_t* steps);

}  // namespace halyard::place
