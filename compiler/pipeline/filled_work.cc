// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/filled_work.h"

#include <algorithm>

#include "compiler/ops/op_def.h"

namespace halyard::pipeline {

Expr FilledFlops(graph::Module& module, const graph::Graph& graph, const loop::Kernel& kernel) {
  ExprArena& exprs = module.exprs;
  Expr flops = exprs.Const(0);
  if (kernel.template_kind != loop::TemplateKind::kContraction) return flops;
  for (const graph::NodeId id : graph.nodes) {
    const graph::Node& node = module.nodes[id];
    if (node.op == nullptr || node.op->name != "conv" ||
        std::find(kernel.nodes.begin(), kernel.nodes.end(), node.name) == kernel.nodes.end()) {
      continue;
    }
    const auto filled = graph::GetInt(node, "filled_channels");
    if (!filled.ok()) continue;
    Expr products = exprs.Const(2 * *filled);  // a multiply-add is two
    for (const Expr dim : module.values[node.results[0]].type.dims)
      products = exprs.Mul(products, dim);
    const std::vector<Expr>& weights = module.values[node.operands[1]].type.dims;
    for (size_t axis = 2; axis < weights.size(); ++axis)
      products = exprs.Mul(products, weights[axis]);
    flops = exprs.Add(flops, products);
  }
  return flops;
}

}  // namespace halyard::pipeline
