// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/place_clusters.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "base/gpu_kernel_abi.h"
#include "base/near_names.h"
#include "base/quantity.h"
#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/cluster_work.h"
#include "compiler/pipeline/convex_clusters.h"
#include "compiler/pipeline/fused_clusters.h"
#include "compiler/pipeline/node_fates.h"
#include "compiler/pipeline/refusals.h"
#include "compiler/place/makespan.h"
#include "compiler/place/solve.h"
#include "compiler/place/stream.h"
#include "compiler/place/tensor_limit.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// A plan that was made without knowing what fuses stays where it is predicted to win more than
// this.
constexpr double kFusedMargin = 0.01;

std::string Quoted(const std::vector<program::Device>& devices) {
  std::string out;
  for (const program::Device& device : devices) {
    out += fmt::format("{}'{}'", out.empty() ? "" : ", ", device.name);
  }
  return out;
}

Result<uint32_t> FindDevice(const std::vector<program::Device>& devices, const std::string& name,
                            const std::string& who) {
  for (uint32_t d = 0; d < devices.size(); ++d) {
    if (devices[d].name == name) return d;
  }
  return InvalidArgument("{} names device '{}'; the request has {}.", who, name, Quoted(devices));
}

// What a GPU without some feature cannot hold or compute; kNone: nothing.
place::Reason WhyNotOnTarget(const Target& target, const graph::Module& module, const Node& node,
                             std::string* detail) {
  if (target.kind != TargetKind::kVulkan) return place::Reason::kNone;
  const auto has = [&](GpuFeature f) {
    return (target.gpu.features & static_cast<uint64_t>(f)) != 0;
  };
  for (const auto* list : {&node.operands, &node.results}) {
    for (const ValueId value : *list) {
      if (value == kNone) continue;
      const DType dtype = module.values[value].type.dtype;
      bool can = true;
      const int bits = BitWidth(dtype);
      if (bits == 8) can = has(GpuFeature::kInt8) && has(GpuFeature::kStorage8);
      if (bits == 16) can = has(GpuFeature::kInt16) && has(GpuFeature::kStorage16);
      if (dtype == DType::kF16) can = can && has(GpuFeature::kFloat16);
      if (dtype == DType::kF64) can = has(GpuFeature::kFloat64);
      if (can) continue;
      *detail = fmt::format("'{}' is {}, which the device has no code for.",
                            module.values[value].name, FormatDType(dtype));
      return place::Reason::kDType;
    }
  }
  return place::Reason::kNone;
}

class ProblemMaker {
 public:
  ProblemMaker(const CompileState& state, place::Machine machine)
      : state_(state), module_(state.module), devices_(state.program.devices) {
    problem_.machine = std::move(machine);
  }

  Result<place::Problem> Make(std::vector<uint32_t>* cluster_of_item) {
    FindItems();
    for (uint32_t d = 0; d < devices_.size() && host_ == kNone; ++d) {
      if (devices_[d].is_host) host_ = d;
    }
    FindTimings();
    for (uint32_t i = 0; i < nodes_of_.size(); ++i) HY_TRY(AddItem(i));
    AddTensors();
    HY_TRY(AddOptions());
    *cluster_of_item = cluster_of_item_;
    return std::move(problem_);
  }

 private:
  bool IsConstant(NodeId id) const { return module_.nodes[id].constant != kNone; }

