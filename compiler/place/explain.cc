// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/explain.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler/place/core_solve.h"
#include "compiler/place/cut.h"
#include "compiler/place/search.h"
#include "compiler/place/stream.h"

namespace halyard::place {
namespace {

// Solves for what a missing kernel would save, at most.
constexpr size_t kMostMissing = 32;
constexpr uint64_t kStartSteps = 100'000;
constexpr uint64_t kMarginSteps = 4'000;  // per item and device, where no cut answers exactly
constexpr uint64_t kAllMarginSteps = 500'000;

Ticks TransfersOf(const Core& core, const Assignment& at, uint32_t unit) {
  Ticks total = 0;
  for (const uint32_t t : core.touching[unit]) total += core.TensorCost(core.tensors[t], at);
  return total;
}

bool IsMissing(Reason reason) {
  return reason == Reason::kOp || reason == Reason::kDType || reason == Reason::kAttribute ||
         reason == Reason::kShape || reason == Reason::kTarget;
}

// What plans cost that have one unit elsewhere, where no cut answers: from what a descent makes of
// the plan, the unit moves, and then whatever that makes worth moving.
class ForcedPlans {
 public:
  ForcedPlans(const Core& core, const Assignment& at, uint64_t* steps) : start_(at), steps_(steps) {
    Descend(core, start_, {}, *steps + kStartSteps, steps);
    cost_ = core.Additive(start_);
  }
  // `core`: the same but for what `unit` costs on `device`.
  Ticks CostWith(const Core& core, uint32_t unit, uint32_t device) const {
    if (start_[unit] == device) return cost_;
    Assignment at = start_;
    Ticks cost = cost_ + core.MoveDelta(at, unit, device);
    at[unit] = device;
    cost += DescendAround(core, at, unit, *steps_ + kMarginSteps, steps_);
    return cost;
  }

