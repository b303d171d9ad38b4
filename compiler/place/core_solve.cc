// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/core_solve.h"

#include <algorithm>
#include <numeric>

#include "compiler/place/cut.h"
#include "compiler/place/exact_dp.h"
#include "compiler/place/search.h"

namespace halyard::place {
namespace {

constexpr uint64_t kDpSteps = 100'000;
constexpr uint64_t kSearchSteps = 200'000;  // per start
constexpr uint64_t kRepairSteps = 4'000'000;
constexpr uint32_t kPriceRounds = 8;
constexpr double kFirstPrice = 0.25;  // of the plan's cost, for all bytes of the cap
constexpr double kPriceStep = 4;

// Bytes that a unit brings to the memory of its device: its weights, shared among those that use
// them, and what it makes.
std::vector<double> BytesOfUnits(const Problem& problem, const Core& core) {
  std::vector<double> users(problem.weights.size(), 0), out(core.units, 0);
  for (const Item& item : problem.items) {
    for (const uint32_t weight : item.weights) ++users[weight];
  }
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    for (const uint32_t weight : problem.items[i].weights) {
      out[core.unit_of[i]] += static_cast<double>(problem.weights[weight].bytes) / users[weight];
    }
  }
  for (const Tensor& tensor : problem.tensors) {
    if (tensor.producer != kNone) {
      out[core.unit_of[tensor.producer]] += static_cast<double>(tensor.bytes);
    }
  }
  return out;
}

// Moves single units out of the overfull memories, the least cost per byte first, until all fits or
// nothing helps; then back down in cost within the caps.
void Repair(const Simulator& simulator, const Core& core, uint64_t* steps, Assignment& at) {
  const uint64_t limit = *steps + kRepairSteps;
  int64_t excess = simulator.Excess(at);
  const auto try_all = [&](bool must_shrink) {
    uint32_t best_unit = kNone, best_device = 0;
    int64_t best_excess = excess;
    double best_price = 0;
    for (uint32_t unit = 0; unit < core.units; ++unit) {
      for (uint32_t device = 0; device < core.devices; ++device) {
        if (device == at[unit] || core.CostOf(unit, device) >= kNever || *steps > limit) continue;
        const Ticks delta = core.MoveDelta(at, unit, device);
        if (!must_shrink && delta >= 0) continue;
        const uint32_t old = at[unit];
        at[unit] = device;
        const int64_t moved_excess = simulator.Excess(at);
        at[unit] = old;
        *steps += core.units;
        if (must_shrink ? moved_excess >= excess : moved_excess > excess) continue;
        const double price =
            must_shrink ? static_cast<double>(delta) / static_cast<double>(excess - moved_excess)
                        : static_cast<double>(delta);
        if (best_unit != kNone && price >= best_price) continue;
        best_unit = unit;
        best_device = device;
        best_excess = moved_excess;
        best_price = price;
      }
    }
    if (best_unit == kNone) return false;
    at[best_unit] = best_device;
    excess = best_excess;
    return true;
  };
  while (excess > 0 && try_all(true)) {
  }
  while (excess == 0 && try_all(false)) {
  }
}

}  // namespace

CoreSolution SolveCore(const Core& core, const std::vector<Assignment>& starts, uint64_t* steps) {
  CoreSolution out;
  if (core.devices == 1) {
    out.at.assign(core.units, 0);
    out.is_optimal = true;
    return out;
  }
  if (core.devices == 2) {
    const Assignment first(core.units, 0);
    ExpansionCut cut(core, first, 1);
    out.at = cut.Solve();
    *steps += cut.steps();
    out.method = Method::kExactCut;
    out.is_optimal = true;
    return out;
  }
  std::vector<Assignment> all;
  for (uint32_t device = 0; device < core.devices; ++device) {
    all.push_back(MostlyOn(core, device, steps));
  }
  all.push_back(CheapestDevices(core));
  for (const Assignment& start : starts) {
    if (std::find(all.begin(), all.end(), start) == all.end()) all.push_back(start);
  }
  Ticks bound = kNever;
  for (const Assignment& start : all) bound = std::min(bound, core.Additive(start));
  if (auto exact = SolveExactDp(core, kDpSteps, steps, bound)) {
    out.at = std::move(*exact);
    out.method = Method::kExactDp;
    out.is_optimal = true;
    return out;
  }
  out.at = SearchFromStarts(core, all, kSearchSteps, steps);
  out.method = Method::kExpansion;
  return out;
}

MemorySolution SolveWithinCaps(const Problem& problem, const Simulator& simulator, const Core& core,
                               const std::vector<Assignment>& starts, uint64_t* steps) {
  const std::vector<double> bytes = BytesOfUnits(problem, core);
  const auto& devices = problem.machine.devices;
  const CoreSolution free = SolveCore(core, starts, steps);
  MemorySolution best;
  Ticks best_score = kNever;
  const auto consider = [&](const Assignment& at) {
    if (at.empty() || !core.IsFeasible(at)) return false;
    const int64_t excess = simulator.Excess(at);
    const Ticks score = simulator.Score(at);
    if (best.at.empty() || excess < best.excess || (excess == best.excess && score < best_score)) {
      best.at = at;
      best.excess = excess;
      best_score = score;
    }
    return excess == 0;
  };
  if (consider(free.at)) return best;
  for (const Assignment& start : starts) consider(start);

  const double whole = static_cast<double>(core.Additive(free.at));
  std::vector<double> price(problem.memory_caps.size(), 0), enough = price, too_low = price;
  std::vector<MemoryUse> uses = simulator.Memory(free.at);
  // A cap of a few bytes asks for as little as possible, not for prices without end.
  const double all_bytes = std::accumulate(bytes.begin(), bytes.end(), 1.0);
  for (uint32_t round = 0; round < kPriceRounds; ++round) {
    ++best.rounds;
    bool any = false;
    for (size_t m = 0; m < price.size(); ++m) {
      const int64_t cap = problem.memory_caps[m];
      if (cap <= 0) continue;
      const bool is_over = uses[m].Total() > cap;
      const double first =
          whole * kFirstPrice / std::max(static_cast<double>(cap), all_bytes / 1024);
      if (is_over) {
        too_low[m] = price[m];
        price[m] = enough[m] > price[m] ? (enough[m] + price[m]) / 2
                                        : std::max(first, price[m] * kPriceStep);
        any = true;
      } else if (price[m] > 0) {
        // It fits: a lower price may do.
        enough[m] = price[m];
        price[m] = (price[m] + too_low[m]) / 2;
        any = true;
      }
    }
    if (!any) break;
    Core priced = core;
    for (uint32_t unit = 0; unit < core.units; ++unit) {
      for (uint32_t d = 0; d < core.devices; ++d) {
        Ticks& cost = priced.cost[size_t{unit} * core.devices + d];
        if (cost >= kNever) continue;
        cost += ToTicks(price[devices[d].memory] * bytes[unit] * 1e-12);
      }
    }
    const Assignment at = SolveCore(priced, starts, steps).at;
    if (at.empty()) break;
    consider(at);
    uses = simulator.Memory(at);
  }
  std::vector<Assignment> seeds = {best.at, free.at};
  for (uint32_t d = 0; d < core.devices; ++d) seeds.push_back(MostlyOn(core, d, steps));
  for (Assignment& seed : seeds) {
    Repair(simulator, core, steps, seed);
    consider(seed);
  }
  return best;
}

}  // namespace halyard::place
