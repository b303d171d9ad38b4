// SPDX-License-Identifier: Apache-2.0
// The order of the solver: core, rivals, refinement, memory, groups, hysteresis, explanation.
#include "compiler/place/solve.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/quantity.h"
#include "compiler/place/core_solve.h"
#include "compiler/place/explain.h"
#include "compiler/place/refine.h"
#include "compiler/place/search.h"
#include "compiler/place/stream.h"

namespace halyard::place {
namespace {

constexpr uint64_t kRefineSteps = 100'000;  // of the simulator, for each start
constexpr size_t kRefinedStarts = 5;
constexpr uint32_t kMostPrices = 16;
constexpr size_t kMostGroups = 64;  // opened one by one
constexpr std::string_view kNothingFits = "No placement that was found meets the memory limits: ";

// What a plan over several devices has to win over one device before it is taken, where what parts
// take on the other devices was not measured: estimates of one class err alike, which the sum of
// independent deviations does not know. Estimates of kernels from a probe are 12 to 20 % off.
constexpr double kLeastGainOfDevices = 0.1;

// A whole plan that competes.
struct Candidate {
  std::string name;
  DecidedBy by = DecidedBy::kSingle;
  Assignment at;               // of units
  bool must_not_lose = false;  // the result is never worse than this one
  uint32_t device = kNone;     // of a plan that has one device wherever it can be
};

struct Outcome {
  Assignment at;
  std::vector<DecidedBy> decided;
  std::string winner;
  CoreSolution core;
  uint32_t memory_rounds = 0;
  Ticks memory_price = 0;
  std::vector<Rival> rivals;
};

DecidedBy OfMethod(Method method) {
  switch (method) {
    case Method::kExactDp:
      return DecidedBy::kExactDp;
    case Method::kExpansion:
      return DecidedBy::kExpansion;
    case Method::kExactCut:
      return DecidedBy::kExactCut;
    case Method::kNone:
      break;
  }
  return DecidedBy::kSingle;
}

std::string NameOf(Method method) {
  switch (method) {
    case Method::kExactDp:
      return "the cheapest of all plans";
    case Method::kExpansion:
      return "the cheapest plan that was found";
    case Method::kExactCut:
      return "the cheapest cut";
    case Method::kNone:
      break;
  }
  return "one device";
}

// "'cuda:0' takes 12.0 MiB for weights and 3.0 MiB for activations; 10.0 MiB are allowed"
std::string DescribeExcess(const Problem& problem, const std::vector<MemoryUse>& uses) {
  std::string out;
  for (size_t m = 0; m < uses.size(); ++m) {
    const int64_t cap = problem.memory_caps.empty() ? 0 : problem.memory_caps[m];
    if (cap <= 0 || uses[m].Total() <= cap) continue;
    out += fmt::format(
        "{}memory '{}' takes {} for weights and {} for activations, {} {} allowed: {} too few",
        out.empty() ? "" : "; ", problem.machine.memories[m].name,
        FormatBytes(uses[m].weight_bytes), FormatBytes(uses[m].activation_bytes), FormatBytes(cap),
        cap == 1 ? "is" : "are", FormatBytes(uses[m].Total() - cap));
  }
  return out;
}

// Devices in the order in which a runtime with a list of providers asks them: as named, CPUs last.
std::vector<uint32_t> ProviderOrder(const Machine& machine) {
  std::vector<uint32_t> order;
  for (const bool cpus : {false, true}) {
    for (uint32_t d = 0; d < machine.devices.size(); ++d) {
      if ((machine.devices[d].kind == TargetKind::kCpu) == cpus) order.push_back(d);
    }
  }
  return order;
}

std::vector<Candidate> MakeRivals(const Problem& problem, const Core& core, uint64_t* steps) {
  std::vector<Candidate> rivals;
  if (!problem.previous.empty()) {
    rivals.push_back({"the previous plan", DecidedBy::kPreviousPlan,
                      core.Contract(problem.previous), true, kNone});
  }
  for (uint32_t d = 0; d < core.devices; ++d) {
    if (core.devices > 1 && !problem.last_resort.empty() && problem.last_resort[d]) continue;
    Assignment at = MostlyOn(core, d, steps);
    const auto on = std::count(at.begin(), at.end(), d);
    if (on == 0) continue;
    const std::string& device = problem.machine.devices[d].name;
    const bool all = on == static_cast<ptrdiff_t>(at.size());
    rivals.push_back({fmt::format("{} on '{}'", all ? "all" : "all that can be", device),
                      DecidedBy::kSingle, std::move(at), true, d});
  }
  rivals.push_back({"greedy by the order of devices", DecidedBy::kGreedy,
                    FirstOf(core, ProviderOrder(problem.machine)), false, kNone});
  return rivals;
}

// The least gain of several devices as a part of `score`, the single device's; 0 where all that the
// other devices take was measured, and where wishes were made.
Ticks LeastGainOfDevices(const Problem& problem, const Core& core, const Assignment& single,
                         const Assignment& several, Ticks score) {
  if (!problem.hysteresis || !problem.constraints.empty() || score >= kNever) return 0;
  for (uint32_t i = 0; i < problem.items.size(); ++i) {
    const uint32_t unit = core.unit_of[i];
    if (single[unit] == several[unit]) continue;
    if (problem.items[i].costs[several[unit]].source != Source::kMeasured) {
      return ToTicks(ToSeconds(score) * kLeastGainOfDevices);
    }
  }
  return 0;
}

size_t CountDevices(const Assignment& at) {
  return std::set<uint32_t>(at.begin(), at.end()).size();
}

// Whether `rival` is taken in place of `at`, which takes `score`. Of two plans the one over more
// devices has to win its least gain, and so does one over as many that has no device for all that
// can be there.
bool IsBetter(const Problem& problem, const Core& core, const std::vector<Candidate>& candidates,
              const Candidate& rival, Ticks its_score, const Assignment& at, Ticks score) {
  const size_t its_count = CountDevices(rival.at), count = CountDevices(at);
  if (its_count > count) {
    return its_score + LeastGainOfDevices(problem, core, at, rival.at, score) < score;
  }
  const bool is_single = std::any_of(
      candidates.begin(), candidates.end(),
      [&](const Candidate& candidate) { return candidate.device != kNone && candidate.at == at; });
  if (its_count == count && is_single) return its_score < score;
  return its_score < score + LeastGainOfDevices(problem, core, rival.at, at, its_score);
}

// One solve over given units, without explanation.
Result<Outcome> SolveUnits(const Problem& problem, const Core& core, const Simulator& simulator,
                           uint64_t* steps) {
  Outcome out;
  std::vector<Candidate> candidates = MakeRivals(problem, core, steps);
  std::vector<Assignment> starts;
  for (const Candidate& rival : candidates) {
    if (core.IsFeasible(rival.at)) starts.push_back(rival.at);
  }
  out.core = SolveCore(core, starts, steps);
  if (out.core.at.size() != core.units) {
    return Internal("The placement's core has no feasible start.");
  }
  const DecidedBy by = OfMethod(out.core.method);
  candidates.push_back({NameOf(out.core.method), by, out.core.at, false, kNone});

  Ticks free_score = kNever;  // of the best without caps
  for (const Candidate& candidate : candidates) {
    free_score = std::min(free_score, simulator.Score(candidate.at));
  }
  const bool fits = simulator.Excess(out.core.at) == 0;
  if (!fits) {
    MemorySolution memory = SolveWithinCaps(problem, simulator, core, starts, steps);
    out.memory_rounds = memory.rounds;
    if (memory.excess > 0 && problem.may_exceed) {
      out.decided.assign(core.units, DecidedBy::kMemory);
      out.memory_price = std::max<Ticks>(0, simulator.Score(memory.at) - free_score);
      out.at = std::move(memory.at);
      out.winner = "the least memory";
      return out;
    }
    if (memory.excess > 0) {
      return OutOfMemory("{}{}.", kNothingFits,
                         DescribeExcess(problem, simulator.Memory(memory.at)));
    }
    candidates.push_back(
        {"prices on memory", DecidedBy::kMemory, std::move(memory.at), false, kNone});
  }

  candidates.push_back({"each part where it ends first", DecidedBy::kEarliestFinish,
                        simulator.EarliestFinish(), false, kNone});
  std::vector<const Candidate*> ranked;  // those that can be, the best first
  std::vector<Ticks> scores;
  for (const Candidate& candidate : candidates) {
    const Ticks score = simulator.Score(candidate.at);
    Rival rival;
    rival.name = candidate.name;
    if (score < kNever) {
      rival.makespan_seconds = ToSeconds(simulator.Makespan(candidate.at));
      rival.additive_seconds = ToSeconds(core.Additive(candidate.at));
      if (simulator.Excess(candidate.at) > 0) {
        rival.reason = DescribeExcess(problem, simulator.Memory(candidate.at));
      }
      rival.devices = core.Expand(candidate.at);
    } else {
      rival.reason = "an item of it cannot run where it is";
    }
    rival.is_feasible = rival.reason.empty();
    out.rivals.push_back(rival);
    if (!rival.is_feasible) continue;
    const auto place = std::upper_bound(scores.begin(), scores.end(), score);
    ranked.insert(ranked.begin() + (place - scores.begin()), &candidate);
    scores.insert(place, score);
  }
  if (ranked.empty()) return Internal("No candidate of the placement is feasible.");
  out.at = ranked[0]->at;
  out.winner = ranked[0]->name;
  out.decided.assign(core.units, ranked[0]->by);
  if (core.devices == 1) return out;

  // A start that is worse now may become better than the best does.
  Ticks best_score = kNever;
  std::vector<Assignment> seen;
  for (const Candidate* candidate : ranked) {
    if (seen.size() == kRefinedStarts) break;
    if (std::find(seen.begin(), seen.end(), candidate->at) != seen.end()) continue;
    seen.push_back(candidate->at);
    Assignment at = candidate->at;
    std::vector<DecidedBy> decided(core.units, candidate->by);
    RefineBorders(simulator, core, kRefineSteps, at, decided);
    const Ticks score = simulator.Score(at);
    if (score >= best_score) continue;
    best_score = score;
    out.at = std::move(at);
    out.decided = std::move(decided);
    out.winner = candidate->name;
  }
  if (problem.hysteresis) SaveTransfers(problem, simulator, core, out.at, out.decided);
  const auto single = std::find_if(ranked.begin(), ranked.end(), [](const Candidate* candidate) {
    return candidate->device != kNone;
  });
  if (problem.hysteresis && single != ranked.end()) {
    PullBackIslands(problem, simulator, core, (*single)->device, out.at, out.decided);
  }
  // A plan that runs stays unless the new one is better by more than the noise.
  const Ticks score = simulator.Score(out.at);
  Ticks taken = score;  // of out.at
  for (const Candidate& candidate : candidates) {
    if (!candidate.must_not_lose || simulator.Excess(candidate.at) > 0) continue;
    const Ticks its_score = simulator.Score(candidate.at);
    const bool is_running =
        candidate.by == DecidedBy::kPreviousPlan && (problem.hysteresis || problem.keeps_previous);
    // Pulling back may have cost a little; then the rival it came down to is taken as it is. What
    // more devices win together has to be believed, too.
    const bool wins =
        is_running
            ? (problem.keeps_previous && its_score < kNever) ||
                  its_score - score < NoiseBetween(problem, core, candidate.at, out.at, score)
            : IsBetter(problem, core, candidates, candidate, its_score, out.at, taken);
    if (!wins) continue;
    out.at = candidate.at;
    taken = its_score;
    out.decided.assign(core.units, candidate.by);
    out.winner = candidate.name;
    if (is_running) break;
  }
  // Whatever led there: a plan with one device wherever it can be is named after it, and so are
  // decisions that nothing proved.
  for (const Candidate& candidate : candidates) {
    if (candidate.device == kNone || candidate.at != out.at) continue;
    out.winner = candidate.name;
    for (DecidedBy& by : out.decided) {
      const bool is_found = by == DecidedBy::kGreedy || by == DecidedBy::kEarliestFinish ||
                            by == DecidedBy::kExpansion;
      if (is_found) by = candidate.by;
    }
    break;
  }
  if (!fits) out.memory_price = std::max<Ticks>(0, simulator.Score(out.at) - free_score);
  return out;
}

// Opens closed groups one by one where that wins more than the noise.
Result<std::pair<Core, Outcome>> SolveGroups(const Problem& problem,
                                             std::vector<std::vector<Cost>>* marked,
                                             uint64_t* steps) {
  const size_t groups = GroupCount(problem);
  std::vector<bool> closed(groups, true);
  HY_ASSIGN(Core core, BuildCore(problem, closed, marked));
  std::optional<Outcome> outcome;
  {
    const Simulator simulator(problem, core);
    auto solved = SolveUnits(problem, core, simulator, steps);
    *steps += simulator.steps();
    if (!solved.ok() && (groups == 0 || solved.status().code() != StatusCode::kOutOfMemory)) {
      return solved.status();
    }
    if (solved.ok()) outcome = std::move(solved).value();
  }
  for (size_t g = 0; g < std::min(groups, kMostGroups); ++g) {
    std::vector<bool> opened = closed;
    opened[g] = false;
    HY_ASSIGN(Core open_core, BuildCore(problem, opened, nullptr));
    if (open_core.units == core.units) continue;  // it was open already
    const Simulator simulator(problem, open_core);
    auto solved = SolveUnits(problem, open_core, simulator, steps);
    *steps += simulator.steps();
    if (!solved.ok()) {
      if (solved.status().code() == StatusCode::kOutOfMemory) continue;
      return solved.status();
    }
    if (outcome) {
      const Assignment before = open_core.Contract(core.Expand(outcome->at));
      const Ticks old_score = simulator.Score(before), score = simulator.Score(solved->at);
      if (old_score - score < NoiseBetween(problem, open_core, before, solved->at, old_score)) {
        continue;
      }
    }
    closed = opened;
    core = std::move(open_core);
    outcome = std::move(solved).value();
  }
  if (!outcome) {
    // Closed groups do not fit; open ones may.
    closed.assign(groups, false);
    HY_ASSIGN(core, BuildCore(problem, closed, nullptr));
    const Simulator simulator(problem, core);
    HY_ASSIGN(outcome, SolveUnits(problem, core, simulator, steps));
    *steps += simulator.steps();
  }
  return std::pair<Core, Outcome>(std::move(core), std::move(*outcome));
}

using GroupsSolution = std::pair<Core, Outcome>;

bool HasLimit(const Problem& problem) {
  return std::any_of(problem.memory_caps.begin(), problem.memory_caps.end(),
                     [](int64_t cap) { return cap > 0; });
}

// The best plan whose weights stream where they do not fit; `problem` becomes the one that it
// solves.
Result<GroupsSolution> SolveStreamed(uint32_t lots, Problem* problem,
                                     std::vector<std::vector<Cost>>* marked, uint64_t* steps) {
  const Problem kept = *problem;
  *problem = StreamWeights(kept, lots);
  HY_ASSIGN(GroupsSolution all, SolveGroups(*problem, marked, steps));
  const Simulator simulator(*problem, all.first);
  std::vector<int64_t> memory_bytes;
  for (const MemoryUse& use : simulator.Memory(all.second.at)) memory_bytes.push_back(use.Total());
  const Assignment at = all.first.Expand(all.second.at);
  KeepWhatFits(kept, at, std::move(memory_bytes), problem);
  return SolveGroups(*problem, marked, steps);
}

// The plan that exceeds the limits least.
Result<GroupsSolution> SolveLeast(Problem* problem, std::vector<std::vector<Cost>>* marked,
                                  uint64_t* steps) {
  if (problem->may_stream) *problem = StreamWeights(*problem, 1);
  return SolveGroups(*problem, marked, steps);
}

// With limits: kept weights against streamed ones, where the limits cost something.
Result<GroupsSolution> SolveLimited(Problem* problem, std::vector<std::vector<Cost>>* marked,
                                    uint64_t* steps) {
  if (problem->may_exceed && HasLimit(*problem)) return SolveLeast(problem, marked, steps);
  auto kept = SolveGroups(*problem, marked, steps);
  if (!problem->may_stream || !HasLimit(*problem) || (kept.ok() && kept->second.memory_rounds == 0))
    return kept;
  if (!kept.ok() && kept.status().code() != StatusCode::kOutOfMemory) return kept;
  Problem streaming = *problem;
  std::vector<std::vector<Cost>> its_marked;
  auto streamed = SolveStreamed(2, &streaming, &its_marked, steps);
  if (!streamed.ok()) {
    // Two lots of a weight above half of the limit do not fit; one may.
    streaming = *problem;
    streamed = SolveStreamed(1, &streaming, &its_marked, steps);
  }
  if (!streamed.ok()) return kept;
  Rival rival;
  rival.name = "without streaming weights";
  Ticks makespan = Simulator(streaming, streamed->first).Makespan(streamed->second.at);
  if (kept.ok()) {
    const Simulator simulator(*problem, kept->first);
    const Ticks its_makespan = simulator.Makespan(kept->second.at);
    if (its_makespan <= makespan) return kept;
    rival.is_feasible = true;
    rival.makespan_seconds = ToSeconds(its_makespan);
    rival.additive_seconds = ToSeconds(kept->first.Additive(kept->second.at));
    rival.devices = kept->first.Expand(kept->second.at);
  } else {
    rival.reason = std::string(kept.status().message()).substr(kNothingFits.size());
    rival.reason.pop_back();
  }
  streamed->second.rivals.push_back(std::move(rival));
  *problem = std::move(streaming);
  *marked = std::move(its_marked);
  return streamed;
}

void AddPrices(const Problem& problem, double makespan_seconds, Plan* plan) {
  if (problem.explained_items <= 0) return;
  const auto count = static_cast<uint32_t>(problem.affinities.size());
  for (uint32_t a = 0; a < std::min(count, kMostPrices); ++a) {
    Problem without = problem;
    const size_t all = without.constraints.size();
    std::erase_if(without.constraints, [&](const Constraint& c) { return c.affinity == a; });
    Price price;
    price.affinity = problem.affinities[a];
    price.items = static_cast<uint32_t>(all - without.constraints.size());
    if (price.items > 0) {
      std::vector<std::vector<Cost>> marked;
      const auto solved = SolveGroups(without, &marked, &plan->steps);
      if (!solved.ok()) {  // without this wish another contradicts the abilities
        plan->unpriced.push_back(
            {problem.affinities[a],
             fmt::format("without it there is no plan ({})", solved.status().message())});
        continue;
      }
      const Simulator simulator(without, solved->first);
      price.seconds = makespan_seconds - ToSeconds(simulator.Makespan(solved->second.at));
    }
    plan->prices.push_back(std::move(price));
  }
  for (uint32_t a = kMostPrices; a < count; ++a) {
    plan->unpriced.push_back(
        {problem.affinities[a],
         fmt::format("each is a solve of its own, and {} wishes stand before it", kMostPrices)});
  }
}

}  // namespace

Result<Plan> Solve(const Problem& given) {
  HY_TRY(VerifyProblem(given));
  Problem problem = given;
  Plan plan;
  std::vector<std::vector<Cost>> marked;
  HY_ASSIGN(auto solved, SolveLimited(&problem, &marked, &plan.steps));
  const auto& [core, outcome] = solved;
  const Simulator simulator(problem, core);
  plan.method = outcome.core.method;
  plan.winner = outcome.winner;
  plan.is_optimal =
      outcome.core.is_optimal && core.Additive(outcome.at) == core.Additive(outcome.core.at);
  plan.memory_rounds = outcome.memory_rounds;
  plan.memory_price_seconds = ToSeconds(outcome.memory_price);
  plan.rivals = outcome.rivals;
  ExplainPlan(problem, core, simulator, outcome.at, outcome.decided, std::move(marked), &plan);
  AddPrices(problem, plan.makespan_seconds, &plan);
  plan.steps += simulator.steps();
  return plan;
}

}  // namespace halyard::place
