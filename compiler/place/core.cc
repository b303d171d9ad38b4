// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/core.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "compiler/place/timings.h"

namespace halyard::place {
namespace {

// The costs of an item with what the wishes forbid, and how it reads when nothing is left.
Status ApplyWishes(const Problem& problem, uint32_t index, const std::vector<Constraint>& wishes,
                   std::vector<Cost>& costs) {
  const Item& item = problem.items[index];
  const auto device_name = [&](uint32_t d) { return problem.machine.devices[d].name; };
  // " by the affinity 'conv*=cpu:0'", where the wish came from one.
  const auto by = [&](const Constraint& wish) {
    return wish.affinity < problem.affinities.size()
               ? fmt::format(" by the affinity '{}'", problem.affinities[wish.affinity])
               : "";
  };
  uint32_t required = kNone;
  std::string required_by;
  for (const Constraint& wish : wishes) {
    if (wish.strength != Strength::kRequire) continue;
    if (required != kNone && required != wish.device) {
      return InvalidArgument("'{}' is required on '{}'{} and on '{}'{}.", item.name,
                             device_name(required), required_by, device_name(wish.device),
                             by(wish));
    }
    required = wish.device;
    required_by = by(wish);
  }
  if (required != kNone && !costs[required].feasible()) {
    const Cost& cost = costs[required];
    if (cost.reason != Reason::kLastResort) {
      return InvalidArgument("'{}' is required on '{}'{}, which cannot run it ({}){}{}", item.name,
                             device_name(required), required_by, FormatReason(cost.reason),
                             cost.detail.empty() ? "." : ": ", cost.detail);
    }
    costs[required].reason = Reason::kNone;  // asked for by name
  }
  for (size_t d = 0; d < costs.size() && required != kNone; ++d) {
    if (d == required || !costs[d].feasible()) continue;
    costs[d].reason = Reason::kForbidden;
    costs[d].detail = fmt::format("It is required on '{}'{}.", device_name(required), required_by);
  }
  for (const Constraint& wish : wishes) {
    if (wish.strength != Strength::kForbid) continue;
    if (wish.device == required) {
      return InvalidArgument("'{}' is required on '{}'{} and forbidden there{}.", item.name,
                             device_name(required), required_by, by(wish));
    }
    if (!costs[wish.device].feasible()) continue;
    costs[wish.device].reason = Reason::kForbidden;
    costs[wish.device].detail =
        fmt::format("It is forbidden on '{}'{}.", device_name(wish.device), by(wish));
  }
  const auto is_feasible = [](const Cost& cost) { return cost.feasible(); };
  if (std::any_of(costs.begin(), costs.end(), is_feasible)) return OkStatus();
  std::string sentences;
  bool by_user = false;
  for (size_t d = 0; d < costs.size(); ++d) {
    const Cost& cost = costs[d];
    const std::string device = device_name(static_cast<uint32_t>(d));
    by_user |= cost.reason == Reason::kForbidden;
    if (cost.reason == Reason::kForbidden) {
      sentences += " " + cost.detail;
    } else if (cost.reason == Reason::kLastResort) {
      sentences += fmt::format(" '{}' is there for what no other device can run.", device);
    } else {
      sentences += fmt::format(" '{}' cannot run it ({}){}{}", device, FormatReason(cost.reason),
                               cost.detail.empty() ? "." : ": ", cost.detail);
    }
  }
  if (by_user) {
    return InvalidArgument("The wishes leave no device for '{}'.{}", item.name, sentences);
  }
  return Unimplemented("No device can run '{}'.{}", item.name, sentences);
}

// `home_device`: what `is_output` brings there only has to reach the caller's memory; no kernel of
// the device follows. kNone: there is none.
TransferTable MakeTable(const TransferModel& model, uint32_t devices, uint32_t home_device,
                        const Tensor& tensor) {
  TransferTable table;
  table.width = devices + 1;
  const auto scale = [&](double seconds) { return ToTicks(seconds * tensor.executions); };
  for (uint32_t from = 0; from <= devices; ++from) {
    for (uint32_t to = 0; to <= devices; ++to) {
      const bool is_end = to == devices || (tensor.is_output && to == home_device && from != to);
      TransferCost cost =
          model.Estimate(from == devices ? kNone : from, is_end ? kNone : to, tensor.bytes);
      table.sync.push_back(scale(cost.sync_seconds));
      table.copy.push_back(scale(cost.copy_seconds));
      table.doubt.push_back(
          scale(cost.is_crossing_measured ? 2 * cost.sigma_seconds : cost.sync_seconds));
      table.engines.push_back(std::move(cost.engines));
    }
  }
  return table;
}

}  // namespace

Ticks ToTicks(double seconds) {
  if (!std::isfinite(seconds)) return kNever;
  return std::llround(std::clamp(seconds, 0.0, kMostSeconds) * 1e12);
}

size_t GroupCount(const Problem& problem) {
  size_t count = 0;
  for (const Item& item : problem.items) {
    if (item.group != kNone) count = std::max(count, size_t{item.group} + 1);
  }
  return count;
}

Ticks Core::TensorCost(const CoreTensor& tensor, const Assignment& at) const {
  const uint32_t from = tensor.producer == kNone ? devices : at[tensor.producer];
  uint64_t paid = 0;
  Ticks total = 0;
  const TransferTable& table = tables[tensor.table];
  const auto pay = [&](uint32_t to) {
    if (to == from || (paid >> to & 1) != 0) return;
    paid |= uint64_t{1} << to;
    total += table.Total(from, to);
  };
  for (const uint32_t consumer : tensor.consumers) pay(at[consumer]);
  if (tensor.is_output) pay(home);
  return total;
}

Ticks Core::Additive(const Assignment& at) const {
  Ticks total = 0;
  for (uint32_t unit = 0; unit < units; ++unit) {
    if (CostOf(unit, at[unit]) >= kNever) return kNever;
    total += CostOf(unit, at[unit]);
  }
  for (const CoreTensor& tensor : tensors) {
    total += TensorCost(tensor, at);
    if (total >= kNever) return kNever;
  }
  return total;
}

bool Core::IsFeasible(const Assignment& at) const { return Additive(at) < kNever; }

Ticks Core::MoveDelta(Assignment& at, uint32_t unit, uint32_t device) const {
  const uint32_t old = at[unit];
  Ticks delta = CostOf(unit, device) - CostOf(unit, old);
  for (const uint32_t t : touching[unit]) delta -= TensorCost(tensors[t], at);
  at[unit] = device;
  for (const uint32_t t : touching[unit]) delta += TensorCost(tensors[t], at);
  at[unit] = old;
  return delta;
}

Assignment Core::Expand(const Assignment& units_at) const {
  Assignment at(unit_of.size());
  for (size_t i = 0; i < at.size(); ++i) at[i] = units_at[unit_of[i]];
  return at;
}

Assignment Core::Contract(const Assignment& items_at) const {
  Assignment at(units);
  for (uint32_t unit = 0; unit < units; ++unit) at[unit] = items_at[items_of[unit].front()];
  return at;
}

Result<Core> BuildCore(const Problem& problem, const std::vector<bool>& closed,
                       std::vector<std::vector<Cost>>* marked) {
  Core core;
  core.devices = static_cast<uint32_t>(problem.machine.devices.size());
  const size_t item_count = problem.items.size();

  std::vector<std::vector<Constraint>> wishes(item_count);
  for (const Constraint& wish : problem.constraints) wishes[wish.item].push_back(wish);
  std::vector<std::vector<Cost>> costs(item_count);
  for (uint32_t i = 0; i < item_count; ++i) {
    costs[i] = problem.items[i].costs;
    bool elsewhere = false;
    for (uint32_t d = 0; d < core.devices; ++d) {
      const bool is_last = !problem.last_resort.empty() && problem.last_resort[d];
      elsewhere |= costs[i][d].feasible() && !is_last;
    }
    for (uint32_t d = 0; d < core.devices && elsewhere; ++d) {
      if (!problem.last_resort.empty() && problem.last_resort[d] && costs[i][d].feasible()) {
        costs[i][d].reason = Reason::kLastResort;
      }
    }
    HY_TRY(ApplyWishes(problem, i, wishes[i], costs[i]));
  }

  // Closed groups that no device can run as a whole are opened.
  std::vector<bool> is_closed = closed;
  is_closed.resize(GroupCount(problem), false);
  std::vector<uint64_t> can(is_closed.size(), ~uint64_t{0});
  for (size_t i = 0; i < item_count; ++i) {
    const uint32_t group = problem.items[i].group;
    if (group == kNone) continue;
    for (uint32_t d = 0; d < core.devices; ++d) {
      if (!costs[i][d].feasible()) can[group] &= ~(uint64_t{1} << d);
    }
  }
  const uint64_t all = (uint64_t{1} << core.devices) - 1;
  for (size_t g = 0; g < is_closed.size(); ++g) {
    if ((can[g] & all) == 0) is_closed[g] = false;
  }

  std::map<uint32_t, uint32_t> unit_of_group;
  for (uint32_t i = 0; i < item_count; ++i) {
    const uint32_t group = problem.items[i].group;
    uint32_t unit = static_cast<uint32_t>(core.items_of.size());
    if (group != kNone && is_closed[group])
      unit = unit_of_group.try_emplace(group, unit).first->second;
    if (unit == core.items_of.size()) core.items_of.emplace_back();
    core.items_of[unit].push_back(i);
    core.unit_of.push_back(unit);
  }
  core.units = static_cast<uint32_t>(core.items_of.size());
  core.cost.assign(size_t{core.units} * core.devices, 0);
  core.penalty = core.cost;

  Ticks least_sync = kNever;
  const TransferModel model(problem.machine);
  core.home = model.home_device() == kNone ? core.devices : model.home_device();
  for (uint32_t a = 0; a < core.devices; ++a) {
    for (uint32_t b = 0; b < core.devices; ++b) {
      if (a != b) least_sync = std::min(least_sync, ToTicks(model.Estimate(a, b, 0).sync_seconds));
    }
  }
  for (uint32_t i = 0; i < item_count; ++i) {
    const Item& item = problem.items[i];
    Ticks cheapest = kNever;
    for (const Cost& cost : costs[i]) {
      if (cost.feasible()) cheapest = std::min(cheapest, ToTicks(cost.seconds * item.executions));
    }
    for (uint32_t d = 0; d < core.devices; ++d) {
      const size_t at = size_t{core.unit_of[i]} * core.devices + d;
      if (!costs[i][d].feasible()) {
        core.cost[at] = kNever;
        continue;
      }
      Ticks penalty = 0;
      for (const Constraint& wish : wishes[i]) {
        if (wish.strength != Strength::kPrefer || wish.device == d) continue;
        penalty += std::max(least_sync, ToTicks(ToSeconds(cheapest) * problem.preference));
      }
      if (core.cost[at] >= kNever) continue;
      core.cost[at] += ToTicks(costs[i][d].seconds * item.executions) + penalty;
      core.penalty[at] += penalty;
    }
  }

  core.touching.resize(core.units);
  std::map<std::tuple<int64_t, double, bool>, uint32_t> table_of;
  for (uint32_t t = 0; t < problem.tensors.size(); ++t) {
    const Tensor& tensor = problem.tensors[t];
    CoreTensor out;
    out.tensor = t;
    out.is_output = tensor.is_output;
    if (tensor.producer != kNone) out.producer = core.unit_of[tensor.producer];
    for (const uint32_t consumer : tensor.consumers) {
      if (core.unit_of[consumer] != out.producer) out.consumers.push_back(core.unit_of[consumer]);
    }
    std::sort(out.consumers.begin(), out.consumers.end());
    out.consumers.erase(std::unique(out.consumers.begin(), out.consumers.end()),
                        out.consumers.end());
    if (out.consumers.empty() && (!out.is_output || out.producer == kNone)) continue;
    const auto [entry, is_new] =
        table_of.try_emplace({tensor.bytes, tensor.executions, tensor.is_output},
                             static_cast<uint32_t>(core.tables.size()));
    if (is_new) {
      core.tables.push_back(MakeTable(model, core.devices, model.home_device(), tensor));
    }
    out.table = entry->second;
    const auto index = static_cast<uint32_t>(core.tensors.size());
    if (out.producer != kNone) core.touching[out.producer].push_back(index);
    for (const uint32_t consumer : out.consumers) {
      core.touching[consumer].push_back(index);
      if (out.producer != kNone && consumer < out.producer) core.is_ordered = false;
    }
    core.tensors.push_back(std::move(out));
  }
  if (marked != nullptr) *marked = std::move(costs);
  return core;
}

}  // namespace halyard::place