  // Each cluster behind those that it reads from, else in the order of their last nodes. Clusters
  // that read from each other are there with a single device only.
  void FindItems() {
    const std::vector<NodeId>& order = module_.entry().nodes;
    std::map<uint32_t, uint32_t> last;                  // cluster -> position of its last node
    std::map<uint32_t, std::set<uint32_t>> reads_from;  // clusters
    for (uint32_t i = 0; i < order.size(); ++i) {
      if (IsConstant(order[i])) continue;
      const uint32_t cluster = state_.cluster_of[order[i]];
      last[cluster] = i;
      for (const ValueId operand : module_.nodes[order[i]].operands) {
        const NodeId producer = operand == kNone ? kNone : module_.values[operand].producer;
        // A constant in another layout is a node of its own, which came after the clusters.
        if (producer == kNone || producer >= state_.cluster_of.size()) continue;
        if (IsConstant(producer)) continue;
        if (state_.cluster_of[producer] != cluster) {
          reads_from[cluster].insert(state_.cluster_of[producer]);
        }
      }
    }
    std::map<uint32_t, std::set<uint32_t>> readers_of;
    for (const auto& [cluster, producers] : reads_from) {
      for (const uint32_t producer : producers) readers_of[producer].insert(cluster);
    }
    std::set<std::pair<uint32_t, uint32_t>> ready, waiting;  // position, cluster
    for (const auto& [cluster, position] : last) {
      (reads_from[cluster].empty() ? ready : waiting).insert({position, cluster});
    }
    std::map<uint32_t, uint32_t> item_of_cluster;
    while (!ready.empty() || !waiting.empty()) {
      auto& from = ready.empty() ? waiting : ready;
      const uint32_t cluster = from.begin()->second;
      from.erase(from.begin());
      item_of_cluster[cluster] = static_cast<uint32_t>(cluster_of_item_.size());
      cluster_of_item_.push_back(cluster);
      for (const uint32_t reader : readers_of[cluster]) {
        std::set<uint32_t>& left = reads_from[reader];
        left.erase(cluster);
        const std::pair<uint32_t, uint32_t> key(last[reader], reader);
        if (left.empty() && waiting.erase(key) > 0) ready.insert(key);
      }
    }
    item_of_.assign(module_.nodes.size(), kNone);
    nodes_of_.resize(cluster_of_item_.size());
    for (const NodeId id : order) {
      if (IsConstant(id)) continue;
      item_of_[id] = item_of_cluster[state_.cluster_of[id]];
      nodes_of_[item_of_[id]].push_back(id);
    }
    leaves_.assign(module_.values.size(), false);
    for (const ValueId result : module_.entry().results) leaves_[result] = true;
    for (const NodeId id : order) {
      for (const ValueId operand : module_.nodes[id].operands) {
        const NodeId producer = operand == kNone ? kNone : module_.values[operand].producer;
        if (producer != kNone && item_of_[producer] != item_of_[id]) leaves_[operand] = true;
      }
    }
  }

