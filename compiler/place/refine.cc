// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/refine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/union_find.h"

namespace halyard::place {
namespace {

constexpr int kMostRefinements = 8;
constexpr double kLeastGain = 0.01;  // of the makespan

// Devices of the neighbours of a set of units, other than its own.
std::set<uint32_t> NeighbourDevices(const Core& core, const Assignment& at,
                                    const std::vector<uint32_t>& units) {
  std::set<uint32_t> out;
  for (const uint32_t unit : units) {
    for (const uint32_t t : core.touching[unit]) {
      const CoreTensor& tensor = core.tensors[t];
      if (tensor.producer != kNone) {
        out.insert(at[tensor.producer]);
      } else if (core.home < core.devices) {
        out.insert(core.home);
      }
      for (const uint32_t consumer : tensor.consumers) out.insert(at[consumer]);
      if (tensor.is_output && core.home < core.devices) out.insert(core.home);
    }
  }
  out.erase(at[units.front()]);
  return out;
}

bool CanAll(const Core& core, const std::vector<uint32_t>& units, uint32_t device) {
  return std::all_of(units.begin(), units.end(),
                     [&](uint32_t unit) { return core.CostOf(unit, device) < kNever; });
}

size_t CountTransfers(const Core& core, const Assignment& at) {
  size_t count = 0;
  std::set<uint32_t> targets;
  for (const CoreTensor& tensor : core.tensors) {
    targets.clear();
    for (const uint32_t consumer : tensor.consumers) targets.insert(at[consumer]);
    if (tensor.is_output) targets.insert(core.home);
    count +=
        targets.size() - targets.count(tensor.producer == kNone ? core.home : at[tensor.producer]);
  }
  return count;
}

}  // namespace

std::vector<std::vector<uint32_t>> FindIslands(const Core& core, const Assignment& at) {
  std::vector<uint32_t> parent(core.units);
  std::iota(parent.begin(), parent.end(), 0u);
  const auto join = [&](uint32_t a, uint32_t b) {
    if (at[a] != at[b]) return;
    a = FindRoot(parent, a);
    b = FindRoot(parent, b);
    parent[std::max(a, b)] = std::min(a, b);
  };
  for (const CoreTensor& tensor : core.tensors) {
    for (size_t i = 0; i < tensor.consumers.size(); ++i) {
      if (tensor.producer != kNone) join(tensor.producer, tensor.consumers[i]);
      if (i > 0) join(tensor.consumers[i - 1], tensor.consumers[i]);
    }
  }
  std::vector<std::vector<uint32_t>> by_root(core.units);
  for (uint32_t unit = 0; unit < core.units; ++unit)
    by_root[FindRoot(parent, unit)].push_back(unit);
  std::erase_if(by_root, [](const std::vector<uint32_t>& units) { return units.empty(); });
  return by_root;
}

Ticks NoiseBetween(const Problem& problem, const Core& core, const Assignment& a,
                   const Assignment& b, Ticks makespan) {
  double variance = 0;
  Ticks sync = 0;
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const Item& item = problem.items[i];
    const uint32_t unit = core.unit_of[i];
    if (a[unit] == b[unit]) continue;
    for (const uint32_t device : {a[unit], b[unit]}) {
      const Cost& cost = item.costs[device];
      variance += std::pow(cost.seconds * item.executions * cost.sigma, 2);
    }
    if (core.tables.empty()) continue;
    const TransferTable& table = core.tables.front();
    const auto at = [&](uint32_t from, uint32_t to) {
      return table.doubt[size_t{from} * table.width + to];
    };
    sync = std::max(sync, at(a[unit], b[unit]) + at(b[unit], a[unit]));
  }
  return std::max(
      {ToTicks(2 * std::sqrt(variance)), ToTicks(ToSeconds(makespan) * kLeastGain), sync});
}

