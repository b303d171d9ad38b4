// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include "compiler/graph/printer.h"
#include "compiler/graph/uses.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {

Status MergeCommon(Module& module) {
  std::vector<ValueId> replacement(module.values.size(), kNone);
  for (const Graph& graph : module.graphs) {
    std::map<std::string, NodeId> seen;
    for (const NodeId id : graph.nodes) {
      Node& node = module.nodes[id];
      if (node.is_dead) continue;
      for (ValueId& operand : node.operands) {
        if (operand != kNone && replacement[operand] != kNone) operand = replacement[operand];
      }
      // Regions are single-use, and equal ones would have to be compared node by node. Nodes that
      // bind a symbol of their own differ in that attribute.
      if (!node.regions.empty()) continue;
      std::string key =
          fmt::format("{}|{}|{}", node.op->name, node.constant, fmt::join(node.operands, ","));
      for (const auto& [name, attribute] : node.attributes) {
        key += "|" + name + "=" + FormatAttribute(module.exprs, attribute);
      }
      const auto [found, is_new] = seen.emplace(std::move(key), id);
      if (is_new) continue;
      const Node& first = module.nodes[found->second];
      for (size_t i = 0; i < node.results.size(); ++i) {
        replacement[node.results[i]] = first.results[i];
      }
      node.is_dead = true;
    }
  }
  ReplaceValues(module, replacement);
  return OkStatus();
}

}  // namespace halyard::graph
