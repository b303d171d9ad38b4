// SPDX-License-Identifier: Apache-2.0
// LoopBody: the region of a `loop` node that an importer builds itself.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/onnx_context.h"

namespace halyard::onnx {

// While it is open, nodes go into the region.
class LoopBody {
 public:
  // `operands`: those of the loop, the trip count and the condition first.
  LoopBody(NodeContext& c, std::span<const V> operands);

  V iteration() const { return iteration_; }
  // The next parameter: it stands in the region for the next operand behind the condition.
  V Parameter(std::string_view name);
  // Whether the loop goes on, then what it carries, then what it collects. Nodes go into the
  // surrounding graph again. The region.
  uint32_t Close(std::vector<ValueId> results);

 private:
  NodeContext& c_;
  const uint32_t outer_;
  const uint32_t region_;
  std::vector<graph::TensorType> types_;  // of the parameters
  size_t next_ = 0;
  V iteration_;
};

}  // namespace halyard::onnx