 private:
  Assignment start_;
  Ticks cost_;
  uint64_t* steps_;
};

void AddMargins(const Problem& problem, const Core& core, const Assignment& at, Plan* plan) {
  const Ticks cost = core.Additive(at);
  std::optional<ExpansionCut> cut;
  std::optional<ForcedPlans> forced_plans;
  const Assignment first(core.units, 0);
  if (core.devices == 2) {
    cut.emplace(core, first, 1);
    cut->Solve();
  } else {
    forced_plans.emplace(core, at, &plan->steps);
  }
  std::vector<uint32_t> units(core.units);
  std::iota(units.begin(), units.end(), 0u);
  std::stable_sort(units.begin(), units.end(), [&](uint32_t a, uint32_t b) {
    return core.CostOf(a, at[a]) > core.CostOf(b, at[b]);
  });
  int64_t left = problem.explained_items;
  const uint64_t limit = plan->steps + kAllMarginSteps;
  for (const uint32_t unit : units) {
    if (left-- <= 0 || plan->steps > limit) break;
    uint32_t rival = kNone;
    Ticks best = kNever;
    for (uint32_t device = 0; device < core.devices; ++device) {
      if (device == at[unit] || core.CostOf(unit, device) >= kNever) continue;
      const Ticks forced = cut ? cut->CostWith(unit, device == 1).value_or(kNever)
                               : forced_plans->CostWith(core, unit, device);
      if (forced >= best) continue;
      best = forced;
      rival = device;
    }
    if (rival == kNone) continue;
    for (const uint32_t item : core.items_of[unit]) {
      Decision& decision = plan->decisions[item];
      decision.rival = rival;
      decision.margin_seconds = ToSeconds(best - cost);
      decision.margin_is_exact = cut.has_value();
      if (best == cost && decision.decided_by == DecidedBy::kExactCut) {
        decision.decided_by = DecidedBy::kTie;
      }
    }
  }
  if (cut) plan->steps += cut->steps();
}

void AddMissing(const Problem& problem, const Core& core, const Assignment& at, Plan* plan) {
  if (problem.explained_items <= 0) return;
  uint64_t steps = 0;
  const Ticks cost = core.Additive(at);
  std::optional<ForcedPlans> forced_plans;  // where there is one to ask for
  size_t solved = 0;
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    if (core.items_of[unit].size() != 1) continue;
    const uint32_t item = core.items_of[unit].front();
    const std::vector<Cost>& costs = problem.items[item].costs;
    for (uint32_t device = 0; device < core.devices; ++device) {
      if (!IsMissing(costs[device].reason) || costs[device].seconds <= 0) continue;
      if (++solved > kMostMissing) break;
      Core able = core;
      able.cost[size_t{unit} * core.devices + device] =
          ToTicks(costs[device].seconds * problem.items[item].executions);
      Ticks with = kNever;
      if (core.devices == 2) {
        const Assignment first(core.units, 0);
        ExpansionCut cut(able, first, 1);
        with = able.Additive(cut.Solve());
        steps += cut.steps();
      } else {
        if (!forced_plans) forced_plans.emplace(core, at, &steps);
        with = forced_plans->CostWith(able, unit, device);
      }
      if (with < cost) plan->decisions[item].missing.push_back({device, ToSeconds(cost - with)});
    }
  }
  plan->steps += steps;
}

// "host to cuda:0"; "host and cuda:0" where both directions take turns.
std::string NameLink(const Machine& machine, uint32_t engine) {
  std::vector<std::string> ways;
  for (const Link& link : machine.links) {
    if (link.engine != engine) continue;
    const std::string &from = machine.memories[link.from].name,
                      &to = machine.memories[link.to].name;
    const auto back = std::find(ways.begin(), ways.end(), to + " to " + from);
    if (back != ways.end()) {
      *back = to + " and " + from;
    } else {
      ways.push_back(from + " to " + to);
    }
  }
  return fmt::format("{}", fmt::join(ways, ", "));
}

// `arrivals`: of the simulated run.
void AddTransfers(const Problem& problem, const Core& core, const Assignment& at,
                  const std::vector<Ticks>& arrivals, Plan* plan) {
  const TransferModel model(problem.machine);
  uint32_t engines = 0;
  for (const Link& link : problem.machine.links) engines = std::max(engines, link.engine + 1);
  for (uint32_t engine = 0; engine < engines; ++engine) {
    plan->link_names.push_back(NameLink(problem.machine, engine));
  }
  for (size_t c = 0; c < core.tensors.size(); ++c) {
    const CoreTensor& tensor = core.tensors[c];
    const Tensor& source = problem.tensors[tensor.tensor];
    const uint32_t from = tensor.producer == kNone ? kNone : at[tensor.producer];
    std::vector<uint32_t> to;
    for (const uint32_t consumer : tensor.consumers) to.push_back(at[consumer]);
    if (tensor.is_output) to.push_back(core.home < core.devices ? core.home : kNone);
    std::sort(to.begin(), to.end());
    to.erase(std::unique(to.begin(), to.end()), to.end());
    for (const uint32_t device : to) {
      if (device == from) continue;
      // As in the core: an output ends in the caller's memory.
      const bool is_end = source.is_output && device == core.home;
      const TransferCost cost = model.Estimate(from, is_end ? kNone : device, source.bytes);
      if (cost.seconds() == 0) continue;  // the input is there already
      Transfer transfer;
      transfer.tensor = tensor.tensor;
      transfer.from = from;
      transfer.to = device;
      transfer.bytes = source.bytes;
      transfer.seconds = cost.seconds() * source.executions;
      transfer.source = cost.source;
      transfer.path = cost.path;
      const uint32_t to_cell = device == kNone ? core.devices : device;
      const TransferTable& table = core.tables[tensor.table];
      const size_t cell = size_t{from == kNone ? core.devices : from} * table.width + to_cell;
      const Ticks arrival = arrivals[c * (core.devices + 1) + to_cell];
      if (arrival >= 0) {
        transfer.copy_seconds = ToSeconds(table.copy[cell]);
        transfer.start_seconds =
            std::max(0.0, ToSeconds(arrival - table.copy[cell] - table.sync[cell]));
        transfer.links = table.engines[cell];
      }
      plan->transfers.push_back(std::move(transfer));
    }
  }
}

}  // namespace

