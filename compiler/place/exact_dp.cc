// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/exact_dp.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace halyard::place {
namespace {

// Per live tensor one word: the device that made it (core.devices for inputs) and the set of
// devices that have it.
constexpr int kMakerShift = 40;
uint64_t Word(uint32_t maker, uint64_t has) { return uint64_t{maker} << kMakerShift | has; }
uint32_t MakerOf(uint64_t word) { return static_cast<uint32_t>(word >> kMakerShift); }

// All states of one step: `width` words each.
struct States {
  size_t width = 0;
  std::vector<uint64_t> words;
  std::vector<Ticks> cost;
  std::vector<uint32_t> parent;  // index into the step before
  std::vector<uint32_t> device;  // of the unit placed last
  size_t size() const { return cost.size(); }
  const uint64_t* at(size_t i) const { return words.data() + i * width; }
};

// Sorted by words; of equal words the cheapest stays, then the one of the first parent and device.
States Reduce(const States& all) {
  std::vector<uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto compare_words = [&](uint32_t a, uint32_t b) {
    const uint64_t *x = all.at(a), *y = all.at(b);
    for (size_t i = 0; i < all.width; ++i) {
      if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    }
    return 0;
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (const int order_of_words = compare_words(a, b)) return order_of_words < 0;
    return std::tie(all.cost[a], all.parent[a], all.device[a]) <
           std::tie(all.cost[b], all.parent[b], all.device[b]);
  });
  States out;
  out.width = all.width;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && compare_words(order[i - 1], order[i]) == 0) continue;
    out.words.insert(out.words.end(), all.at(order[i]), all.at(order[i]) + all.width);
    out.cost.push_back(all.cost[order[i]]);
    out.parent.push_back(all.parent[order[i]]);
    out.device.push_back(all.device[order[i]]);
  }
  return out;
}

// What the rest costs at least: each unit after one where it is cheapest, without transfers.
std::vector<Ticks> LeastOfRest(const Core& core) {
  std::vector<Ticks> rest(core.units + 1, 0);
  for (uint32_t unit = core.units; unit-- > 0;) {
    Ticks least = kNever;
    for (uint32_t device = 0; device < core.devices; ++device) {
      least = std::min(least, core.CostOf(unit, device));
    }
    rest[unit] = std::min(kNever, rest[unit + 1] + least);
  }
  return rest;
}

// Drops what cannot become the optimum: states that cost more than the cheapest one would with
// whatever they have and it lacks. It could go on as they do and pay, for each device that still
// reads a live tensor (`readers` of them at most), what bringing it there costs it more. Equal ones
// stay, so that of equal optima the same one is found.
void DropDominated(const Core& core, const std::vector<uint32_t>& live,
                   const std::vector<uint32_t>& readers, States& states) {
  if (states.size() < 2) return;
  const auto cheapest = static_cast<size_t>(
      std::min_element(states.cost.begin(), states.cost.end()) - states.cost.begin());
  const auto cost_at = [&](size_t word, uint64_t state, uint32_t device) {
    const uint32_t maker = MakerOf(state);
    if (maker == device || (state >> device & 1) != 0) return Ticks{0};
    return core.tables[core.tensors[live[word]].table].Total(maker, device);
  };
  std::vector<Ticks> costs(live.size() * core.devices);  // of the cheapest: [word * devices + to]
  for (size_t word = 0; word < live.size(); ++word) {
    for (uint32_t device = 0; device < core.devices; ++device) {
      costs[word * core.devices + device] = cost_at(word, states.at(cheapest)[word], device);
    }
  }
  std::vector<Ticks> more(core.devices);
  size_t kept = 0;
  for (size_t s = 0; s < states.size(); ++s) {
    Ticks left = states.cost[s] - states.cost[cheapest];  // what it may pay more
    for (size_t word = 0; word < live.size() && left >= 0; ++word) {
      if (states.at(s)[word] == states.at(cheapest)[word]) continue;
      for (uint32_t device = 0; device < core.devices; ++device) {
        more[device] = std::max<Ticks>(
            0, costs[word * core.devices + device] - cost_at(word, states.at(s)[word], device));
      }
      const size_t paid = std::min<size_t>(readers[word], more.size());
      std::partial_sort(more.begin(), more.begin() + static_cast<ptrdiff_t>(paid), more.end(),
                        std::greater<>());
      for (size_t i = 0; i < paid && left >= 0; ++i) left -= std::min(more[i], kNever);
    }
    if (left > 0 && s != cheapest) continue;
    std::copy_n(states.at(s), states.width, states.words.begin() + kept * states.width);
    states.cost[kept] = states.cost[s];
    states.parent[kept] = states.parent[s];
    states.device[kept] = states.device[s];
    ++kept;
  }
  states.words.resize(kept * states.width);
  states.cost.resize(kept);
  states.parent.resize(kept);
  states.device.resize(kept);
}

}  // namespace

