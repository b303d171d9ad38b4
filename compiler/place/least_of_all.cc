// SPDX-License-Identifier: Apache-2.0
// All assignments, for tests and for benchmarks that say what no plan can do.
#include <algorithm>

#include "base/check.h"
#include "compiler/place/simulate.h"
#include "compiler/place/stream.h"

namespace halyard::place {
namespace {

// What has to be put back when the item of a step moves on.
struct Timeline {
  std::vector<Ticks> silicon_free, engine_free, arrival, made_at;
};

// Bytes of weights that plans keep in each memory with a limit; lots of streamed ones apart.
class KeptWeights {
 public:
  explicit KeptWeights(const Problem& problem)
      : problem_(problem),
        readers_(problem.machine.memories.size(), std::vector<uint32_t>(problem.weights.size(), 0)),
        bytes_(problem.machine.memories.size(), 0) {}

  void Add(uint32_t item, uint32_t memory) { Change(item, memory, true); }
  void Remove(uint32_t item, uint32_t memory) { Change(item, memory, false); }
  bool IsTooMuch(uint32_t memory) const {
    const int64_t cap = problem_.memory_caps.empty() ? 0 : problem_.memory_caps[memory];
    return cap > 0 && bytes_[memory] > cap;
  }

 private:
  void Change(uint32_t item, uint32_t memory, bool is_more) {
    const bool streams = StreamedBytes(problem_, item, memory) > 0;
    for (const uint32_t weight : problem_.items[item].weights) {
      const int64_t bytes = problem_.weights[weight].bytes;
      if (streams && bytes >= kLeastStreamed) continue;
      uint32_t& readers = readers_[memory][weight];
      if (is_more ? readers++ == 0 : --readers == 0) bytes_[memory] += is_more ? bytes : -bytes;
    }
  }

  const Problem& problem_;
  std::vector<std::vector<uint32_t>> readers_;  // [memory][weight]
  std::vector<int64_t> bytes_;
};

}  // namespace

Ticks Simulator::LeastOfAll(const std::vector<std::vector<uint32_t>>& choices, Ticks limit,
                            uint64_t* tried) const {
  const auto items = static_cast<uint32_t>(problem_.items.size());
  HY_CHECK(core_.units == items && choices.size() == items);
  if (items == 0) return std::min<Ticks>(limit, 0);
  Reset();
  Assignment at(items, kNone);
  KeptWeights kept(problem_);
  std::vector<Timeline> before(items);
  std::vector<Ticks> ends(items + 1, 0);  // when all of the items before it have ended
  std::vector<size_t> next(items, 0);     // of the item's choices
  const auto leave = [&](uint32_t item) {
    if (at[item] == kNone) return;
    kept.Remove(item, problem_.machine.devices[at[item]].memory);
    silicon_free_ = before[item].silicon_free;
    engine_free_ = before[item].engine_free;
    arrival_ = before[item].arrival;
    made_at_ = before[item].made_at;
    at[item] = kNone;
  };
  uint32_t item = 0;
  while (true) {
    leave(item);
    if (next[item] == choices[item].size()) {
      next[item] = 0;
      if (item-- == 0) return limit;
      continue;
    }
    const uint32_t device = choices[item][next[item]++];
    const uint32_t memory = problem_.machine.devices[device].memory;
    before[item] = {silicon_free_, engine_free_, arrival_, made_at_};
    at[item] = device;
    kept.Add(item, memory);
    ++*tried;
    Ticks end = std::max(ends[item], Run(item, device, at, false));
    for (const uint32_t c : made_by_[item]) {
      if (core_.tensors[c].is_output) end = std::max(end, Arrive(c, core_.home, at, false));
    }
    if (end >= limit || kept.IsTooMuch(memory)) continue;
    if (item + 1 == items) {
      if (Excess(at) == 0) limit = end;
      continue;
    }
    ends[++item] = end;
  }
}

}  // namespace halyard::place