  // What the clusters do and how long they took on each device. A class of op that was timed is
  // corrected by that where it was not. Weights that a run does not find in a device's caches, as
  // the run itself has overwritten them, are another correction.
  void FindTimings() {
    for (const std::vector<NodeId>& nodes : nodes_of_) {
      works_.push_back(CountWork(module_, nodes, leaves_));
      keys_.push_back(WorkKey(module_, nodes));
    }
    double weights = 0;
    std::set<ValueId> counted;
    for (const std::vector<NodeId>& nodes : nodes_of_) {
      weights += ConstantBytesRead(module_, nodes, &counted);
    }
    for (place::Device& device : problem_.machine.devices) {
      if (weights > static_cast<double>(place::KeptBytes(device)))
        UseFits(device.cold_fits, &device);
    }
    timings_.assign(devices_.size(), std::vector<std::optional<place::Timing>>(works_.size()));
    if (state_.request == nullptr || state_.request->timings == nullptr) return;
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      std::vector<place::Sample> samples;
      for (size_t i = 0; i < works_.size(); ++i) {
        timings_[d][i] = state_.request->timings->FindTime(d, keys_[i]);
        if (timings_[d][i]) samples.push_back({works_[i], timings_[d][i]->seconds});
      }
      place::Device& device = problem_.machine.devices[d];
      UseFits(place::FitEfficiency(device, samples), &device);
    }
  }

  // In place of what corrects those classes.
  static void UseFits(const std::vector<place::Fit>& better, place::Device* device) {
    for (const place::Fit& fit : better) {
      std::erase_if(device->fits,
                    [&](const place::Fit& old) { return old.op_class == fit.op_class; });
      device->fits.push_back(fit);
    }
  }

  Status AddItem(uint32_t index) {
    const std::vector<NodeId>& nodes = nodes_of_[index];
    place::Item item;
    item.work = works_[index];
    item.key = keys_[index];
    for (const NodeId id : nodes) {
      const Node& node = module_.nodes[id];
      if (!node.name.empty()) item.nodes.push_back(node.name);
      for (const NodeId inside : NodesInside(module_, node)) {
        const std::string& name = module_.nodes[inside].name;
        if (!name.empty()) item.nodes.push_back(name);
      }
      const auto merged = state_.merged_products.find(node.name);
      if (node.op->name != "matmul" || merged == state_.merged_products.end()) continue;
      item.nodes.insert(item.nodes.end(), merged->second.begin(), merged->second.end());
    }
    // Named by its template, or by its first node.
    NodeId main = nodes.front();
    for (const NodeId id : nodes) {
      if (module_.nodes[id].op->traits & graph::kTemplate) {
        main = id;
        break;
      }
    }
    item.name = module_.nodes[main].name;
    if (item.name.empty() && !module_.nodes[main].results.empty()) {
      item.name = module_.values[module_.nodes[main].results[0]].name;
    }
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      place::Cost cost =
          place::EstimateCost(problem_.machine.devices[d], item.work, timings_[d][index]);
      for (const NodeId id : nodes) {
        if (cost.feasible()) HY_TRY(CheckNode(id, d, item.work, &cost));
      }
      const auto refusal = state_.refusals.find({state_.cluster_of[nodes.front()], d});
      if (cost.feasible() && refusal != state_.refusals.end()) {
        cost.reason = place::Reason::kTarget;
        cost.detail = refusal->second;
      }
      cost.seconds = std::min(cost.seconds, 1e6);
      item.costs.push_back(std::move(cost));
    }
    std::set<uint32_t> weights;
    for (const NodeId id : nodes) {
      for (const ValueId operand : module_.nodes[id].operands) {
        const NodeId producer = operand == kNone ? kNone : module_.values[operand].producer;
        if (producer == kNone || !IsConstant(producer)) continue;
        const auto [entry, is_new] = weight_of_.try_emplace(
            module_.nodes[producer].constant, static_cast<uint32_t>(problem_.weights.size()));
        if (is_new) problem_.weights.push_back({HintedBytes(module_, operand)});
        weights.insert(entry->second);
      }
    }
    item.weights.assign(weights.begin(), weights.end());
    problem_.items.push_back(std::move(item));
    return OkStatus();
  }

  Status CheckNode(NodeId id, uint32_t device, const place::Work& work, place::Cost* cost) {
    const Node& node = module_.nodes[id];
    const Status lowered = loop::CanLower(module_, node);
    if (!lowered.ok()) {
      // The interpreter is on the host.
      if (host_ == kNone || device == host_) {
        *cost = place::InterpretedCost(host_ == kNone ? nullptr : &problem_.machine.devices[host_],
                                       work);
        return OkStatus();
      }
      cost->reason = place::Reason::kOp;
      cost->detail = lowered.message();
      return OkStatus();
    }
    cost->reason = WhyNotOnTarget(devices_[device].target, module_, node, &cost->detail);
    for (const ValueId value : node.results) {
      const int64_t most = devices_[device].target.max_buffer_bytes;
      if (!cost->feasible() || HintedBytes(module_, value) <= most) continue;
      cost->reason = place::Reason::kShape;
      const int64_t bytes = HintedBytes(module_, value);
      cost->detail = fmt::format("'{}' takes {} bytes{}; a buffer of the device has at most {}.",
                                 module_.values[value].name, bytes,
                                 bytes >= place::kMostTensorBytes ? " or more" : "", most);
    }
    return OkStatus();
  }

  void AddTensors() {
    std::map<ValueId, std::set<uint32_t>> consumers;
    for (const NodeId id : module_.entry().nodes) {
      if (IsConstant(id)) continue;
      for (const ValueId operand : module_.nodes[id].operands) {
        if (operand == kNone) continue;
        const NodeId producer = module_.values[operand].producer;
        if (producer != kNone && (IsConstant(producer) || item_of_[producer] == item_of_[id])) {
          continue;
        }
        consumers[operand].insert(item_of_[id]);
      }
    }
    const std::vector<ValueId>& results = module_.entry().results;
    const std::set<ValueId> outputs(results.begin(), results.end());
    for (const ValueId value : outputs) consumers.try_emplace(value);
    for (const auto& [value, readers] : consumers) {
      const NodeId producer = module_.values[value].producer;
      if (producer != kNone && IsConstant(producer)) continue;
      place::Tensor tensor;
      tensor.name = module_.values[value].name;
      const auto result = std::find(results.begin(), results.end(), value);
      const auto output = static_cast<size_t>(result - results.begin());
      if (output < module_.entry().result_names.size())
        tensor.name = module_.entry().result_names[output];  // what the caller calls it
      tensor.bytes = HintedBytes(module_, value);
      tensor.producer = producer == kNone ? place::kNone : item_of_[producer];
      tensor.is_output = outputs.count(value) > 0;
      for (const uint32_t reader : readers) {
        if (tensor.producer == place::kNone || reader > tensor.producer) {
          tensor.consumers.push_back(reader);
        }
      }
      problem_.tensors.push_back(std::move(tensor));
    }
  }

  Status AddOptions() {
    static const place::Options kDefaults;
    const place::Options& options =
        state_.request != nullptr ? state_.request->options.placement : kDefaults;
    problem_.preference = options.preference;
    problem_.hysteresis = options.hysteresis;
    problem_.keeps_previous = options.keeps_previous;
    problem_.explained_items = options.explained_items;
    for (uint32_t a = 0; a < options.affinities.size(); ++a) {
      const place::Affinity& affinity = options.affinities[a];
      const std::string who = fmt::format("The affinity of '{}'", affinity.pattern);
      HY_ASSIGN(const uint32_t device, FindDevice(devices_, affinity.device, who));
      problem_.affinities.push_back(place::FormatAffinity(affinity));
      for (uint32_t i = 0; i < nodes_of_.size(); ++i) {
        const auto is_meant = [&](NodeId id) {
          return MatchesNode(state_, affinity.pattern, module_.nodes[id]);
        };
        if (std::none_of(nodes_of_[i].begin(), nodes_of_[i].end(), is_meant)) continue;
        problem_.constraints.push_back({i, device, affinity.strength, a});
      }
    }
    const place::Machine& machine = problem_.machine;
    problem_.memory_caps.assign(machine.memories.size(), 0);
    for (size_t m = 0; m < machine.memories.size(); ++m) {
      problem_.memory_caps[m] = machine.memories[m].bytes;
    }
    for (const place::MemoryCap& cap : options.memory_caps) {
      HY_ASSIGN(const uint32_t device, FindDevice(devices_, cap.device, "A memory cap"));
      if (cap.bytes < 1) {
        return InvalidArgument("The memory cap of '{}' is {} bytes; at least 1 is needed.",
                               cap.device, cap.bytes);
      }
      Limit(device, cap.bytes);
    }
    for (uint32_t d = 0; state_.request != nullptr && d < state_.request->memory_limits.size();
         ++d) {
      if (state_.request->memory_limits[d] > 0) Limit(d, state_.request->memory_limits[d]);
    }
    problem_.last_resort.assign(devices_.size(), false);
    for (const std::string& name : options.last_resort) {
      HY_ASSIGN(const uint32_t device, FindDevice(devices_, name, "The last resort"));
      problem_.last_resort[device] = true;
    }
    if (options.previous_plan.empty()) return OkStatus();
    const auto previous = place::ParsePlan(options.previous_plan);
    if (!previous.ok()) return previous.status().WithContext("reading the plan that runs now");
    problem_.previous = place::MatchPrevious(*previous, problem_);
    return OkStatus();
  }

  void Limit(uint32_t device, int64_t bytes) {
    int64_t& limit = problem_.memory_caps[problem_.machine.devices[device].memory];
    limit = limit == 0 ? bytes : std::min(limit, bytes);
  }

  const CompileState& state_;
  const graph::Module& module_;
  const std::vector<program::Device>& devices_;
  place::Problem problem_;
  uint32_t host_ = kNone;
  std::vector<uint32_t> item_of_;  // per node
  std::vector<uint32_t> cluster_of_item_;
  std::vector<std::vector<NodeId>> nodes_of_;
  std::vector<bool> leaves_;                                        // per value
  std::vector<place::Work> works_;                                  // per item
  std::vector<uint64_t> keys_;                                      // per item
  std::vector<std::vector<std::optional<place::Timing>>> timings_;  // per device and item
  std::map<graph::ConstantId, uint32_t> weight_of_;
};

