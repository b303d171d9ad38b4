// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/builder.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

Status RefreshGraph(Module& module, uint32_t graph) {
  for (size_t i = 0; i < module.graphs[graph].nodes.size(); ++i) {
    const NodeId id = module.graphs[graph].nodes[i];
    if (module.nodes[id].is_dead) continue;
    for (const uint32_t region : module.nodes[id].regions) HY_TRY(RefreshGraph(module, region));
    HY_ASSIGN(std::vector<Value> results, InferNode(module, module.nodes[id]));
    for (size_t r = 0; r < results.size(); ++r) {
      Value& value = module.values[module.nodes[id].results[r]];
      value.type = std::move(results[r].type);
      value.elements = std::move(results[r].elements);
    }
  }
  return OkStatus();
}

}  // namespace

Status RefreshTypes(Module& module) {
  module.assumed_equal.clear();
  module.assumed_at_most.clear();
  return RefreshGraph(module, 0);
}

}  // namespace halyard::graph
