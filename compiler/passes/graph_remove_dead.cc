// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/uses.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {

Status RemoveDead(Module& module) {
  // All ops are pure, so a node lives when a later live node or a graph result needs it.
  std::vector<bool> is_needed(module.values.size(), false);
  for (const Graph& graph : module.graphs) {
    for (const ValueId value : graph.results) is_needed[value] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      Node& node = module.nodes[graph.nodes[i]];
      if (node.is_dead) continue;
      bool lives = false;
      for (const ValueId value : node.results) lives |= is_needed[value];
      node.is_dead = !lives;
      if (!lives) continue;
      for (const ValueId operand : node.operands) {
        if (operand != kNone) is_needed[operand] = true;
      }
    }
  }
  Compact(module);
  return OkStatus();
}

}  // namespace halyard::graph
