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