void RefineBorders(const Simulator& simulator, const Core& core, uint64_t step_limit,
                   Assignment& at, std::vector<DecidedBy>& decided) {
  const uint64_t limit = simulator.steps() + step_limit;
  Ticks score = simulator.Score(at);
  const int64_t excess = simulator.Excess(at);
  simulator.SetBase(at);
  const auto try_move = [&](const std::vector<uint32_t>& units, uint32_t device) {
    if (!CanAll(core, units, device)) return false;
    Assignment moved = at;
    for (const uint32_t unit : units) moved[unit] = device;
    const Ticks moved_score = simulator.ScoreMoved(moved, units, score);
    if (moved_score >= score || simulator.Excess(moved) > excess) return false;
    score = moved_score;
    at = std::move(moved);
    simulator.SetBase(at);
    for (const uint32_t unit : units) decided[unit] = DecidedBy::kRefine;
    return true;
  };
  for (int round = 0; round < kMostRefinements; ++round) {
    bool improved = false;
    for (uint32_t unit = 0; unit < core.units && simulator.steps() < limit; ++unit) {
      for (const uint32_t device : NeighbourDevices(core, at, {unit})) {
        improved |= try_move({unit}, device);
      }
    }
    for (const std::vector<uint32_t>& island : FindIslands(core, at)) {
      if (simulator.steps() >= limit) break;
      // A move before may have split it.
      const auto same = [&](uint32_t unit) { return at[unit] == at[island.front()]; };
      if (island.size() < 2 || !std::all_of(island.begin(), island.end(), same)) continue;
      for (const uint32_t device : NeighbourDevices(core, at, island)) {
        improved |= try_move(island, device);
      }
    }
    // Away from the borders only where the budget lasts: a branch may want a device that none of
    // its neighbours has.
    for (uint32_t unit = 0; unit < core.units && simulator.steps() < limit; ++unit) {
      for (uint32_t device = 0; device < core.devices; ++device) {
        if (device != at[unit]) improved |= try_move({unit}, device);
      }
    }
    for (const CoreTensor& tensor : core.tensors) {
      if (simulator.steps() >= limit) break;
      if (tensor.producer == kNone || tensor.consumers.empty()) continue;
      for (uint32_t device = 0; device < core.devices; ++device) {
        improved |= try_move({tensor.producer, tensor.consumers.front()}, device);
      }
    }
    if (!improved || simulator.steps() >= limit) return;
  }
}

void SaveTransfers(const Problem& problem, const Simulator& simulator, const Core& core,
                   Assignment& at, std::vector<DecidedBy>& decided) {
  const Assignment before = at;
  const Ticks score = simulator.Score(before);
  const int64_t excess = simulator.Excess(before);
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    for (const uint32_t device : NeighbourDevices(core, at, {unit})) {
      if (core.CostOf(unit, device) >= kNever) continue;
      Assignment moved = at;
      moved[unit] = device;
      if (CountTransfers(core, moved) >= CountTransfers(core, at) ||
          core.Additive(moved) >= core.Additive(at) || simulator.Excess(moved) > excess) {
        continue;
      }
      const Ticks longer = simulator.Score(moved) - score;
      if (longer > 0 && longer >= NoiseBetween(problem, core, before, moved, score)) continue;
      at = std::move(moved);
      decided[unit] = DecidedBy::kHysteresis;
    }
  }
}

void PullBackIslands(const Problem& problem, const Simulator& simulator, const Core& core,
                     uint32_t main, Assignment& at, std::vector<DecidedBy>& decided) {
  const int64_t excess = simulator.Excess(at);
  const std::vector<std::vector<uint32_t>> islands = FindIslands(core, at);
  Ticks score = simulator.Score(at);
  for (const std::vector<uint32_t>& island : islands) {
    if (at[island.front()] == main || !CanAll(core, island, main)) continue;
    Assignment pulled = at;
    for (const uint32_t unit : island) pulled[unit] = main;
    const Ticks pulled_score = simulator.Score(pulled);
    if (pulled_score >= kNever || simulator.Excess(pulled) > excess) continue;
    if (pulled_score - score >= NoiseBetween(problem, core, at, pulled, score)) continue;
    at = std::move(pulled);
    score = pulled_score;
    for (const uint32_t unit : island) decided[unit] = DecidedBy::kHysteresis;
  }
}

}  // namespace halyard::place
