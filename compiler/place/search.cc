// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/search.h"

#include "compiler/place/cut.h"

namespace halyard::place {
namespace {

constexpr int kMostRounds = 8;

// Both ends of a tensor to one device at once: what a single move would pay a transfer for.
bool MovePairs(const Core& core, Assignment& at, const std::vector<bool>& free, uint64_t limit,
               uint64_t* steps) {
  bool improved = false;
  for (const CoreTensor& tensor : core.tensors) {
    if (tensor.producer == kNone) continue;
    for (const uint32_t consumer : tensor.consumers) {
      if (!free.empty() && (!free[tensor.producer] || !free[consumer])) continue;
      for (uint32_t device = 0; device < core.devices; ++device) {
        if (core.CostOf(tensor.producer, device) >= kNever ||
            core.CostOf(consumer, device) >= kNever ||
            (at[tensor.producer] == device && at[consumer] == device)) {
          continue;
        }
        if (*steps >= limit) return improved;
        *steps += core.touching[tensor.producer].size() + core.touching[consumer].size();
        const uint32_t old = at[tensor.producer];
        Ticks delta = core.MoveDelta(at, tensor.producer, device);
        at[tensor.producer] = device;
        delta += core.MoveDelta(at, consumer, device);
        if (delta < 0) {
          at[consumer] = device;
          improved = true;
        } else {
          at[tensor.producer] = old;
        }
      }
    }
  }
  return improved;
}

}  // namespace

Assignment CheapestDevices(const Core& core) {
  Assignment at(core.units, 0);
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    for (uint32_t device = 1; device < core.devices; ++device) {
      if (core.CostOf(unit, device) < core.CostOf(unit, at[unit])) at[unit] = device;
    }
  }
  return at;
}

Assignment FirstOf(const Core& core, const std::vector<uint32_t>& priority) {
  Assignment at(core.units, 0);
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    for (const uint32_t device : priority) {
      if (core.CostOf(unit, device) >= kNever) continue;
      at[unit] = device;
      break;
    }
  }
  return at;
}

Assignment MostlyOn(const Core& core, uint32_t device, uint64_t* steps) {
  Assignment at = CheapestDevices(core);
  std::vector<bool> free(core.units, false);
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    if (core.CostOf(unit, device) < kNever) {
      at[unit] = device;
    } else {
      free[unit] = true;
    }
  }
  Descend(core, at, free, *steps + 100'000, steps);
  return at;
}

void Descend(const Core& core, Assignment& at, const std::vector<bool>& free, uint64_t step_limit,
             uint64_t* steps) {
  for (int round = 0; round < kMostRounds; ++round) {
    bool improved = false;
    for (uint32_t unit = 0; unit < core.units; ++unit) {
      if (!free.empty() && !free[unit]) continue;
      for (uint32_t device = 0; device < core.devices; ++device) {
        if (device == at[unit] || core.CostOf(unit, device) >= kNever) continue;
        if (*steps >= step_limit) return;
        *steps += core.touching[unit].size() + 1;
        if (core.MoveDelta(at, unit, device) < 0) {
          at[unit] = device;
          improved = true;
        }
      }
    }
    improved |= MovePairs(core, at, free, step_limit, steps);
    if (!improved) return;
  }
}

Ticks DescendAround(const Core& core, Assignment& at, uint32_t unit, uint64_t step_limit,
                    uint64_t* steps) {
  Ticks gained = 0;
  std::vector<uint32_t> queue;
  std::vector<bool> waits(core.units, false);
  const auto add_neighbours = [&](uint32_t moved) {
    const auto add = [&](uint32_t other) {
      if (other == unit || other == kNone || waits[other]) return;
      waits[other] = true;
      queue.push_back(other);
    };
    for (const uint32_t t : core.touching[moved]) {
      add(core.tensors[t].producer);
      for (const uint32_t consumer : core.tensors[t].consumers) add(consumer);
    }
  };
  const auto is_over = [&](size_t more) {
    if (*steps >= step_limit) return true;
    *steps += more;
    return false;
  };
  // Both to the device, if that is cheaper.
  const auto try_pair = [&](uint32_t a, uint32_t b, uint32_t device) {
    if (core.CostOf(a, device) >= kNever || core.CostOf(b, device) >= kNever) return false;
    const uint32_t old = at[a];
    Ticks delta = core.MoveDelta(at, a, device);
    at[a] = device;
    delta += core.MoveDelta(at, b, device);
    if (delta >= 0) {
      at[a] = old;
      return false;
    }
    at[b] = device;
    gained += delta;
    add_neighbours(a);
    add_neighbours(b);
    return true;
  };
  add_neighbours(unit);
  for (size_t next = 0; next < queue.size(); ++next) {
    const uint32_t at_work = queue[next];
    waits[at_work] = false;
    for (uint32_t device = 0; device < core.devices; ++device) {
      if (device == at[at_work] || core.CostOf(at_work, device) >= kNever) continue;
      if (is_over(core.touching[at_work].size() + 1)) return gained;
      const Ticks delta = core.MoveDelta(at, at_work, device);
      if (delta >= 0) continue;
      at[at_work] = device;
      gained += delta;
      add_neighbours(at_work);
    }
    for (const uint32_t t : core.touching[at_work]) {
      const CoreTensor& tensor = core.tensors[t];
      if (tensor.producer == kNone || tensor.producer == unit) continue;
      for (const uint32_t consumer : tensor.consumers) {
        if (consumer == unit || (tensor.producer != at_work && consumer != at_work)) continue;
        for (uint32_t device = 0; device < core.devices; ++device) {
          if (at[tensor.producer] == device || at[consumer] == device) continue;
          if (is_over(core.touching[tensor.producer].size() + core.touching[consumer].size()))
            return gained;
          try_pair(tensor.producer, consumer, device);
        }
      }
    }
  }
  return gained;
}

Assignment SearchFromStarts(const Core& core, const std::vector<Assignment>& starts,
                            uint64_t step_limit, uint64_t* steps) {
  Assignment best;
  Ticks best_cost = kNever;
  for (const Assignment& start : starts) {
    Assignment at = start;
    Ticks cost = core.Additive(at);
    if (cost >= kNever) continue;
    const uint64_t limit = *steps + step_limit;
    for (int round = 0; round < kMostRounds && *steps < limit; ++round) {
      const Ticks before = cost;
      for (uint32_t device = 0; device < core.devices && *steps < limit; ++device) {
        ExpansionCut cut(core, at, device);
        Assignment moved = cut.Solve();
        *steps += cut.steps();
        const Ticks moved_cost = core.Additive(moved);
        if (moved_cost >= cost) continue;
        at = std::move(moved);
        cost = moved_cost;
      }
      Descend(core, at, {}, limit, steps);
      cost = core.Additive(at);
      if (cost == before) break;
    }
    if (cost < best_cost) {
      best_cost = cost;
      best = std::move(at);
    }
  }
  return best;
}

}  // namespace halyard::place
