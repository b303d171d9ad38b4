// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/simulate.h"

#include "compiler/place/stream.h"

#include <algorithm>
#include <map>

namespace halyard::place {
namespace {

constexpr uint32_t kKept = 8;  // items from one kept timeline to the next

}  // namespace

Simulator::Simulator(const Problem& problem, const Core& core) : problem_(problem), core_(core) {
  reads_of_.resize(problem.items.size());
  made_by_.resize(problem.items.size());
  for (uint32_t c = 0; c < core.tensors.size(); ++c) {
    const Tensor& tensor = problem.tensors[core.tensors[c].tensor];
    if (tensor.producer != kNone) made_by_[tensor.producer].push_back(c);
    for (const uint32_t consumer : tensor.consumers) {
      // Readers in the maker's own unit need no transfer and wait for the unit's order only.
      if (core.unit_of[consumer] != core.tensors[c].producer) reads_of_[consumer].push_back(c);
    }
  }
  uint32_t silicons = 0, engines = 0;
  for (const Device& device : problem.machine.devices)
    silicons = std::max(silicons, device.silicon + 1);
  for (const Link& link : problem.machine.links) engines = std::max(engines, link.engine + 1);
  silicon_free_.resize(silicons);
  silicon_left_.resize(silicons);
  engine_free_.resize(engines);
  arrival_.resize(core.tensors.size() * (core.devices + 1));
  made_at_.resize(core.tensors.size());
  for (const Item& item : problem.items) {
    for (const Cost& cost : item.costs) ticks_.push_back(ToTicks(cost.seconds * item.executions));
  }
}

void Simulator::Reset() const {
  std::fill(silicon_free_.begin(), silicon_free_.end(), 0);
  std::fill(engine_free_.begin(), engine_free_.end(), 0);
  std::fill(arrival_.begin(), arrival_.end(), -1);
  std::fill(made_at_.begin(), made_at_.end(), 0);
}

Ticks Simulator::Arrive(uint32_t c, uint32_t to, const Assignment& at, bool probe) const {
  const CoreTensor& tensor = core_.tensors[c];
  const uint32_t from = tensor.producer == kNone ? core_.devices : at[tensor.producer];
  if (from == to) return made_at_[c];
  Ticks& arrival = arrival_[size_t{c} * (core_.devices + 1) + to];
  if (arrival >= 0) return arrival;
  const TransferTable& table = core_.tables[tensor.table];
  const size_t cell = size_t{from} * table.width + to;
  Ticks start = made_at_[c];
  for (const uint32_t engine : table.engines[cell]) start = std::max(start, engine_free_[engine]);
  const Ticks end = start + table.copy[cell];
  ++steps_;
  if (probe) return end + table.sync[cell];
  for (const uint32_t engine : table.engines[cell]) engine_free_[engine] = end;
  arrival = end + table.sync[cell];
  return arrival;
}

Ticks Simulator::Run(uint32_t item, uint32_t device, const Assignment& at, bool probe) const {
  const uint32_t silicon = problem_.machine.devices[device].silicon;
  Ticks start = silicon_free_[silicon];
  for (const uint32_t c : reads_of_[item]) start = std::max(start, Arrive(c, device, at, probe));
  const Ticks end = start + ticks_[size_t{item} * core_.devices + device];
  ++steps_;
  if (probe) return end;
  silicon_free_[silicon] = end;
  for (const uint32_t c : made_by_[item]) made_at_[c] = end;
  return end;
}

Ticks Simulator::Makespan(const Assignment& at, std::vector<Ticks>* ends, Ticks limit) const {
  Reset();
  return Continue(at, 0, 0, ends, limit, nullptr);
}

Ticks Simulator::Continue(const Assignment& at, uint32_t item, Ticks makespan,
                          std::vector<Ticks>* ends, Ticks limit,
                          std::vector<Timeline>* kept) const {
  const auto count = static_cast<uint32_t>(problem_.items.size());
  const auto silicon_of = [&](uint32_t device) { return problem_.machine.devices[device].silicon; };
  if (limit < kNever) {
    std::fill(silicon_left_.begin(), silicon_left_.end(), 0);
    for (uint32_t i = item; i < count; ++i) {
      const uint32_t device = at[core_.unit_of[i]];
      silicon_left_[silicon_of(device)] += ticks_[size_t{i} * core_.devices + device];
    }
    for (size_t s = 0; s < silicon_left_.size(); ++s) {
      if (silicon_free_[s] + silicon_left_[s] >= limit) return limit;
    }
  }
  for (uint32_t i = item; i < count; ++i) {
    if (kept != nullptr && i % kKept == 0) kept->push_back(Keep(makespan));
    const uint32_t device = at[core_.unit_of[i]];
    if (core_.CostOf(core_.unit_of[i], device) >= kNever) return kNever;
    const Ticks end = Run(i, device, at, false);
    makespan = std::max(makespan, end);
    if (ends != nullptr) ends->push_back(end);
    for (const uint32_t c : made_by_[i]) {
      if (core_.tensors[c].is_output)
        makespan = std::max(makespan, Arrive(c, core_.home, at, false));
    }
    if (limit == kNever) continue;
    Ticks& left = silicon_left_[silicon_of(device)];
    left -= ticks_[size_t{i} * core_.devices + device];
    if (std::max(makespan, end + left) >= limit) return limit;
  }
  return makespan;
}

Assignment Simulator::EarliestFinish() const {
  Reset();
  Assignment at(core_.units, kNone);
  for (uint32_t i = 0; i < problem_.items.size(); ++i) {
    const uint32_t unit = core_.unit_of[i];
    if (at[unit] == kNone) {
      Ticks best = kNever;
      for (uint32_t device = 0; device < core_.devices; ++device) {
        if (core_.CostOf(unit, device) >= kNever) continue;
        const Ticks end = Run(i, device, at, true);
        if (at[unit] != kNone && end >= best) continue;
        at[unit] = device;
        best = end;
      }
    }
    Run(i, at[unit], at, false);
    for (const uint32_t c : made_by_[i]) {
      if (core_.tensors[c].is_output) Arrive(c, core_.home, at, false);
    }
  }
  return at;
}

Ticks Simulator::ScoreFrom(const Assignment& at, uint32_t item, Ticks makespan, Ticks limit) const {
  Ticks penalty = 0;
  for (uint32_t unit = 0; unit < core_.units; ++unit) {
    penalty += core_.penalty[size_t{unit} * core_.devices + at[unit]];
  }
  if (limit < kNever) limit = std::max<Ticks>(0, limit - penalty);
  makespan = Continue(at, item, makespan, nullptr, limit, nullptr);
  return makespan >= kNever ? kNever : makespan + penalty;
}

Ticks Simulator::Score(const Assignment& at, Ticks limit) const {
  Reset();
  return ScoreFrom(at, 0, 0, limit);
}

void Simulator::SetBase(const Assignment& base) const {
  base_.clear();
  Reset();
  Continue(base, 0, 0, nullptr, kNever, &base_);
}

Ticks Simulator::ScoreMoved(const Assignment& moved, const std::vector<uint32_t>& units,
                            Ticks limit) const {
  uint32_t first = static_cast<uint32_t>(problem_.items.size()) - 1;
  for (const uint32_t unit : units) first = std::min(first, core_.items_of[unit].front());
  const uint32_t at = first / kKept;
  if (at >= base_.size()) return Score(moved, limit);
  const Timeline& kept = base_[at];
  silicon_free_ = kept.silicon_free;
  engine_free_ = kept.engine_free;
  arrival_ = kept.arrival;
  made_at_ = kept.made_at;
  return ScoreFrom(moved, at * kKept, kept.makespan, limit);
}

std::vector<MemoryUse> Simulator::Memory(const Assignment& at) const {
  const Machine& machine = problem_.machine;
  const size_t memories = machine.memories.size(), items = problem_.items.size();
  std::vector<MemoryUse> out(memories);
  std::vector<std::vector<bool>> holds(memories, std::vector<bool>(problem_.weights.size(), false));
  const auto memory_of = [&](uint32_t item) {
    return machine.devices[at[core_.unit_of[item]]].memory;
  };
  std::vector<int64_t> lot(memories, 0);
  for (uint32_t i = 0; i < items; ++i) {
    const int64_t streamed = StreamedBytes(problem_, i, memory_of(i));
    lot[memory_of(i)] = std::max(lot[memory_of(i)], streamed);
    for (const uint32_t weight : problem_.items[i].weights) {
      if (streamed > 0 && problem_.weights[weight].bytes >= kLeastStreamed) continue;
      if (holds[memory_of(i)][weight]) continue;
      holds[memory_of(i)][weight] = true;
      out[memory_of(i)].weight_bytes += problem_.weights[weight].bytes;
    }
  }
  for (size_t m = 0; m < memories; ++m) out[m].weight_bytes += problem_.stream_lots * lot[m];
  const bool counts_home = !problem_.memory_caps.empty() && problem_.memory_caps[machine.home] > 0;
  std::vector<int64_t> stays(memories, 0);
  // Inputs and outputs stand in a memory for the whole run, and once more in staging memory.
  const auto stay = [&](uint32_t memory, int64_t bytes) {
    if (memory != machine.home) stays[memory] += 2 * bytes;
    if (memory == machine.home && counts_home) stays[memory] += bytes;
  };
  const auto transfer = [&](uint32_t from, uint32_t to, int64_t bytes) {
    if (IsDirect(from, to)) return;
    if (from != machine.home) stays[from] += bytes;
    if (to != machine.home) stays[to] += bytes;
  };
  // Lives begin with the maker or the transfer and end with the last reader there; where other
  // memories take a copy, the maker's lives until the last one did.
  std::vector<std::vector<int64_t>> change(memories, std::vector<int64_t>(items + 1, 0));
  for (const Tensor& tensor : problem_.tensors) {
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> lives;  // memory -> first, last item
    const auto live = [&](uint32_t memory, uint32_t item) {
      const auto [entry, is_new] = lives.try_emplace(memory, item, item);
      entry->second.second = std::max(entry->second.second, item);
    };
    uint32_t maker = machine.home;
    bool has_place = false;  // a buffer of the caller's, or one that stands for it
    if (tensor.producer != kNone) {
      maker = memory_of(tensor.producer);
      live(maker, tensor.producer);
      has_place = tensor.is_output;
    } else {
      // An input is where its only reader is, and at home where there are several.
      const auto reads = [&](uint32_t memory) {
        return std::all_of(tensor.consumers.begin(), tensor.consumers.end(),
                           [&](uint32_t consumer) { return memory_of(consumer) == memory; });
      };
      if (!tensor.consumers.empty() && reads(memory_of(tensor.consumers[0])))
        maker = memory_of(tensor.consumers[0]);
      has_place = true;
    }
    for (const uint32_t consumer : tensor.consumers) {
      live(memory_of(consumer), consumer);
      if (maker != memory_of(consumer) && tensor.producer != kNone) live(maker, consumer);
    }
    if (has_place) stay(maker, tensor.bytes);
    for (const auto& [memory, life] : lives) {
      if (memory != maker) transfer(maker, memory, tensor.bytes);
      if (memory == maker && has_place) continue;
      change[memory][life.first] += tensor.bytes;
      change[memory][life.second + 1] -= tensor.bytes;
    }
  }
  for (size_t m = 0; m < memories; ++m) {
    int64_t now = 0;
    for (size_t i = 0; i < items; ++i) {
      now += change[m][i];
      out[m].activation_bytes = std::max(out[m].activation_bytes, now);
    }
    out[m].activation_bytes += stays[m];
  }
  return out;
}

// Whether bytes go from one memory to the other without staging memory between them.
bool Simulator::IsDirect(uint32_t from, uint32_t to) const {
  return std::any_of(problem_.machine.links.begin(), problem_.machine.links.end(),
                     [&](const Link& link) {
                       return link.from == from && link.to == to &&
                              (link.path == PathKind::kPeer || link.path == PathKind::kImport);
                     });
}

int64_t Simulator::Excess(const Assignment& at) const {
  const auto is_limited = [](int64_t cap) { return cap > 0; };
  if (std::none_of(problem_.memory_caps.begin(), problem_.memory_caps.end(), is_limited)) return 0;
  const std::vector<MemoryUse> uses = Memory(at);
  int64_t excess = 0;
  for (size_t m = 0; m < uses.size(); ++m) {
    const int64_t cap = problem_.memory_caps[m];
    if (cap > 0) excess += std::max<int64_t>(0, uses[m].Total() - cap);
  }
  return excess;
}

}  // namespace halyard::place