constexpr std::string_view kOp = "op:";

// Why a wish does nothing, with what may have been meant.
std::string ExplainUnmatched(const CompileState& state, const place::Affinity& wish) {
  const bool is_op = wish.pattern.starts_with(kOp);
  const std::string pattern = wish.pattern.substr(is_op ? kOp.size() : 0);
  std::set<std::string> known, gone;
  for (const Node& node : state.module.nodes) {
    if (node.constant != kNone) continue;
    known.insert(is_op ? std::string(node.op->name) : node.name);
    if (MatchesNode(state, wish.pattern, node)) gone.insert(node.name);
  }
  for (const auto& [name, types] : state.op_types) {
    if (is_op) known.insert(types.begin(), types.end());
    const bool is_meant =
        is_op ? std::any_of(types.begin(), types.end(),
                            [&](const auto& type) { return place::MatchesPattern(pattern, type); })
              : place::MatchesPattern(pattern, name);
    if (is_meant) gone.insert(name);
    if (!is_op) known.insert(name);
  }
  std::string text =
      fmt::format("The affinity '{}' matches no node that runs", place::FormatAffinity(wish));
  for (const NodeId id : state.module.entry().nodes) {
    const Node& whole = state.module.nodes[id];
    for (const NodeId inside : NodesInside(state.module, whole)) {
      const Node& node = state.module.nodes[inside];
      if (!MatchesNode(state, wish.pattern, node)) continue;
      return text + fmt::format(" by itself; '{}' is inside '{}', which is placed as a whole.",
                                node.name, whole.name);
    }
  }
  if (!gone.empty()) {
    return text + fmt::format("; passes removed the {} that it means, such as '{}'.",
                              gone.size() == 1 ? "node" : "nodes", *gone.begin());
  }
  known.erase("");
  return text +
         fmt::format("; the {} of the model: {}.", is_op ? "ops" : "nodes",
                     NamesLike(pattern, std::vector<std::string>(known.begin(), known.end())));
}

