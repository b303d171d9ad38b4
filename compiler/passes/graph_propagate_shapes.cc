// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

// A node that makes `value` from its elements, or kNone where it is one already or cannot be.
Result<ValueId> Materialise(Builder& builder, ValueId id) {
  Module& module = builder.module();
  const Value value = module.values[id];
  if (!value.elements) return kNone;
  std::vector<int64_t> dims;
  for (const Expr dim : value.type.dims) dims.push_back(*module.exprs.AsConst(dim));
  std::vector<int64_t> numbers;
  for (const Expr element : *value.elements) {
    if (const std::optional<int64_t> number = module.exprs.AsConst(element)) {
      numbers.push_back(*number);
    }
  }
  builder.SetNodeName(module.nodes[value.producer].name);
  if (numbers.size() == value.elements->size()) {
    return builder.ConstantOf(TensorOfInts(value.type.dtype, dims, numbers));
  }
  if (value.type.dtype != DType::kI32 && value.type.dtype != DType::kI64) return kNone;
  return builder.AddOne(
      "symbolic", {}, {{"values", *value.elements}, {"shape", dims}, {"dtype", value.type.dtype}});
}

}  // namespace

Status PropagateShapeValues(Module& module) {
  const UseLists uses(module);
  const size_t value_count = module.values.size();
  std::vector<ValueId> replacement(value_count, kNone);
  Builder builder(module);
  for (uint32_t graph = 0; graph < module.graphs.size(); ++graph) {
    const std::vector<NodeId> nodes = module.graphs[graph].nodes;
    size_t position = 0;
    for (const NodeId id : nodes) {
      const std::string_view op = module.nodes[id].op->name;
      const bool is_done = module.nodes[id].is_dead || op == "constant" || op == "symbolic";
      const std::vector<ValueId> results = module.nodes[id].results;
      for (const ValueId result : results) {
        if (is_done || uses.IsUnused(result)) continue;
        builder.InsertBefore(graph, position);
        HY_ASSIGN(const ValueId made, Materialise(builder, result));
        if (made == kNone) continue;
        replacement[result] = made;
        position = builder.position();
      }
      ++position;
    }
  }
  ReplaceValues(module, replacement);
  return OkStatus();
}

}  // namespace halyard::graph
