// SPDX-License-Identifier: Apache-2.0
// The text form of a plan.
#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/place/plan.h"
#include "compiler/place/text_lines.h"

namespace halyard::place {
namespace {

constexpr int64_t kMostIndex = 1 << 20;

std::string FormatIndex(uint32_t index) { return index == kNone ? "-" : fmt::format("{}", index); }

// An index below `count`, or "-" where that is allowed.
Result<uint32_t> ReadIndex(LineReader& in, size_t count, bool may_be_none = false) {
  if (may_be_none && in.TryWord("-")) return kNone;
  HY_ASSIGN(const int64_t index, in.Integer(0, static_cast<int64_t>(count) - 1));
  return static_cast<uint32_t>(index);
}

template <typename Enum>
Result<Enum> ReadEnum(LineReader& in, int count, std::string_view (*format)(Enum)) {
  HY_ASSIGN(const std::string_view word, in.Word());
  for (int i = 0; i < count; ++i) {
    if (format(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  }
  return in.Error(fmt::format("{} is not a word for this place.", QuoteText(word.substr(0, 60))));
}

Result<bool> ReadBool(LineReader& in) {
  HY_ASSIGN(const int64_t value, in.Integer(0, 1));
  return value != 0;
}

Result<uint32_t> ReadCount(LineReader& in) {
  HY_ASSIGN(const int64_t value, in.Integer(0, UINT32_MAX));
  return static_cast<uint32_t>(value);
}

class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : in_("plan", text) {}

  Result<Plan> Read() {
    if (!in_.NextLine()) return InvalidArgument("The plan is empty.");
    HY_TRY(in_.Expect("halyard-plan"));
    HY_ASSIGN([[maybe_unused]] const int64_t version, in_.Integer(1, 1));
    HY_TRY(in_.ExpectLineEnd());
    while (in_.NextLine()) {
      HY_TRY(ReadLine());
      HY_TRY(in_.ExpectLineEnd());
    }
    for (size_t i = 0; i < plan_.decisions.size(); ++i) {
      if (plan_.costs[i].size() == plan_.devices.size()) continue;
      return InvalidArgument("Item '{}' of the plan has {} costs for {} devices.",
                             plan_.item_names[i], plan_.costs[i].size(), plan_.devices.size());
    }
    for (const Rival& rival : plan_.rivals) {
      if (rival.devices.empty() || rival.devices.size() == plan_.decisions.size()) continue;
      return InvalidArgument("The rival '{}' of the plan has {} items; the plan has {}.",
                             rival.name, rival.devices.size(), plan_.decisions.size());
    }
    return std::move(plan_);
  }

 private:
  Status ReadLine() {
    if (in_.TryWord("machine")) return ReadMachine();
    if (in_.TryWord("result")) return ReadResult();
    if (in_.TryWord("device")) return ReadDevice();
    if (in_.TryWord("memory")) return ReadMemory();
    if (in_.TryWord("tensor")) {
      HY_ASSIGN(std::string name, in_.Quoted());
      plan_.tensor_names.push_back(std::move(name));
      return OkStatus();
    }
    if (in_.TryWord("item")) return ReadItem();
    if (in_.TryWord("nodes")) return ReadNodes();
    if (in_.TryWord("streams")) {
      if (plan_.decisions.empty()) return in_.Error("it stands before the first item.");
      plan_.decisions.back().streams = true;
      return OkStatus();
    }
    if (in_.TryWord("lots")) {
      HY_ASSIGN(const int64_t lots, in_.Integer(1, 2));
      plan_.stream_lots = static_cast<uint32_t>(lots);
      return OkStatus();
    }
    if (in_.TryWord("cost")) return ReadCost();
    if (in_.TryWord("missing")) return ReadMissing();
    if (in_.TryWord("transfer")) return ReadTransfer();
    if (in_.TryWord("rival")) return ReadRival();
    if (in_.TryWord("price")) return ReadPrice();
    if (in_.TryWord("unpriced")) return ReadUnpriced();
    if (in_.TryWord("link")) {
      HY_ASSIGN(std::string name, in_.Quoted());
      plan_.link_names.push_back(std::move(name));
      return OkStatus();
    }
    return in_.Error("its first word is none that a plan has.");
  }

  Status ReadMachine() {
    HY_ASSIGN(const int64_t snapshot, in_.Integer(0, INT64_MAX));
    plan_.snapshot = static_cast<uint64_t>(snapshot);
    HY_ASSIGN(plan_.machine_hash, in_.Hex());
    return OkStatus();
  }
  Status ReadResult() {
    HY_ASSIGN(plan_.makespan_seconds, in_.Real());
    HY_ASSIGN(plan_.additive_seconds, in_.Real());
    HY_ASSIGN(plan_.sigma_seconds, in_.Real());
    HY_ASSIGN(plan_.method, ReadEnum<Method>(in_, 4, FormatMethod));
    HY_ASSIGN(plan_.is_optimal, ReadBool(in_));
    HY_ASSIGN(plan_.winner, in_.Quoted());
    HY_ASSIGN(const int64_t steps, in_.Integer(0, INT64_MAX));
    plan_.steps = static_cast<uint64_t>(steps);
    HY_ASSIGN(plan_.memory_rounds, ReadCount(in_));
    HY_ASSIGN(plan_.memory_price_seconds, in_.Real());
    return OkStatus();
  }
  Status ReadDevice() {
    HY_ASSIGN(std::string name, in_.Quoted());
    plan_.device_names.push_back(std::move(name));
    DeviceLoad load;
    HY_ASSIGN(load.items, ReadCount(in_));
    HY_ASSIGN(load.busy_seconds, in_.Real());
    plan_.devices.push_back(load);
    return OkStatus();
  }
  Status ReadMemory() {
    HY_ASSIGN(std::string name, in_.Quoted());
    plan_.memory_names.push_back(std::move(name));
    MemoryLoad load;
    HY_ASSIGN(load.weight_bytes, in_.Integer(0, INT64_MAX));
    HY_ASSIGN(load.activation_bytes, in_.Integer(0, INT64_MAX));
    HY_ASSIGN(load.cap_bytes, in_.Integer(0, INT64_MAX));
    plan_.memories.push_back(load);
    return OkStatus();
  }
  Status ReadItem() {
    HY_ASSIGN(std::string name, in_.Quoted());
    plan_.item_names.push_back(std::move(name));
    HY_ASSIGN(const uint64_t key, in_.Hex());
    plan_.item_keys.push_back(key);
    Decision decision;
    HY_ASSIGN(decision.device, ReadIndex(in_, plan_.devices.size()));
    HY_ASSIGN(decision.decided_by, ReadEnum<DecidedBy>(in_, 14, FormatDecidedBy));
    HY_ASSIGN(decision.start_seconds, in_.Real());
    HY_ASSIGN(decision.transfer_seconds, in_.Real());
    HY_ASSIGN(decision.avoided_seconds, in_.Real());
    HY_ASSIGN(decision.rival, ReadIndex(in_, plan_.devices.size(), true));
    HY_ASSIGN(decision.margin_seconds, in_.Real());
    HY_ASSIGN(decision.margin_is_exact, ReadBool(in_));
    plan_.decisions.push_back(std::move(decision));
    plan_.costs.emplace_back();
    plan_.item_nodes.emplace_back();
    return OkStatus();
  }
  Status ReadNodes() {
    if (plan_.item_nodes.empty()) return in_.Error("it stands before the first item.");
    while (!in_.AtLineEnd()) {
      HY_ASSIGN(std::string name, in_.Quoted());
      plan_.item_nodes.back().push_back(std::move(name));
    }
    return OkStatus();
  }
  Status ReadCost() {
    if (plan_.costs.empty()) return in_.Error("it stands before the first item.");
    Cost cost;
    HY_ASSIGN(cost.reason, ReadEnum<Reason>(in_, 9, FormatReason));
    HY_ASSIGN(cost.seconds, in_.Real());
    HY_ASSIGN(cost.sigma, in_.Real());
    HY_ASSIGN(cost.source, ReadEnum<Source>(in_, 4, FormatSource));
    HY_ASSIGN(cost.detail, in_.Quoted());
    plan_.costs.back().push_back(std::move(cost));
    return OkStatus();
  }
  Status ReadMissing() {
    if (plan_.decisions.empty()) return in_.Error("it stands before the first item.");
    Missing missing;
    HY_ASSIGN(missing.device, ReadIndex(in_, plan_.devices.size()));
    HY_ASSIGN(missing.seconds, in_.Real());
    plan_.decisions.back().missing.push_back(missing);
    return OkStatus();
  }
  Status ReadTransfer() {
    Transfer transfer;
    HY_ASSIGN(transfer.tensor, ReadIndex(in_, plan_.tensor_names.size()));
    HY_ASSIGN(transfer.from, ReadIndex(in_, plan_.devices.size(), true));
    HY_ASSIGN(transfer.to, ReadIndex(in_, plan_.devices.size(), true));
    HY_ASSIGN(transfer.bytes, in_.Integer(0, INT64_MAX));
    HY_ASSIGN(transfer.seconds, in_.Real());
    HY_ASSIGN(transfer.source, ReadEnum<Source>(in_, 4, FormatSource));
    HY_ASSIGN(transfer.path, ReadEnum<PathKind>(in_, 5, FormatPathKind));
    HY_ASSIGN(transfer.start_seconds, in_.Real());
    HY_ASSIGN(transfer.copy_seconds, in_.Real());
    while (!in_.AtLineEnd()) {
      HY_ASSIGN(const uint32_t link, ReadIndex(in_, plan_.link_names.size()));
      transfer.links.push_back(link);
    }
    plan_.transfers.push_back(std::move(transfer));
    return OkStatus();
  }
  Status ReadRival() {
    Rival rival;
    HY_ASSIGN(rival.name, in_.Quoted());
    HY_ASSIGN(rival.is_feasible, ReadBool(in_));
    HY_ASSIGN(rival.makespan_seconds, in_.Real());
    HY_ASSIGN(rival.additive_seconds, in_.Real());
    HY_ASSIGN(rival.reason, in_.Quoted());
    // Runs of equal devices: "12x0 3x1".
    while (!in_.AtLineEnd()) {
      HY_ASSIGN(const std::string_view run, in_.Word());
      const size_t cut = run.find('x');
      if (cut == std::string_view::npos) return in_.Error("a run of devices has no 'x'.");
      LineReader count_in("plan", run.substr(0, cut)), device_in("plan", run.substr(cut + 1));
      if (!count_in.NextLine() || !device_in.NextLine()) return in_.Error("a run is not whole.");
      const auto count = count_in.Integer(1, kMostIndex);
      const auto device = device_in.Integer(0, static_cast<int64_t>(plan_.devices.size()) - 1);
      if (!count.ok() || !device.ok() ||
          rival.devices.size() + static_cast<size_t>(*count) > plan_.item_names.size()) {
        return in_.Error(fmt::format("the run {} of a rival does not fit {} items on {} devices.",
                                     QuoteText(run.substr(0, 40)), plan_.item_names.size(),
                                     plan_.devices.size()));
      }
      rival.devices.insert(rival.devices.end(), static_cast<size_t>(*count),
                           static_cast<uint32_t>(*device));
    }
    plan_.rivals.push_back(std::move(rival));
    return OkStatus();
  }
  Status ReadPrice() {
    Price price;
    HY_ASSIGN(price.affinity, in_.Quoted());
    HY_ASSIGN(price.seconds, in_.Real());
    HY_ASSIGN(price.items, ReadCount(in_));
    plan_.prices.push_back(std::move(price));
    return OkStatus();
  }

  Status ReadUnpriced() {
    UnpricedWish wish;
    HY_ASSIGN(wish.affinity, in_.Quoted());
    HY_ASSIGN(wish.reason, in_.Quoted());
    plan_.unpriced.push_back(std::move(wish));
    return OkStatus();
  }

  LineReader in_;
  Plan plan_;
};

}  // namespace

std::string_view FormatDecidedBy(DecidedBy decided_by) {
  constexpr std::string_view kNames[] = {"only_device",
                                         "only_feasible",
                                         "user",
                                         "single",
                                         "exact_cut",
                                         "exact_dp",
                                         "expansion",
                                         "greedy",
                                         "earliest_finish",
                                         "previous_plan",
                                         "refine",
                                         "memory",
                                         "hysteresis",
                                         "tie"};
  return kNames[static_cast<size_t>(decided_by)];
}

std::string_view FormatMethod(Method method) {
  constexpr std::string_view kNames[] = {"none", "exact_cut", "exact_dp", "expansion"};
  return kNames[static_cast<size_t>(method)];
}

std::string FormatPlan(const Plan& plan) {
  std::string out = "halyard-plan 1\n";
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "machine {} {:016x}\n", plan.snapshot, plan.machine_hash);
  fmt::format_to(to, "result {} {} {} {} {} {} {} {} {}\n", plan.makespan_seconds,
                 plan.additive_seconds, plan.sigma_seconds, FormatMethod(plan.method),
                 plan.is_optimal ? 1 : 0, QuoteText(plan.winner), plan.steps, plan.memory_rounds,
                 plan.memory_price_seconds);
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    fmt::format_to(to, "device {} {} {}\n", QuoteText(plan.device_names[d]), plan.devices[d].items,
                   plan.devices[d].busy_seconds);
  }
  for (size_t m = 0; m < plan.memories.size(); ++m) {
    fmt::format_to(to, "memory {} {} {} {}\n", QuoteText(plan.memory_names[m]),
                   plan.memories[m].weight_bytes, plan.memories[m].activation_bytes,
                   plan.memories[m].cap_bytes);
  }
  if (plan.stream_lots != 2) fmt::format_to(to, "lots {}\n", plan.stream_lots);
  for (const std::string& name : plan.tensor_names) {
    fmt::format_to(to, "tensor {}\n", QuoteText(name));
  }
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const Decision& decision = plan.decisions[i];
    fmt::format_to(to, "item {} {:016x} {} {} {} {} {} {} {} {}\n", QuoteText(plan.item_names[i]),
                   plan.item_keys[i], decision.device, FormatDecidedBy(decision.decided_by),
                   decision.start_seconds, decision.transfer_seconds, decision.avoided_seconds,
                   FormatIndex(decision.rival), decision.margin_seconds,
                   decision.margin_is_exact ? 1 : 0);
    if (!plan.item_nodes[i].empty()) {
      out += "  nodes";
      for (const std::string& name : plan.item_nodes[i]) out += ' ' + QuoteText(name);
      out += '\n';
    }
    if (decision.streams) out += "  streams\n";
    for (const Cost& cost : plan.costs[i]) {
      fmt::format_to(to, "  cost {} {} {} {} {}\n", FormatReason(cost.reason), cost.seconds,
                     cost.sigma, FormatSource(cost.source), QuoteText(cost.detail));
    }
    for (const Missing& missing : decision.missing) {
      fmt::format_to(to, "  missing {} {}\n", missing.device, missing.seconds);
    }
  }
  for (const std::string& name : plan.link_names) {
    fmt::format_to(to, "link {}\n", QuoteText(name));
  }
  for (const Transfer& transfer : plan.transfers) {
    fmt::format_to(to, "transfer {} {} {} {} {} {} {} {} {}", transfer.tensor,
                   FormatIndex(transfer.from), FormatIndex(transfer.to), transfer.bytes,
                   transfer.seconds, FormatSource(transfer.source), FormatPathKind(transfer.path),
                   transfer.start_seconds, transfer.copy_seconds);
    for (const uint32_t link : transfer.links) fmt::format_to(to, " {}", link);
    out += '\n';
  }
  for (const Rival& rival : plan.rivals) {
    fmt::format_to(to, "rival {} {} {} {} {}", QuoteText(rival.name), rival.is_feasible ? 1 : 0,
                   rival.makespan_seconds, rival.additive_seconds, QuoteText(rival.reason));
    for (size_t i = 0; i < rival.devices.size();) {
      size_t end = i;
      while (end < rival.devices.size() && rival.devices[end] == rival.devices[i]) ++end;
      fmt::format_to(to, " {}x{}", end - i, rival.devices[i]);
      i = end;
    }
    out += '\n';
  }
  for (const Price& price : plan.prices) {
    fmt::format_to(to, "price {} {} {}\n", QuoteText(price.affinity), price.seconds, price.items);
  }
  for (const UnpricedWish& wish : plan.unpriced) {
    fmt::format_to(to, "unpriced {} {}\n", QuoteText(wish.affinity), QuoteText(wish.reason));
  }
  return out;
}