// Which constants each device streams, from the plan's items that do: all large ones that no other
// item of the device keeps.
void MarkStreamed(CompileState& state, const place::Plan& plan,
                  const std::vector<uint32_t>& cluster_of_item) {
  std::map<uint32_t, bool> streams;  // cluster
  for (size_t i = 0; i < cluster_of_item.size(); ++i) {
    streams[cluster_of_item[i]] = plan.decisions[i].streams;
  }
  std::set<std::pair<graph::ConstantId, uint32_t>> kept;
  std::map<uint32_t, std::map<graph::ConstantId, int64_t>> of_cluster;
  for (const NodeId id : state.module.entry().nodes) {
    const uint32_t cluster = state.cluster_of[id];
    if (state.module.nodes[id].constant != kNone) continue;
    const bool is_compiled = loop::CanLower(state.module, state.module.nodes[id]).ok();
    for (const ValueId operand : state.module.nodes[id].operands) {
      const NodeId producer = operand == kNone ? kNone : state.module.values[operand].producer;
      const auto constant = producer == kNone ? kNone : state.module.nodes[producer].constant;
      if (constant == kNone) continue;
      const int64_t bytes = HintedBytes(state.module, operand);
      const uint32_t device = state.device_of[cluster];
      if (!streams[cluster] || bytes < place::kLeastStreamed || !is_compiled) {
        kept.insert({constant, device});
      } else {
        state.streamed.insert({constant, device});
        of_cluster[cluster][constant] = bytes;
      }
    }
  }
  for (const auto& key : kept) state.streamed.erase(key);
  state.stream_lots = plan.stream_lots;
  std::map<uint32_t, std::pair<size_t, int64_t>> totals;  // device: clusters, bytes
  for (const auto& [cluster, constants] : of_cluster) {
    const uint32_t device = state.device_of[cluster];
    int64_t lot = 0;
    for (const auto& [constant, bytes] : constants) {
      if (state.streamed.count({constant, device})) lot += bytes;
    }
    state.stream_lot_bytes[device] = std::max(state.stream_lot_bytes[device], lot);
    ++totals[device].first;
    totals[device].second += lot;
  }
  for (const auto& [device, total] : totals) {
    state.Record("placement", state.program.devices[device].name,
                 fmt::format("The weights of {} of its clusters do not fit there; every run brings "
                             "them ({}) while it computes.",
                             total.first, FormatBytes(total.second)));
  }
}

// The limits as this attempt sees them.
void ApplyAttempt(const MemoryAttempt& attempt, place::Problem* problem) {
  problem->may_exceed = attempt.may_exceed;
  for (size_t d = 0; d < attempt.margins.size(); ++d) {
    int64_t& cap = problem->memory_caps[problem->machine.devices[d].memory];
    if (cap > 0) cap = std::max<int64_t>(1, cap - std::min(cap, attempt.margins[d]));
  }
}

void RecordAttempt(CompileState& state) {
  const MemoryAttempt& attempt = state.memory_attempt;
  for (size_t d = 0; d < attempt.margins.size() && !attempt.may_exceed; ++d) {
    if (attempt.margins[d] == 0) continue;
    state.Record(
        "placement", state.program.devices[d].name,
        fmt::format("The plan leaves {} of its limit free: the program of one that did not "
                    "took more than placement had counted.",
                    Counted(attempt.margins[d], "byte")));
  }
  if (!attempt.may_exceed) return;
  state.Record("placement", "memory",
               "Weights stream wherever a memory has a limit: the other plans that were found take "
               "too much.");
}

}  // namespace

bool MatchesNode(const CompileState& state, std::string_view pattern, const Node& node) {
  if (!pattern.starts_with(kOp)) return place::MatchesPattern(pattern, node.name);
  pattern.remove_prefix(kOp.size());
  if (place::MatchesPattern(pattern, node.op->name)) return true;
  const auto found = state.op_types.find(node.name);
  return found != state.op_types.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const std::string& type) { return place::MatchesPattern(pattern, type); });
}

place::Machine MachineOf(const CompileState& state, std::vector<std::string>* notes) {
  place::Machine machine = place::DefaultMachine(state.program.devices);
  if (state.request == nullptr || state.request->machine == nullptr) return machine;
  return place::MergeMeasured(machine, *state.request->machine, notes);
}

Result<place::Problem> MakeProblem(const CompileState& state, place::Machine machine,
                                   std::vector<uint32_t>* cluster_of_item) {
  return ProblemMaker(state, std::move(machine)).Make(cluster_of_item);
}

