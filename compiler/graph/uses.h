// SPDX-License-Identifier: Apache-2.0
// Use lists and the replacement of values. A snapshot: editing the module makes it stale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"

namespace halyard::graph {

struct Use {
  NodeId node;
  uint32_t operand;
};

// Who uses each value, over all live nodes of all graphs.
class UseLists {
 public:
  explicit UseLists(const Module& module);
  std::span<const Use> Of(ValueId value) const;
  bool IsResult(ValueId value) const { return is_result_[value]; }  // of any graph
  // Used by exactly one operand of one node and no graph result.
  bool HasOneUse(ValueId value) const { return Of(value).size() == 1 && !is_result_[value]; }
  bool IsUnused(ValueId value) const { return Of(value).empty() && !is_result_[value]; }

 private:
  std::vector<uint32_t> first_;  // values + 1 offsets into uses_
  std::vector<Use> uses_;
  std::vector<bool> is_result_;
};

// Replaces operands and graph results: value v becomes replacement[v] where that is not kNone;
// chains are followed. Names of graph results stay. Types must be equal; the caller keeps the order
// valid.
void ReplaceValues(Module& module, std::span<const ValueId> replacement);

// Drops dead nodes, values without a definition, constants and regions that nothing uses, and
// renumbers what is left. Names, order and text form stay the same.
void Compact(Module& module);

}  // namespace halyard::graph
