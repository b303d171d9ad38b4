// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/makespan.h"

#include "compiler/place/core.h"
#include "compiler/place/simulate.h"

namespace halyard::place {

Result<PlanTimes> PredictTimes(const Problem& problem, const std::vector<uint32_t>& devices) {
  const std::vector<bool> closed(GroupCount(problem), false);
  HY_ASSIGN(const Core core, BuildCore(problem, closed, nullptr));
  const Assignment at = core.Contract(devices);
  const Ticks ticks = Simulator(problem, core).Makespan(at);
  if (ticks >= kNever) return InvalidArgument("An item of the plan cannot run where it is.");
  return PlanTimes{ToSeconds(ticks), ToSeconds(core.Additive(at))};
}

}  // namespace halyard::place
