// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/segment.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool IsConstant(const Node& node) { return node.constant != kNone; }

// Why no device can compile the node; OK when one can.
Status WhyInterpreted(const graph::Module& module, const Node& node) {
  return IsConstant(node) ? OkStatus() : loop::CanLower(module, node);
}
bool IsInterpreted(const graph::Module& module, const Node& node) {
  return !WhyInterpreted(module, node).ok();
}

uint32_t Find(std::vector<uint32_t>& parent, uint32_t x) {
  while (parent[x] != x) x = parent[x] = parent[parent[x]];
  return x;
}

std::vector<uint32_t> CountUses(const graph::Module& module) {
  std::vector<uint32_t> uses(module.values.size(), 0);
  for (NodeId id : module.entry().nodes) {
    for (ValueId operand : module.nodes[id].operands) {
      if (operand != kNone) ++uses[operand];
    }
  }
  for (ValueId result : module.entry().results) ++uses[result];
  return uses;
}

}  // namespace

Status ClusterNodes(CompileState& state) {
  const graph::Module& module = state.module;
  std::vector<uint32_t> parent(module.nodes.size());
  std::iota(parent.begin(), parent.end(), 0u);
  const std::vector<uint32_t> uses = CountUses(module);
  for (NodeId id : module.entry().nodes) {
    const Node& node = module.nodes[id];
    if (IsConstant(node) || IsInterpreted(module, node)) continue;
    for (ValueId operand : node.operands) {
      if (operand == kNone) continue;
      const NodeId producer = module.values[operand].producer;
      if (producer == kNone) continue;
      const Node& source = module.nodes[producer];
      if (IsConstant(source) || IsInterpreted(module, source)) continue;
      // A pointwise or view node joins the producer that nothing else reads; so does a reduction of
      // a pointwise value. Two templates never share a cluster.
      const bool joins = node.op->traits & (graph::kElementwise | graph::kView | graph::kReduction);
      if (joins && uses[operand] == 1) {
        parent[Find(parent, id)] = Find(parent, producer);
        break;
      }
    }
  }
  state.cluster_of.assign(module.nodes.size(), kNone);
  std::map<uint32_t, uint32_t> numbers;  // root -> cluster, in node order
  for (NodeId id : module.entry().nodes) {
    const auto [entry, is_new] =
        numbers.try_emplace(Find(parent, id), static_cast<uint32_t>(numbers.size()));
    state.cluster_of[id] = entry->second;
  }
  state.device_of.assign(numbers.size(), 0);
  return OkStatus();
}

Status PlaceClusters(CompileState& state) {
  const size_t count = state.device_of.size();
  if (state.program.devices.empty()) {
    return InvalidArgument("The request names no device; compilation needs at least one.");
  }
  const std::string& name = state.program.devices[0].name;
  const std::string reason =
      state.program.devices.size() == 1 ? "it is the only device" : "it is named first";
  state.Record("placement", name,
               fmt::format("All {} clusters run on '{}': {}.", count, name, reason));
  std::fill(state.device_of.begin(), state.device_of.end(), 0u);
  return OkStatus();
}

Status CutSegments(CompileState& state) {
  graph::Module& module = state.module;
  const graph::Graph entry = module.entry();  // a copy: graphs are added below

  // Compiled nodes get even levels, interpreted ones odd levels; a level is at least that of every
  // operand, so the nodes of one level form a convex set and levels are an execution order.
  std::vector<uint32_t> level(module.nodes.size(), 0);
  std::map<uint32_t, std::vector<NodeId>> nodes_of_level;
  for (NodeId id : entry.nodes) {
    const Node& node = module.nodes[id];
    if (IsConstant(node)) continue;
    uint32_t lowest = 0;
    for (ValueId operand : node.operands) {
      const NodeId producer = operand == kNone ? kNone : module.values[operand].producer;
      if (producer != kNone) lowest = std::max(lowest, level[producer]);
    }
    const uint32_t parity = IsInterpreted(module, node) ? 1 : 0;
    level[id] = lowest + (lowest % 2 == parity ? 0 : 1);
    // Interpreted nodes of one level may depend on each other: they run in node order.
    nodes_of_level[level[id]].push_back(id);
  }

  const auto is_free = [&](ValueId value) {
    const NodeId producer = module.values[value].producer;
    return producer != kNone && IsConstant(module.nodes[producer]);
  };
  for (const auto& [number, nodes] : nodes_of_level) {
    if (number % 2 == 1) {
      for (NodeId id : nodes) {
        const Node& node = module.nodes[id];
        const std::string reason = WhyInterpreted(module, node).message();
        if (state.request != nullptr && !state.request->options.allow_fallback) {
          return Unimplemented(
              "Device '{}' cannot compile op '{}' of node '{}', and fallbacks are not allowed: "
              "{}",
              state.program.devices[0].name, node.op->name, node.name, reason);
        }
        state.Record("fallback", node.name,
                     fmt::format("Op '{}' runs in the interpreter: {}", node.op->name, reason));
        Segment segment;
        segment.is_interpreted = true;
        segment.interpreted_node = id;
        segment.device = 0;
        state.segments.push_back(std::move(segment));
      }
      continue;
    }
    std::set<NodeId> inside(nodes.begin(), nodes.end());
    graph::Graph part;
    part.is_segment = true;
    part.name = fmt::format("{}_segment{}", entry.name, state.segments.size());
    std::set<ValueId> parameters;
    std::set<NodeId> constants;
    for (NodeId id : nodes) {
      for (ValueId operand : module.nodes[id].operands) {
        if (operand == kNone) continue;
        const NodeId producer = module.values[operand].producer;
        if (is_free(operand)) {
          if (constants.insert(producer).second) part.nodes.push_back(producer);
        } else if (producer == kNone || !inside.count(producer)) {
          if (parameters.insert(operand).second) part.parameters.push_back(operand);
        }
      }
    }
    part.nodes.insert(part.nodes.end(), nodes.begin(), nodes.end());
    std::set<ValueId> used_outside(entry.results.begin(), entry.results.end());
    for (NodeId id : entry.nodes) {
      if (inside.count(id)) continue;
      for (ValueId operand : module.nodes[id].operands) used_outside.insert(operand);
    }
    for (NodeId id : nodes) {
      for (ValueId result : module.nodes[id].results) {
        if (used_outside.count(result)) part.results.push_back(result);
      }
    }
    Segment segment;
    segment.graph = static_cast<uint32_t>(module.graphs.size());
    module.graphs.push_back(std::move(part));
    state.segments.push_back(std::move(segment));
  }
  return OkStatus();
}

}  // namespace halyard::pipeline
