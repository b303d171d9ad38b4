// SPDX-License-Identifier: Apache-2.0
// A cast stands at each end. Where the inside has the f16 form already, as narrow-floats leaves it
// around products, the casts there and back cancel.
#include "compiler/graph/builder.h"
#include "compiler/graph/uses.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {

Status NarrowIo(Module& module) {
  Builder builder(module);
  builder.InsertBefore(0, 0);
  const std::vector<ValueId> parameters = module.entry().parameters;
  std::vector<ValueId> wide(module.values.size(), kNone);
  for (const ValueId parameter : parameters) {
    if (module.values[parameter].type.dtype != DType::kF32) continue;
    module.values[parameter].type.dtype = DType::kF16;
    HY_ASSIGN(wide[parameter], builder.CastTo(parameter, DType::kF32));
  }
  ReplaceValues(module, wide);
  for (const ValueId parameter : parameters) {
    if (wide[parameter] == kNone) continue;
    module.nodes[module.values[wide[parameter]].producer].operands = {parameter};
  }
  builder.InsertAtEnd(0);
  std::vector<ValueId> results = module.entry().results;
  for (ValueId& result : results) {
    if (module.values[result].type.dtype != DType::kF32) continue;
    HY_ASSIGN(result, builder.CastTo(result, DType::kF16));
  }
  module.entry().results = std::move(results);
  HY_TRY(Canonicalize(module));
  HY_TRY(MergeCommon(module));
  return RemoveDead(module);
}

}  // namespace halyard::graph