void ExplainPlan(const Problem& problem, const Core& core, const Simulator& simulator,
                 const Assignment& at, const std::vector<DecidedBy>& decided,
                 std::vector<std::vector<Cost>> marked, Plan* plan) {
  const Machine& machine = problem.machine;
  plan->snapshot = machine.snapshot;
  plan->machine_hash = machine.Hash();
  std::vector<Ticks> ends;
  plan->makespan_seconds = ToSeconds(simulator.Makespan(at, &ends));
  const std::vector<Ticks> arrivals = simulator.arrivals();
  Ticks additive = core.Additive(at);
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    additive -= core.penalty[size_t{unit} * core.devices + at[unit]];
  }
  plan->additive_seconds = ToSeconds(additive);
  plan->decisions.resize(problem.items.size());
  plan->devices.assign(core.devices, {});
  double variance = 0;
  const auto is_feasible = [](const Cost& cost) { return cost.feasible(); };
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const uint32_t unit = core.unit_of[i], device = at[unit];
    const Item& item = problem.items[i];
    Decision& decision = plan->decisions[i];
    decision.device = device;
    decision.decided_by = decided[unit];
    decision.streams = StreamedBytes(problem, i, machine.devices[device].memory) > 0;
    if (core.devices == 1) {
      decision.decided_by = DecidedBy::kOnlyDevice;
    } else if (std::count_if(item.costs.begin(), item.costs.end(), is_feasible) == 1) {
      decision.decided_by = DecidedBy::kOnlyFeasible;
    } else if (std::count_if(marked[i].begin(), marked[i].end(), is_feasible) == 1) {
      const auto is_forbidden = [](const Cost& cost) { return cost.reason == Reason::kForbidden; };
      decision.decided_by = std::any_of(marked[i].begin(), marked[i].end(), is_forbidden)
                                ? DecidedBy::kUser
                                : DecidedBy::kOnlyFeasible;
    }
    const double seconds = item.costs[device].seconds * item.executions;
    decision.start_seconds = std::max(0.0, ToSeconds(ends[i]) - seconds);
    plan->devices[device].items += 1;
    plan->devices[device].busy_seconds += seconds;
    variance += std::pow(seconds * item.costs[device].sigma, 2);
  }
  plan->sigma_seconds = std::sqrt(variance);
  Assignment moved = at;
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    const Ticks caused = TransfersOf(core, at, unit);
    Ticks best = kNever, avoided = 0;
    for (uint32_t device = 0; device < core.devices; ++device) {
      if (device == at[unit] || core.CostOf(unit, device) >= kNever) continue;
      moved[unit] = device;
      const Ticks transfers = TransfersOf(core, moved, unit);
      if (core.CostOf(unit, device) + transfers < best) {
        best = core.CostOf(unit, device) + transfers;
        avoided = transfers;
      }
    }
    moved[unit] = at[unit];
    for (const uint32_t item : core.items_of[unit]) {
      plan->decisions[item].transfer_seconds = ToSeconds(caused);
      plan->decisions[item].avoided_seconds = ToSeconds(avoided);
    }
  }
  if (core.devices > 1) {
    AddMargins(problem, core, at, plan);
    AddMissing(problem, core, at, plan);
  }
  AddTransfers(problem, core, at, arrivals, plan);
  plan->stream_lots = problem.stream_lots;
  const std::vector<MemoryUse> uses = simulator.Memory(at);
  for (size_t m = 0; m < uses.size(); ++m) {
    plan->memories.push_back({uses[m].weight_bytes, uses[m].activation_bytes,
                              problem.memory_caps.empty() ? 0 : problem.memory_caps[m]});
    plan->memory_names.push_back(machine.memories[m].name);
  }
  for (const Device& device : machine.devices) plan->device_names.push_back(device.name);
  for (const Item& item : problem.items) {
    plan->item_names.push_back(item.name);
    plan->item_keys.push_back(item.key);
    plan->item_nodes.push_back(item.nodes);
  }
  for (const Tensor& tensor : problem.tensors) plan->tensor_names.push_back(tensor.name);
  plan->costs = std::move(marked);
}

}  // namespace halyard::place
