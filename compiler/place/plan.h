// SPDX-License-Identifier: Apache-2.0
// Plan: which device runs which item, who decided, what the rivals cost and what the choice costs.
// Plain data; the same problem gives the same bytes. Stored with the program as its text form (a
// record of kind "plan"); reports and a later placement read that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/place/problem.h"

namespace halyard::place {

enum class DecidedBy : uint8_t {
  kOnlyDevice,    // the machine has one
  kOnlyFeasible,  // no other device can
  kUser,          // a required or forbidden device left one
  kSingle,        // the best plan has everything on one device
  kExactCut,
  kExactDp,
  kExpansion,
  kGreedy,
  kEarliestFinish,  // item by item, where it would end soonest
  kPreviousPlan,
  kRefine,      // a boundary move that the simulation liked
  kMemory,      // moved to meet a limit
  kHysteresis,  // the gain elsewhere is within the noise
  kTie,         // elsewhere costs exactly the same
};
std::string_view FormatDecidedBy(DecidedBy decided_by);  // "only_device", "exact_cut", ...

// How the core of the plan was found.
enum class Method : uint8_t { kNone, kExactCut, kExactDp, kExpansion };
std::string_view FormatMethod(Method method);

// A transfer of a tensor between devices; kNone for `from` or `to` is the home memory.
struct Transfer {
  uint32_t tensor = 0;
  uint32_t from = kNone, to = kNone;
  int64_t bytes = 0;
  double seconds = 0;  // over all executions
  Source source = Source::kDefault;
  PathKind path = PathKind::kPageable;  // of its slowest hop
  // In the simulated run: when the copy begins, how long its links are busy (the rest of `seconds`
  // is synchronisation, which follows), and those links, by index. None where nothing is copied.
  double start_seconds = 0, copy_seconds = 0;
  std::vector<uint32_t> links;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// "Supporting this item on `device` would save `seconds`."
struct Missing {
  uint32_t device = 0;
  double seconds = 0;
  friend bool operator==(const Missing&, const Missing&) = default;
};

struct Decision {
  uint32_t device = 0;
  DecidedBy decided_by = DecidedBy::kOnlyDevice;
  double start_seconds = 0;  // in the simulated run
  // Transfers at this item's borders: what the choice causes, and what the cheapest other feasible
  // device would cause (0 where there is none).
  double transfer_seconds = 0;
  double avoided_seconds = 0;
  // Cost of the best plan found with this item on `rival` minus this plan's (additive objective).
  // kNone: nothing else is feasible, or it was not asked for.
  uint32_t rival = kNone;
  double margin_seconds = 0;
  bool margin_is_exact = false;
  bool streams = false;          // its large weights come anew in each run: they do not fit
  std::vector<Missing> missing;  // the devices that lack the op and would be worth it
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Another whole plan that was considered.
struct Rival {
  std::string name;  // "all on 'cuda:0'", "greedy", "previous plan"
  bool is_feasible = false;
  std::string reason;  // why not
  double makespan_seconds = 0;
  double additive_seconds = 0;
  std::vector<uint32_t> devices;  // per item; empty when not feasible
  friend bool operator==(const Rival&, const Rival&) = default;
};

// What all constraints of one affinity cost.
struct Price {
  std::string affinity;
  double seconds = 0;  // may be below 0 where the solver found no better plan without it
  uint32_t items = 0;
  friend bool operator==(const Price&, const Price&) = default;
};

// A wish whose price is not known.
struct UnpricedWish {
  std::string affinity;
  std::string reason;  // goes on behind "has no price: "
  friend bool operator==(const UnpricedWish&, const UnpricedWish&) = default;
};

struct DeviceLoad {
  uint32_t items = 0;
  double busy_seconds = 0;
  friend bool operator==(const DeviceLoad&, const DeviceLoad&) = default;
};

struct MemoryLoad {
  int64_t weight_bytes = 0;
  int64_t activation_bytes = 0;  // MemoryUse (simulate.h)
  int64_t cap_bytes = 0;         // 0: not limited
  friend bool operator==(const MemoryLoad&, const MemoryLoad&) = default;
};

// The subject of the program's "placement" records of affinities that match no node.
inline constexpr std::string_view kUnmatchedWish = "unmatched affinity";

struct Plan {
  uint64_t snapshot = 0;  // of the machine
  uint64_t machine_hash = 0;
  double makespan_seconds = 0;  // simulated over queues and links: what decides between plans
  double additive_seconds = 0;  // the core objective: all costs and transfers
  double sigma_seconds = 0;     // standard deviation of the makespan's estimate
  Method method = Method::kNone;
  bool is_optimal = false;  // the core is proven optimal in the additive objective
  std::string winner;  // which candidate became the plan: "the cheapest cut", "all on 'cpu:0'", ...
  uint64_t steps = 0;  // of the solver, all rounds
  uint32_t memory_rounds = 0;
  double memory_price_seconds = 0;  // what the limits cost
  // Of streamed weights that a memory holds at once (stream.h).
  uint32_t stream_lots = 2;
  std::vector<Decision> decisions;  // per item
  std::vector<Transfer> transfers;
  std::vector<Rival> rivals;
  std::vector<Price> prices;
  std::vector<UnpricedWish> unpriced;
  std::vector<DeviceLoad> devices;
  std::vector<MemoryLoad> memories;
  // Copied from the problem, so that the text stands alone.
  std::vector<std::string> device_names, item_names, tensor_names, memory_names;
  std::vector<std::string> link_names;  // what one transfer at a time is on: "host to cuda:0"
  std::vector<uint64_t> item_keys;
  std::vector<std::vector<std::string>> item_nodes;
  std::vector<std::vector<Cost>> costs;  // per item, per device
  friend bool operator==(const Plan&, const Plan&) = default;
};

// The text is what the program stores; Parse reads exactly what Format writes. INVALID_ARGUMENT
// with the line number where the text is wrong; indices are checked.
std::string FormatPlan(const Plan& plan);
Result<Plan> ParsePlan(std::string_view text);

// The devices that an earlier plan gives to the items of a problem: by name and key or else by a
// node that it holds, the machine's devices by name. Items that it does not know go where most of
// their inputs are. Empty when nothing matches.
std::vector<uint32_t> MatchPrevious(const Plan& previous, const Problem& problem);

}  // namespace halyard::place
