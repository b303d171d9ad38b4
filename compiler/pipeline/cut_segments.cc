// SPDX-License-Identifier: Apache-2.0
// The cut of the entry graph into segments, for any assignment of clusters to devices.
//
// Clusters get levels: at least that of every operand's cluster, and one more when the device
// differs. A segment is what one device has on one level. A path that leaves a segment for another
// device rises, so it never comes back: every segment is convex, and the levels are an execution
// order, whatever the devices do to each other in turn.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/segment.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class Cutter {
 public:
  explicit Cutter(CompileState& state) : state_(state), module_(state.module) {}

  Status Run() {
    entry_ = module_.entry();  // a copy: graphs are added below
    for (uint32_t d = 0; d < state_.program.devices.size(); ++d) {
      if (!state_.program.devices[d].is_host) continue;
      host_ = d;
      break;
    }
    HY_TRY(FindHomes());
    FindItems();
    FindLevels();
    FindConsumers();
    std::map<std::pair<uint32_t, Home>, std::vector<NodeId>> parts;
    for (const NodeId id : entry_.nodes) {
      if (!IsConstant(id)) parts[{level_[item_of_[id]], home_[id]}].push_back(id);
    }
    for (const auto& [key, nodes] : parts) {
      if (key.second.is_interpreted) {
        // They may depend on each other: they run in node order.
        for (const NodeId id : nodes) AddInterpreted(id);
      } else {
        AddSegment(key.second.device, nodes);
      }
    }
    return OkStatus();
  }

 private:
  struct Home {
    uint32_t device = 0;
    bool is_interpreted = false;
    friend auto operator<=>(const Home&, const Home&) = default;
  };

  bool IsConstant(NodeId id) const { return module_.nodes[id].constant != kNone; }

  // The device of every node, and whether it is interpreted there.
  Status FindHomes() {
    home_.resize(module_.nodes.size());
    for (const NodeId id : entry_.nodes) {
      if (IsConstant(id)) continue;
      const Node& node = module_.nodes[id];
      if (const uint32_t cluster = state_.cluster_of.empty() ? kNone : state_.cluster_of[id];
          cluster != kNone) {
        home_[id].device = state_.device_of[cluster];
      }
      const Status why = loop::CanLower(module_, node);
      if (why.ok()) {
        RecordLastResort(node, home_[id].device);
        continue;
      }
      if (state_.request != nullptr && !state_.request->options.allow_fallback) {
        return Unimplemented(
            "Device '{}' cannot compile op '{}' of node '{}', and fallbacks are not allowed: {}",
            state_.program.devices[home_[id].device].name, node.op->name, node.name, why.message());
      }
      home_[id] = {host_, true};
      state_.Record(
          "fallback", node.name,
          fmt::format("Op '{}' runs in the interpreter: {}", node.op->name, why.message()));
    }
    return OkStatus();
  }

  void RecordLastResort(const Node& node, uint32_t device) {
    if (state_.request == nullptr) return;
    const std::string& name = state_.program.devices[device].name;
    const auto& names = state_.request->options.placement.last_resort;
    if (std::find(names.begin(), names.end(), name) == names.end()) return;
    state_.Record("fallback", node.name,
                  fmt::format("Op '{}' runs on '{}', which joined because no device that was asked "
                              "for runs it.",
                              node.op->name, name));
  }

  // An item is cut nowhere: a cluster, or a node of its own.
  void FindItems() {
    item_of_.assign(module_.nodes.size(), kNone);
    for (const NodeId id : entry_.nodes) {
      if (IsConstant(id)) continue;
      const uint32_t cluster = state_.cluster_of.empty() ? kNone : state_.cluster_of[id];
      // Whoever placed parts of a cluster apart, or will interpret one, has split it.
      const auto [found, is_new] = item_of_home_.try_emplace({cluster, home_[id]}, items_);
      if (cluster == kNone || is_new) {
        item_of_[id] = items_++;
      } else {
        item_of_[id] = found->second;
      }
    }
  }

  // Longest paths over the items. Items in a cycle (a cluster that is not convex) fall apart into
  // their nodes, which have none.
  void FindLevels() {
    while (true) {
      std::vector<std::vector<uint32_t>> successors(items_);
      std::vector<uint32_t> open(items_, 0);
      std::vector<Home> home(items_);
      std::vector<bool> is_used(items_, false);
      std::set<std::pair<uint32_t, uint32_t>> edges;
      for (const NodeId id : entry_.nodes) {
        if (IsConstant(id)) continue;
        const uint32_t item = item_of_[id];
        home[item] = home_[id];
        is_used[item] = true;
        for (const ValueId operand : module_.nodes[id].operands) {
          const NodeId producer = operand == kNone ? kNone : module_.values[operand].producer;
          if (producer == kNone || IsConstant(producer) || item_of_[producer] == item) continue;
          if (!edges.insert({item_of_[producer], item}).second) continue;
          successors[item_of_[producer]].push_back(item);
          ++open[item];
        }
      }
      level_.assign(items_, 0);
      std::vector<uint32_t> ready;
      for (uint32_t i = 0; i < items_; ++i) {
        if (is_used[i] && open[i] == 0) ready.push_back(i);
      }
      std::vector<bool> is_done(items_, false);
      for (size_t next = 0; next < ready.size(); ++next) {
        const uint32_t item = ready[next];
        is_done[item] = true;
        for (const uint32_t after : successors[item]) {
          const uint32_t least = level_[item] + (home[item] != home[after] ? 1 : 0);
          level_[after] = std::max(level_[after], least);
          if (--open[after] == 0) ready.push_back(after);
        }
      }
      bool has_cycle = false;
      for (const NodeId id : entry_.nodes) {
        if (IsConstant(id) || is_done[item_of_[id]]) continue;
        has_cycle = true;
        item_of_[id] = items_++;
      }
      if (!has_cycle) return;
    }
  }

  void FindConsumers() {
    consumers_.resize(module_.values.size());
    for (const NodeId id : entry_.nodes) {
      for (const ValueId operand : module_.nodes[id].operands) {
        if (operand != kNone) consumers_[operand].push_back(id);
      }
    }
    is_result_.assign(module_.values.size(), false);
    for (const ValueId result : entry_.results) is_result_[result] = true;
  }

  void AddInterpreted(NodeId id) {
    Segment segment;
    segment.is_interpreted = true;
    segment.interpreted_node = id;
    segment.device = host_;
    state_.segments.push_back(std::move(segment));
  }

  void AddSegment(uint32_t device, const std::vector<NodeId>& nodes) {
    const std::set<NodeId> inside(nodes.begin(), nodes.end());
    graph::Graph part;
    part.is_segment = true;
    part.name = fmt::format("{}_segment{}", entry_.name, state_.segments.size());
    std::set<ValueId> parameters;
    std::set<NodeId> constants;
    for (const NodeId id : nodes) {
      for (const ValueId operand : module_.nodes[id].operands) {
        if (operand == kNone) continue;
        const NodeId producer = module_.values[operand].producer;
        if (producer != kNone && IsConstant(producer)) {
          if (constants.insert(producer).second) part.nodes.push_back(producer);
        } else if (producer == kNone || !inside.count(producer)) {
          if (parameters.insert(operand).second) part.parameters.push_back(operand);
        }
      }
    }
    part.nodes.insert(part.nodes.end(), nodes.begin(), nodes.end());
    for (const NodeId id : nodes) {
      for (const ValueId result : module_.nodes[id].results) {
        const auto leaves = [&](NodeId consumer) { return !inside.count(consumer); };
        const std::vector<NodeId>& consumers = consumers_[result];
        if (is_result_[result] || std::any_of(consumers.begin(), consumers.end(), leaves)) {
          part.results.push_back(result);
        }
      }
    }
    Segment segment;
    segment.device = device;
    segment.graph = static_cast<uint32_t>(module_.graphs.size());
    module_.graphs.push_back(std::move(part));
    state_.segments.push_back(std::move(segment));
  }

  CompileState& state_;
  graph::Module& module_;
  graph::Graph entry_;
  uint32_t host_ = 0;              // where interpreted nodes run
  std::vector<Home> home_;         // per node
  std::vector<uint32_t> item_of_;  // per node
  std::map<std::pair<uint32_t, Home>, uint32_t> item_of_home_;
  uint32_t items_ = 0;
  std::vector<uint32_t> level_;                 // per item
  std::vector<std::vector<NodeId>> consumers_;  // per value
  std::vector<bool> is_result_;                 // per value
};

}  // namespace

Status CutSegments(CompileState& state) { return Cutter(state).Run(); }

}  // namespace halyard::pipeline
