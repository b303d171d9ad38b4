// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx_loop_body.h"

#include <utility>

namespace halyard::onnx {

LoopBody::LoopBody(NodeContext& c, std::span<const V> operands)
    : c_(c),
      outer_(c.b.graph()),
      region_(graph::AddGraph(
          c.b.module(), fmt::format("{}_body_{}", c.b.node_name(), c.b.module().graphs.size()))) {
  for (const V operand : operands.subspan(2)) types_.push_back(c.TypeOf(operand));
  c.b.InsertAtEnd(region_);
  iteration_ = c.Take(c.b.AddParameter("iteration", {DType::kI64, {}}));
}

V LoopBody::Parameter(std::string_view name) {
  return c_.Take(c_.b.AddParameter(name, types_[next_++]));
}

uint32_t LoopBody::Close(std::vector<ValueId> results) {
  if (c_.ok()) {
    if (const Status set = c_.b.SetResults(std::move(results)); !set.ok()) c_.Fail(set);
  }
  c_.b.InsertAtEnd(outer_);
  return region_;
}

}  // namespace halyard::onnx