std::optional<Assignment> SolveExactDp(const Core& core, uint64_t step_limit, uint64_t* steps,
                                       Ticks bound) {
  if (!core.is_ordered) return std::nullopt;
  const std::vector<Ticks> rest = LeastOfRest(core);
  const uint64_t first_step = *steps;
  std::vector<uint32_t> last_use(core.tensors.size(), 0);
  for (size_t t = 0; t < core.tensors.size(); ++t) {
    if (!core.tensors[t].consumers.empty()) last_use[t] = core.tensors[t].consumers.back();
  }
  std::vector<uint32_t> live;  // tensors, one for each word of a state
  States states;
  states.cost = {0};
  std::vector<std::vector<uint32_t>> parents, devices;  // per unit and state, to walk back
  for (uint32_t unit = 0; unit < core.units; ++unit) {
    std::vector<uint32_t> made, kept;
    std::vector<std::pair<uint32_t, size_t>> reads;  // tensor, word; a new input: kNoWord
    constexpr size_t kNoWord = SIZE_MAX;
    for (const uint32_t t : core.touching[unit]) {
      if (core.tensors[t].producer == unit) {
        made.push_back(t);
        if (!core.tensors[t].consumers.empty()) kept.push_back(t);
        continue;
      }
      const auto word = static_cast<size_t>(std::find(live.begin(), live.end(), t) - live.begin());
      reads.emplace_back(t, word < live.size() ? word : kNoWord);
    }
    // The words after this unit: those of before that are read later, new inputs, what it makes.
    std::vector<uint32_t> next_live;
    std::vector<size_t> stays;
    for (size_t i = 0; i < live.size(); ++i) {
      if (last_use[live[i]] <= unit) continue;
      stays.push_back(i);
      next_live.push_back(live[i]);
    }
    std::vector<uint32_t> inputs;
    for (const auto& [t, word] : reads) {
      if (word == kNoWord && last_use[t] > unit) inputs.push_back(t);
    }
    next_live.insert(next_live.end(), inputs.begin(), inputs.end());
    next_live.insert(next_live.end(), kept.begin(), kept.end());

    States next;
    next.width = next_live.size();
    std::vector<uint64_t> words;
    for (uint32_t s = 0; s < states.size(); ++s) {
      for (uint32_t device = 0; device < core.devices; ++device) {
        if (core.CostOf(unit, device) >= kNever) continue;
        if (++*steps - first_step > step_limit) return std::nullopt;
        const uint64_t here = uint64_t{1} << device;
        words.assign(states.at(s), states.at(s) + states.width);
        Ticks cost = states.cost[s] + core.CostOf(unit, device);
        for (const auto& [t, word] : reads) {
          const uint32_t maker = word == kNoWord ? core.devices : MakerOf(words[word]);
          if (maker == device || (word != kNoWord && (words[word] & here) != 0)) continue;
          cost += core.tables[core.tensors[t].table].Total(maker, device);
          if (word != kNoWord) words[word] |= here;
        }
        // An output goes home at once; later readers there find it.
        for (const uint32_t t : made) {
          if (core.tensors[t].is_output && core.home != device) {
            cost += core.tables[core.tensors[t].table].Total(device, core.home);
          }
        }
        if (cost + rest[unit + 1] > bound) continue;
        for (const size_t i : stays) next.words.push_back(words[i]);
        for (size_t i = 0; i < inputs.size(); ++i) next.words.push_back(Word(core.devices, here));
        for (const uint32_t t : made) {
          const bool goes_home = core.tensors[t].is_output && core.home != device;
          const uint64_t has = goes_home ? uint64_t{1} << core.home : 0;
          if (!core.tensors[t].consumers.empty()) next.words.push_back(Word(device, has));
        }
        next.cost.push_back(cost);
        next.parent.push_back(s);
        next.device.push_back(device);
      }
    }
    states = Reduce(next);
    if (states.size() == 0) return std::nullopt;
    std::vector<uint32_t> readers;
    for (const uint32_t t : next_live) {
      const std::vector<uint32_t>& all = core.tensors[t].consumers;
      readers.push_back(
          static_cast<uint32_t>(all.end() - std::upper_bound(all.begin(), all.end(), unit)));
    }
    DropDominated(core, next_live, readers, states);
    parents.push_back(states.parent);
    devices.push_back(states.device);
    live = std::move(next_live);
  }
  auto at = static_cast<uint32_t>(std::min_element(states.cost.begin(), states.cost.end()) -
                                  states.cost.begin());
  Assignment result(core.units);
  for (uint32_t unit = core.units; unit-- > 0;) {
    result[unit] = devices[unit][at];
    at = parents[unit][at];
  }
  return result;
}

}  // namespace halyard::place
