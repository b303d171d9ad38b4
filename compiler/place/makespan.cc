// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/makespan.h"

#include "compiler/place/core.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

Result<double> PredictMakespan(const Problem& problem, const std::vector<uint32_t>& devices) {
  const std::vector<bool> closed(GroupCount(problem), false);
  HY_ASSIGN(const Core core, BuildCore(problem, closed, nullptr));
  const Ticks ticks = Simulator(problem, core).Makespan(core.Contract(devices));
  if (ticks >= kNever) return InvalidArgument("An item of the plan cannot run where it is.");
  return ToSeconds(ticks);
}

}  // namespace halyard::place