namespace {

struct Placement {
  place::Problem problem;
  place::Plan plan;
  std::vector<uint32_t> cluster_of_item;
};

// `explains`: with margins and prices, which are solves of their own.
Result<Placement> SolvePlacement(const CompileState& state, place::Machine machine, bool explains) {
  Placement out;
  HY_ASSIGN(out.problem, MakeProblem(state, std::move(machine), &out.cluster_of_item));
  const std::vector<int64_t> limits = out.problem.memory_caps;
  ApplyAttempt(state.memory_attempt, &out.problem);
  if (!explains) out.problem.explained_items = 0;
  HY_ASSIGN(out.plan, place::Solve(out.problem));
  for (size_t m = 0; m < limits.size(); ++m) out.plan.memories[m].cap_bytes = limits[m];
  return out;
}

void AssignDevices(CompileState& state, const Placement& placement) {
  uint32_t clusters = 0;
  for (const uint32_t cluster : state.cluster_of) {
    if (cluster != kNone) clusters = std::max(clusters, cluster + 1);
  }
  state.device_of.assign(clusters, 0);
  state.predictions.assign(clusters, {});
  for (size_t i = 0; i < placement.cluster_of_item.size(); ++i) {
    const uint32_t device = placement.plan.decisions[i].device;
    const uint32_t cluster = placement.cluster_of_item[i];
    const place::Item& item = placement.problem.items[i];
    state.device_of[cluster] = device;
    state.predictions[cluster] = {item.work, item.costs[device].seconds, item.costs[device].source,
                                  item.key};
  }
}

// Under limits parts may have to move or stream apart, so clusters stay what they are.
bool KeepsParts(const CompileState& state, const place::Plan& plan) {
  const auto streams = [](const place::Decision& decision) { return decision.streams; };
  const MemoryAttempt& attempt = state.memory_attempt;
  return plan.memory_rounds > 0 || attempt.may_exceed || !attempt.margins.empty() ||
         std::any_of(plan.decisions.begin(), plan.decisions.end(), streams);
}

std::vector<uint32_t> DevicesOf(const place::Plan& plan) {
  std::vector<uint32_t> devices;
  for (const place::Decision& decision : plan.decisions) devices.push_back(decision.device);
  return devices;
}

// Places clusters that are kernels. `parts`: per node the cluster that it had at first.
class KernelPlacer {
 public:
  KernelPlacer(CompileState& state, const place::Machine& machine, Placement& placement)
      : state_(state), machine_(machine), placement_(placement), parts_(state.cluster_of) {}

  // The first plan is solved once more, for its explanations, which it has only if it stays.
  Status Explain() {
    HY_ASSIGN(placement_, SolvePlacement(state_, machine_, true));
    return OkStatus();
  }

  // The first plan priced parts of kernels one by one. Where it is cut, fusion is known: what
  // became one kernel is one cluster with one cost, and is placed once more. The first plan stays
  // where the second is no better by those costs.
  Status PlaceAgain() {
    const std::vector<uint32_t> at = AtNodes(DevicesOf(placement_.plan));
    HY_ASSIGN(const std::vector<uint32_t> fused, FuseAt(at));
    if (CountItems(fused) == placement_.cluster_of_item.size()) return Explain();
    HY_ASSIGN(auto second, With(fused, [&] { return SolveAgain(); }));
    if (!second) return Explain();
    const std::vector<uint32_t> first = AtItems(at, fused, second->cluster_of_item);
    HY_ASSIGN(const place::PlanTimes times, place::PredictTimes(second->problem, first));
    const double seconds = second->plan.makespan_seconds;
    std::string text =
        fmt::format("{} became {} by fusion and were placed once more: ",
                    Counted(placement_.cluster_of_item.size(), "cluster"), first.size());
    if (times.makespan_seconds < seconds * (1 - kFusedMargin)) {
      text += fmt::format("{} against {}, so the first plan stays.", FormatSeconds(seconds),
                          FormatSeconds(times.makespan_seconds));
      HY_TRY(Explain());
      placement_.plan.makespan_seconds = times.makespan_seconds;
      placement_.plan.additive_seconds = times.additive_seconds;
    } else {
      size_t moved = 0;
      for (size_t i = 0; i < first.size(); ++i) {
        moved += second->plan.decisions[i].device != first[i];
      }
      text += fmt::format("{} moved, {} against {} of the first plan.", moved,
                          FormatSeconds(seconds), FormatSeconds(times.makespan_seconds));
      Take(fused, std::move(*second));
    }
    state_.Record("placement", "fusion", std::move(text));
    return OkStatus();
  }