Result<Plan> ParsePlan(std::string_view text) { return PlanReader(text).Read(); }

std::vector<uint32_t> MatchPrevious(const Plan& previous, const Problem& problem) {
  std::map<std::string_view, uint32_t> device_of_name;
  for (uint32_t d = 0; d < problem.machine.devices.size(); ++d) {
    device_of_name[problem.machine.devices[d].name] = d;
  }
  std::map<std::pair<std::string_view, uint64_t>, uint32_t> device_of;
  std::map<std::string_view, uint32_t> device_of_node;  // kNone: of parts on several
  for (size_t i = 0; i < previous.decisions.size(); ++i) {
    const auto found = device_of_name.find(previous.device_names[previous.decisions[i].device]);
    if (found == device_of_name.end()) continue;  // the device is not there any more
    device_of.try_emplace({previous.item_names[i], previous.item_keys[i]}, found->second);
    for (const std::string& node : previous.item_nodes[i]) {
      const auto [entry, is_new] = device_of_node.try_emplace(node, found->second);
      if (!is_new && entry->second != found->second) entry->second = kNone;
    }
  }
  std::vector<uint32_t> out(problem.items.size(), kNone);
  bool any = false;
  for (size_t i = 0; i < out.size(); ++i) {
    const Item& item = problem.items[i];
    const auto found = device_of.find({item.name, item.key});
    uint32_t device = found == device_of.end() ? kNone : found->second;
    for (const std::string& node : item.nodes) {  // it may be a part of what was one kernel
      if (device != kNone) break;
      const auto part = device_of_node.find(node);
      if (part != device_of_node.end()) device = part->second;
    }
    if (device == kNone || !item.costs[device].feasible()) continue;
    out[i] = device;
    any = true;
  }
  if (!any) return {};
  std::vector<std::vector<uint32_t>> inputs(out.size());
  for (const Tensor& tensor : problem.tensors) {
    if (tensor.producer == kNone) continue;
    for (const uint32_t consumer : tensor.consumers) inputs[consumer].push_back(tensor.producer);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != kNone) continue;
    const std::vector<Cost>& costs = problem.items[i].costs;
    std::vector<uint32_t> votes(costs.size(), 0);
    for (const uint32_t producer : inputs[i]) ++votes[out[producer]];
    uint32_t best = kNone;
    for (uint32_t d = 0; d < costs.size(); ++d) {
      if (costs[d].feasible() && (best == kNone || votes[d] > votes[best])) best = d;
    }
    out[i] = best == kNone ? 0 : best;
  }
  return out;
}

}  // namespace halyard::place
