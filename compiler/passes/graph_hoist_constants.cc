// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "compiler/graph/builder.h"
#include "compiler/graph/printer.h"
#include "compiler/graph/uses.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

class Hoister {
 public:
  explicit Hoister(Module& module) : module_(module), builder_(module) {}

  Status Run() {
    HY_TRY(HoistInto(0));
    replacement_.resize(module_.values.size(), kNone);
    ReplaceValues(module_, replacement_);
    return OkStatus();
  }

 private:
  // Inner regions first: what they hold stands in their own graph then.
  Status HoistInto(uint32_t graph) {
    for (size_t i = 0; i < module_.graphs[graph].nodes.size(); ++i) {
      const NodeId id = module_.graphs[graph].nodes[i];
      if (module_.nodes[id].is_dead) continue;
      const std::vector<uint32_t> regions = module_.nodes[id].regions;
      for (const uint32_t region : regions) HY_TRY(HoistInto(region));
      HY_TRY(HoistOutOf(id, regions, graph, i));
    }
    return OkStatus();
  }

  // `position`: of the node in its graph; moves with what is inserted before it.
  Status HoistOutOf(NodeId id, const std::vector<uint32_t>& regions, uint32_t graph,
                    size_t& position) {
    std::map<ConstantId, std::vector<ValueId>> parameters;  // of each region, in order
    for (size_t r = 0; r < regions.size(); ++r) {
      const std::vector<NodeId> nodes = module_.graphs[regions[r]].nodes;
      for (const NodeId inner : nodes) {
        const ConstantId constant = module_.nodes[inner].constant;
        if (module_.nodes[inner].is_dead || constant == kNone) continue;
        if (IsPrintedInline(module_.constants[constant])) continue;
        if (parameters.count(constant) == 0) {
          HY_ASSIGN(parameters[constant], AddOperand(id, regions, constant, graph, position));
        }
        const ValueId value = module_.nodes[inner].results[0];
        if (replacement_.size() <= value) replacement_.resize(value + size_t{1}, kNone);
        replacement_[value] = parameters[constant][r];
        module_.nodes[inner].is_dead = true;
      }
    }
    return OkStatus();
  }

  Result<std::vector<ValueId>> AddOperand(NodeId id, const std::vector<uint32_t>& regions,
                                          ConstantId constant, uint32_t graph, size_t& position) {
    builder_.SetNodeName(module_.nodes[id].name);
    builder_.InsertBefore(graph, position);
    HY_ASSIGN(const ValueId operand, builder_.ConstantNode(constant));
    position = builder_.position();
    module_.nodes[id].operands.push_back(operand);
    const Value outer = module_.values[operand];
    std::vector<ValueId> made;
    for (const uint32_t region : regions) {
      builder_.InsertAtEnd(region);
      HY_ASSIGN(const ValueId parameter, builder_.AddParameter(outer.name, outer.type));
      made.push_back(parameter);
    }
    return made;
  }

  Module& module_;
  Builder builder_;
  std::vector<ValueId> replacement_;
};

}  // namespace

Status HoistConstants(Module& module) { return Hoister(module).Run(); }

}  // namespace halyard::graph
