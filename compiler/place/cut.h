// SPDX-License-Identifier: Apache-2.0
// Cut: the best assignment in which every unit either keeps its device or moves to one device,
// as a minimum cut (alpha-expansion; Boykov, Veksler and Zabih 2001). A gadget node per tensor and
// destination makes a transfer be paid once. From a start where all units are on device 0, with two
// devices, the cut is the optimum of the additive objective; with more, where a unit's move would
// make a transfer to a third device cheaper, the model overestimates and the caller compares true
// costs. Internal to placement.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/place/core.h"
#include "compiler/place/max_flow.h"

namespace halyard::place {

// Borrows the core. `start` may use places that are not feasible: such units move or the cut fails.
class ExpansionCut {
 public:
  ExpansionCut(const Core& core, const Assignment& start, uint32_t device);

  // The best assignment of the model. Of equal ones the one that moves fewest units.
  Assignment Solve();
  // Cost of the best assignment in which `unit` moves, or keeps its place; nothing where it cannot.
  // After Solve.
  std::optional<Ticks> CostWith(uint32_t unit, bool moves);
  Ticks cost() const { return cost_; }
  uint64_t steps() const { return flow_.steps(); }

 private:
  void AddUnits();
  void AddTensor(const CoreTensor& tensor);

  const Core& core_;
  const Assignment& start_;
  const uint32_t device_;
  MaxFlow flow_;
  std::vector<uint32_t> node_of_;  // per unit; a terminal where it has no choice
  Ticks constant_ = 0;
  Ticks cost_ = 0;
  MaxFlow::State solved_;
};

}  // namespace halyard::place
