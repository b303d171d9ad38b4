// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/uses.h"

#include <algorithm>

namespace halyard::graph {
namespace {

template <typename Body>
void ForEachOperand(const Module& module, Body&& body) {
  for (const Graph& graph : module.graphs) {
    for (const NodeId id : graph.nodes) {
      const Node& node = module.nodes[id];
      if (node.is_dead) continue;
      for (uint32_t i = 0; i < node.operands.size(); ++i) {
        if (node.operands[i] != kNone) body(id, i, node.operands[i]);
      }
    }
  }
}

}  // namespace

UseLists::UseLists(const Module& module)
    : first_(module.values.size() + 1, 0), is_result_(module.values.size(), false) {
  ForEachOperand(module, [&](NodeId, uint32_t, ValueId value) { ++first_[value + 1]; });
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  uses_.resize(first_.back());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  ForEachOperand(module, [&](NodeId node, uint32_t operand, ValueId value) {
    uses_[next[value]++] = Use{node, operand};
  });
  for (const Graph& graph : module.graphs) {
    for (const ValueId value : graph.results) is_result_[value] = true;
  }
}

std::span<const Use> UseLists::Of(ValueId value) const {
  return std::span(uses_).subspan(first_[value], first_[value + 1] - first_[value]);
}

void ReplaceValues(Module& module, std::span<const ValueId> replacement) {
  const auto final_value = [&](ValueId value) {
    while (value < replacement.size() && replacement[value] != kNone) value = replacement[value];
    return value;
  };
  for (Node& node : module.nodes) {
    for (ValueId& operand : node.operands) {
      if (operand != kNone) operand = final_value(operand);
    }
  }
  for (Graph& graph : module.graphs) {
    for (ValueId& result : graph.results) result = final_value(result);
  }
}

void Compact(Module& module) {
  if (module.graphs.empty()) return;
  // Regions first: the nodes of one that nothing uses are not live.
  std::vector<bool> is_live_graph(module.graphs.size(), false);
  std::vector<uint32_t> pending = {0};
  is_live_graph[0] = true;
  while (!pending.empty()) {
    const uint32_t graph = pending.back();
    pending.pop_back();
    for (const NodeId id : module.graphs[graph].nodes) {
      if (module.nodes[id].is_dead) continue;
      for (const uint32_t region : module.nodes[id].regions) {
        if (!is_live_graph[region]) pending.push_back(region);
        is_live_graph[region] = true;
      }
    }
  }
  std::vector<uint32_t> new_graph(module.graphs.size(), kNone);
  std::vector<NodeId> new_node(module.nodes.size(), kNone);
  std::vector<ValueId> new_value(module.values.size(), kNone);
  std::vector<ConstantId> new_constant(module.constants.size(), kNone);
  Module from;
  std::swap(from.graphs, module.graphs);
  std::swap(from.nodes, module.nodes);
  std::swap(from.values, module.values);
  std::swap(from.constants, module.constants);
  const auto move_value = [&](ValueId id, NodeId producer) {
    new_value[id] = static_cast<ValueId>(module.values.size());
    module.values.push_back(std::move(from.values[id]));
    module.values.back().producer = producer;
  };
  for (size_t g = 0; g < from.graphs.size(); ++g) {
    if (!is_live_graph[g]) continue;
    Graph& graph = from.graphs[g];
    new_graph[g] = static_cast<uint32_t>(module.graphs.size());
    for (const ValueId value : graph.parameters) move_value(value, kNone);
    std::vector<NodeId> nodes;
    for (const NodeId id : graph.nodes) {
      Node& node = from.nodes[id];
      if (node.is_dead) continue;
      new_node[id] = static_cast<NodeId>(module.nodes.size());
      nodes.push_back(new_node[id]);
      for (const ValueId value : node.results) move_value(value, new_node[id]);
      if (node.constant != kNone) {
        if (new_constant[node.constant] == kNone) {
          new_constant[node.constant] = static_cast<ConstantId>(module.constants.size());
          module.constants.push_back(std::move(from.constants[node.constant]));
        }
        node.constant = new_constant[node.constant];
      }
      module.nodes.push_back(std::move(node));
    }
    graph.nodes = std::move(nodes);
    module.graphs.push_back(std::move(graph));
  }
  const auto renumber = [&](std::vector<ValueId>& values) {
    for (ValueId& value : values) {
      if (value != kNone) value = new_value[value];
    }
  };
  for (Node& node : module.nodes) {
    renumber(node.operands);
    renumber(node.results);
    for (uint32_t& region : node.regions) region = new_graph[region];
  }
  for (Graph& graph : module.graphs) {
    renumber(graph.parameters);
    renumber(graph.results);
  }
}

}  // namespace halyard::graph