  // A plan of one device, or a greedy one, is cut elsewhere, so other kernels are made of its
  // clusters: its time is that of those. A single device that is faster than the plan then is
  // placed with its own kernels.
  Status PriceRivals() {
    HY_ASSIGN(std::vector<uint32_t> fused, PriceRivalsOnce());
    const bool may_change =
        !placement_.problem.keeps_previous && placement_.plan.winner != "the previous plan";
    if (fused.empty() || !may_change) return OkStatus();
    HY_ASSIGN(auto own, With(fused, [&] { return SolveAgain(); }));
    const double seconds = placement_.plan.makespan_seconds;
    if (!own || own->plan.makespan_seconds >= seconds) return OkStatus();
    state_.Record("placement", "fusion",
                  fmt::format("Uncut, {} became {} and were placed once more: {} against {} of "
                              "the plan before.",
                              Counted(placement_.cluster_of_item.size(), "cluster"),
                              own->cluster_of_item.size(),
                              FormatSeconds(own->plan.makespan_seconds), FormatSeconds(seconds)));
    Take(fused, std::move(*own));
    return PriceRivalsOnce().status();
  }

 private:
  // Per node what its item has; nothing for constants.
  std::vector<uint32_t> AtNodes(const std::vector<uint32_t>& devices) const {
    std::map<uint32_t, uint32_t> of_cluster;
    for (size_t i = 0; i < devices.size(); ++i) {
      of_cluster[placement_.cluster_of_item[i]] = devices[i];
    }
    std::vector<uint32_t> out(state_.module.nodes.size(), kNone);
    for (const NodeId id : state_.module.entry().nodes) {
      const auto found = of_cluster.find(state_.cluster_of[id]);
      if (found != of_cluster.end()) out[id] = found->second;
    }
    return out;
  }

  std::vector<uint32_t> AtItems(const std::vector<uint32_t>& at,
                                const std::vector<uint32_t>& cluster_of,
                                const std::vector<uint32_t>& cluster_of_item) const {
    std::map<uint32_t, uint32_t> of_cluster;
    for (const NodeId id : state_.module.entry().nodes) {
      if (at[id] != kNone) of_cluster[cluster_of[id]] = at[id];
    }
    std::vector<uint32_t> out;
    for (const uint32_t cluster : cluster_of_item) out.push_back(of_cluster[cluster]);
    return out;
  }

  size_t CountItems(const std::vector<uint32_t>& cluster_of) const {
    std::set<uint32_t> clusters;
    for (const NodeId id : state_.module.entry().nodes) {
      if (state_.module.nodes[id].constant == kNone) clusters.insert(cluster_of[id]);
    }
    return clusters.size();
  }

  // Calls with these clusters.
  template <typename Function>
  std::invoke_result_t<Function> With(const std::vector<uint32_t>& cluster_of,
                                      const Function& function) {
    const std::vector<uint32_t> before = std::exchange(state_.cluster_of, cluster_of);
    auto result = function();
    state_.cluster_of = before;
    return result;
  }

  // What the parts are by fusion where each node runs on its device. Which devices those are does
  // not matter, only where they change.
  Result<std::vector<uint32_t>> FuseAt(const std::vector<uint32_t>& at) {
    std::map<uint32_t, uint32_t> numbers = {{kNone, kNone}};  // by first appearance
    std::vector<uint32_t> cuts;
    for (const NodeId id : state_.module.entry().nodes) {
      cuts.push_back(
          numbers.try_emplace(at[id], static_cast<uint32_t>(numbers.size())).first->second);
    }
    const auto [found, is_new] = fused_.try_emplace(std::move(cuts));
    if (!is_new) return found->second;
    const std::vector<uint32_t> before =
        std::exchange(state_.device_of, std::vector<uint32_t>(parts_.size(), 0));
    for (const NodeId id : state_.module.entry().nodes) {
      if (at[id] != kNone) state_.device_of[parts_[id]] = at[id];
    }
    auto fused = With(parts_, [&] { return FusedClusters(state_); });
    state_.device_of = before;
    HY_ASSIGN(found->second, std::move(fused));
    return found->second;
  }

  // Nothing where placement finds nothing, which is recorded.
  Result<std::optional<Placement>> SolveAgain() {
    auto solved = SolvePlacement(state_, placement_.problem.machine, true);
    if (solved.ok()) return std::optional(std::move(solved).value());
    state_.Record("placement", "fusion",
                  fmt::format("Placing fused kernels found nothing: {}", solved.status().ToLine()));
    return std::optional<Placement>();
  }

  void Take(const std::vector<uint32_t>& cluster_of, Placement placement) {
    state_.cluster_of = cluster_of;
    placement_ = std::move(placement);
    AssignDevices(state_, placement_);
  }

