// SPDX-License-Identifier: Apache-2.0
// Core: a problem in whole picoseconds, so that every sum is exact and the same on all machines,
// and the additive objective on it: costs of all items, and of each transfer once per tensor and
// destination. Items of one closed group are one unit. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/problem.h"
#include "compiler/place/transfer.h"

namespace halyard::place {

using Ticks = int64_t;  // picoseconds
// What cannot be. Far above any sum of real costs, and several of them still fit 64 bits.
inline constexpr Ticks kNever = Ticks{1} << 60;

Ticks ToTicks(double seconds);  // clamped to kMostSeconds; infinity: kNever
inline double ToSeconds(Ticks ticks) { return static_cast<double>(ticks) * 1e-12; }

// Device per unit, or per item.
using Assignment = std::vector<uint32_t>;

// Transfer costs of one size between all devices. Row `home` is for inputs, which nothing made.
struct TransferTable {
  uint32_t width = 0;  // devices + 1; index `devices` is the home memory where no device is at home
  std::vector<Ticks> sync, copy;  // [from * width + to]
  // How far `sync` may be off: all of it, or twice the deviation where crossings were measured.
  std::vector<Ticks> doubt;                    // the same
  std::vector<std::vector<uint32_t>> engines;  // the same
  Ticks Total(uint32_t from, uint32_t to) const {
    const size_t at = size_t{from} * width + to;
    return sync[at] + copy[at];
  }
};

struct CoreTensor {
  uint32_t tensor = 0;              // of the problem
  uint32_t producer = kNone;        // unit
  std::vector<uint32_t> consumers;  // units, ascending, each once, never the producer
  bool is_output = false;
  uint32_t table = 0;
};

struct Core {
  uint32_t devices = 0;
  // Where outputs must be and inputs are: the device at home, or `devices` where there is none.
  uint32_t home = 0;
  uint32_t units = 0;
  bool is_ordered = true;   // producers stand before consumers: groups left no cycle
  std::vector<Ticks> cost;  // [unit * devices + device], kNever: not feasible; preferences included
  std::vector<Ticks> penalty;  // what preferences added
  std::vector<CoreTensor> tensors;
  std::vector<TransferTable> tables;
  std::vector<std::vector<uint32_t>> touching;  // per unit: the tensors it makes or reads
  std::vector<uint32_t> unit_of;                // per item
  std::vector<std::vector<uint32_t>> items_of;  // per unit, ascending

  Ticks CostOf(uint32_t unit, uint32_t device) const {
    return cost[size_t{unit} * devices + device];
  }
  // kNever is returned as a sum of at least kNever.
  Ticks TensorCost(const CoreTensor& tensor, const Assignment& at) const;
  Ticks Additive(const Assignment& at) const;
  bool IsFeasible(const Assignment& at) const;
  // What changes when one unit moves; both places feasible.
  Ticks MoveDelta(Assignment& at, uint32_t unit, uint32_t device) const;
  // Devices of units -> devices of items.
  Assignment Expand(const Assignment& units_at) const;
  // Devices of items -> devices of units: that of the first item.
  Assignment Contract(const Assignment& items_at) const;
};

// `closed`: per group, whether its items are one unit. Wishes become costs: INVALID_ARGUMENT where
// they contradict each other or an item's abilities, UNIMPLEMENTED where an item can run nowhere;
// a closed group that can run nowhere as one is opened.
// `marked`: where given, gets the costs with the reasons that wishes add.
Result<Core> BuildCore(const Problem& problem, const std::vector<bool>& closed,
                       std::vector<std::vector<Cost>>* marked);

// Number of groups: 1 + the largest index; 0: there are none.
size_t GroupCount(const Problem& problem);

}  // namespace halyard::place
