// SPDX-License-Identifier: Apache-2.0
// Simulation: the makespan of an assignment over queues and links, and the memory it takes. Items
// are issued in their order: one queue per silicon, one transfer at a time per link engine,
// transfers overlap compute. Internal to placement.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/place/core.h"

namespace halyard::place {

// What a plan takes in one memory.
struct MemoryUse {
  int64_t weight_bytes = 0;
  // The most that lives at once of what the program makes; and inputs, outputs and what transfers
  // of both kinds stage there, which stay.
  int64_t activation_bytes = 0;
  int64_t Total() const { return weight_bytes + activation_bytes; }
};

// Borrows problem and core. Assignments are of units. Thread-compatible.
class Simulator {
 public:
  Simulator(const Problem& problem, const Core& core);

  // kNever where a unit cannot be where it is. Without preferences.
  // `ends`: where given, when each item ends. `limit`: from there on it is only told that it is no
  // less, which is often known after a few items.
  Ticks Makespan(const Assignment& at, std::vector<Ticks>* ends = nullptr,
                 Ticks limit = kNever) const;
  // When each core tensor arrives at each device, or home (`core.devices`), in the last Makespan
  // without a limit: [tensor * (devices + 1) + to]; -1: it does not go there.
  const std::vector<Ticks>& arrivals() const { return arrival_; }
  // Makespan and what the preferences cost: what plans are compared by. `limit` as above.
  Ticks Score(const Assignment& at, Ticks limit = kNever) const;
  // Per memory. Inputs and outputs in the home memory count there only where it has a limit:
  // otherwise they are the caller's business.
  std::vector<MemoryUse> Memory(const Assignment& at) const;
  // What `Score(moved, limit)` is, where `moved` differs from the last `base` in `units` only: the
  // schedule of what stands before them is kept.
  void SetBase(const Assignment& base) const;
  Ticks ScoreMoved(const Assignment& moved, const std::vector<uint32_t>& units, Ticks limit) const;
  // Bytes above the caps, all memories together; 0: the plan fits.
  int64_t Excess(const Assignment& at) const;
  // The least makespan of all assignments within the limits that take each unit's device from
  // `choices`, if that is less than `limit`; else `limit`. Tries all, those with the same beginning
  // together, and none whose beginning takes too long or has too many weights. Where every unit is
  // one item; `tried` counts the items that were placed.
  Ticks LeastOfAll(const std::vector<std::vector<uint32_t>>& choices, Ticks limit,
                   uint64_t* tried) const;
  // Each unit where its first item would end soonest, decided in the order of the items
  // (Topcuoglu, Hariri and Wu 2002 without ranks): a start that sees queues and links.
  Assignment EarliestFinish() const;
  uint64_t steps() const { return steps_; }

 private:
  // The timeline before an item.
  struct Timeline {
    std::vector<Ticks> silicon_free, engine_free, arrival, made_at;
    Ticks makespan = 0;
  };
  void Reset() const;
  Timeline Keep(Ticks makespan) const {
    return {silicon_free_, engine_free_, arrival_, made_at_, makespan};
  }
  // As Continue, and what the preferences cost.
  Ticks ScoreFrom(const Assignment& at, uint32_t item, Ticks makespan, Ticks limit) const;
  // From the item on, where the timeline is as it was before it.
  Ticks Continue(const Assignment& at, uint32_t item, Ticks makespan, std::vector<Ticks>* ends,
                 Ticks limit, std::vector<Timeline>* kept) const;
  bool IsDirect(uint32_t from, uint32_t to) const;
  // When the core tensor is at device `to`; the transfer is issued when it is first asked for, and
  // not at all with `probe`.
  Ticks Arrive(uint32_t tensor, uint32_t to, const Assignment& at, bool probe) const;
  // When the item ends on that device. Commits unless `probe`.
  Ticks Run(uint32_t item, uint32_t device, const Assignment& at, bool probe) const;

  const Problem& problem_;
  const Core& core_;
  std::vector<std::vector<uint32_t>> reads_of_, made_by_;  // per item: core tensors
  std::vector<Ticks> ticks_;  // [item * devices + device]: of all executions
  mutable uint64_t steps_ = 0;
  // The timeline, kept between calls.
  mutable std::vector<Ticks> silicon_free_, engine_free_, arrival_, made_at_;
  mutable std::vector<Ticks> silicon_left_;  // what items that have not begun take there
  mutable std::vector<Timeline> base_;       // before every kKept-th item
};

}  // namespace halyard::place