  // The clusters of the fastest rival on a single device, if it is faster than the plan; else none.
  Result<std::vector<uint32_t>> PriceRivalsOnce() {
    const std::vector<uint32_t> chosen = DevicesOf(placement_.plan);
    std::vector<uint32_t> fastest;
    double least = placement_.plan.makespan_seconds;
    std::map<std::vector<uint32_t>, place::PlanTimes> known;
    std::map<std::vector<uint32_t>, std::pair<place::Problem, std::vector<uint32_t>>> problems;
    problems[state_.cluster_of] = {placement_.problem, placement_.cluster_of_item};
    for (place::Rival& rival : placement_.plan.rivals) {
      const bool is_single = rival.name.starts_with("all ");
      const bool is_priced = is_single || rival.name.starts_with("greedy");
      if (!rival.is_feasible || !is_priced || rival.devices == chosen) continue;
      const auto [found, is_new] = known.try_emplace(rival.devices);
      if (is_new) {
        const std::vector<uint32_t> at = AtNodes(rival.devices);
        HY_ASSIGN(const std::vector<uint32_t> fused, FuseAt(at));
        const auto [made, is_first] = problems.try_emplace(fused);
        auto& [problem, clusters] = made->second;
        if (is_first) {
          HY_ASSIGN(problem, With(fused, [&, &items = clusters] {
                      return MakeProblem(state_, placement_.problem.machine, &items);
                    }));
        }
        HY_ASSIGN(found->second, place::PredictTimes(problem, AtItems(at, fused, clusters)));
        if (is_single && found->second.makespan_seconds < least) {
          least = found->second.makespan_seconds;
          fastest = fused;
        }
      }
      rival.makespan_seconds = found->second.makespan_seconds;
      rival.additive_seconds = found->second.additive_seconds;
    }
    return fastest;
  }

  CompileState& state_;
  const place::Machine& machine_;
  Placement& placement_;
  const std::vector<uint32_t> parts_;
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> fused_;  // what FuseAt found
};

}  // namespace

Status PlaceClusters(CompileState& state) {
  const std::vector<program::Device>& devices = state.program.devices;
  if (devices.empty()) {
    return InvalidArgument("The request names no device; compilation needs at least one.");
  }
  std::vector<std::string> notes;
  const place::Machine machine = MachineOf(state, &notes);
  if (devices.size() > 1) {
    std::vector<uint32_t> nodes(state.cluster_of.size());
    std::iota(nodes.begin(), nodes.end(), 0u);
    SplitMutualClusters(state.module, nodes, &state.cluster_of);
  }
  // Refusals are found cluster by cluster, so where there may be some the clusters stay.
  const bool may_fuse =
      devices.size() > 1 && std::none_of(devices.begin(), devices.end(), EndsLoops);
  Placement placement;
  bool is_refused = true;
  while (is_refused) {  // each time by more pairs of cluster and device
    HY_ASSIGN(placement, SolvePlacement(state, machine, !may_fuse));
    AssignDevices(state, placement);
    HY_ASSIGN(is_refused, FindRefusals(state));
  }
  if (may_fuse) {
    KernelPlacer placer(state, machine, placement);
    HY_TRY(KeepsParts(state, placement.plan) ? placer.Explain() : placer.PlaceAgain());
    if (!KeepsParts(state, placement.plan)) HY_TRY(placer.PriceRivals());
  }
  const place::Problem& problem = placement.problem;
  const place::Plan& plan = placement.plan;
  MarkStreamed(state, plan, placement.cluster_of_item);
  RecordAttempt(state);
  for (size_t a = 0; a < problem.affinities.size(); ++a) {
    const auto is_of = [&](const place::Constraint& c) { return c.affinity == a; };
    if (std::any_of(problem.constraints.begin(), problem.constraints.end(), is_of)) continue;
    state.Record("placement", std::string(place::kUnmatchedWish),
                 ExplainUnmatched(state, state.request->options.placement.affinities[a]));
  }
  const size_t count = placement.cluster_of_item.size();
  if (devices.size() == 1) {
    state.Record("placement", devices[0].name,
                 fmt::format("{} on '{}': it is the only device.",
                             count == 1 ? "The only cluster runs"
                                        : fmt::format("All {} clusters run", count),
                             devices[0].name));
    return OkStatus();
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    state.Record("placement", devices[d].name,
                 fmt::format("{} of {} {} on '{}' (predicted busy {}).", plan.devices[d].items,
                             Counted(count, "cluster"), plan.devices[d].items == 1 ? "runs" : "run",
                             devices[d].name, FormatSeconds(plan.devices[d].busy_seconds)));
  }
  for (const std::string& note : notes) state.Record("placement", "machine", note);
  state.Record("plan", "placement", place::FormatPlan(plan));
  return OkStatus();
}

}  // namespace halyard::pipeline
