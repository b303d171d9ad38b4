// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/verifier.h"

#include <unordered_set>

#include "compiler/graph/builder.h"
#include "compiler/graph/printer.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(Module& module)
      : module_(module),
        graph_of_(module.values.size(), kNone),
        is_placed_(module.nodes.size(), false) {}

  Status Run() {
    if (module_.graphs.empty()) return Internal("The module has no graph.");
    HY_TRY(CheckNames());
    HY_TRY(CheckConstants());
    std::vector<int> users(module_.graphs.size(), 0);
    for (uint32_t graph = 0; graph < module_.graphs.size(); ++graph) {
      HY_TRY(CheckGraph(graph, users));
    }
    for (uint32_t graph = 0; graph < users.size(); ++graph) {
      if (users[graph] == (graph == 0 ? 0 : 1)) continue;
      return Internal("Graph '{}' is a region of {} nodes; {}.", module_.graphs[graph].name,
                      users[graph], graph == 0 ? "the entry is none" : "a region has one");
    }
    return CheckNesting();
  }

 private:
  Status CheckNames() {
    std::unordered_set<std::string_view> names;
    for (const Graph& graph : module_.graphs) {
      if (graph.name.empty() || !names.insert(graph.name).second) {
        return Internal("The graph name '{}' is empty or taken.", graph.name);
      }
    }
    return OkStatus();
  }

  Status CheckConstants() {
    for (const Constant& constant : module_.constants) {
      HY_ASSIGN(const int64_t count, CountElements(constant.dims));
      HY_ASSIGN(const int64_t size_bytes, StorageBytes(constant.dtype, count));
      if (constant.bytes == nullptr || constant.bytes->size_bytes() != size_bytes) {
        return Internal("Constant '{}' does not have its {} bytes.", constant.name, size_bytes);
      }
    }
    return OkStatus();
  }

  Status DefineValue(ValueId id, uint32_t graph, NodeId producer, size_t index) {
    if (id >= module_.values.size()) {
      return Internal("Graph '{}' names value {}; there are {}.", module_.graphs[graph].name, id,
                      module_.values.size());
    }
    const Value& value = module_.values[id];
    if (graph_of_[id] != kNone) return Internal("Value '%{}' is defined twice.", value.name);
    if (value.name.empty() || !value_names_.insert(value.name).second) {
      return Internal("The value name '%{}' is empty or taken.", value.name);
    }
    if (value.producer != producer || value.result_index != index) {
      return Internal("Value '%{}' does not name its producer.", value.name);
    }
    if (BitWidth(value.type.dtype) == 0) return Internal("Value '%{}' has no dtype.", value.name);
    for (const Expr dim : value.type.dims) {
      if (!dim.valid() || module_.exprs.RangeOf(dim).hi < 0) {
        return Internal("Value '%{}' has an absent or negative dimension.", value.name);
      }
    }
    graph_of_[id] = graph;
    return OkStatus();
  }

  Status CheckGraph(uint32_t index, std::vector<int>& users) {
    const Graph& graph = module_.graphs[index];
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      HY_TRY(DefineValue(graph.parameters[i], index, kNone, i));
    }
    for (const NodeId id : graph.nodes) {
      if (id >= module_.nodes.size()) {
        return Internal("Graph '{}' names node {}; there are {}.", graph.name, id,
                        module_.nodes.size());
      }
      if (module_.nodes[id].is_dead) continue;
      if (is_placed_[id]) {
        return Internal("Node {} stands in two places ({}).", id,
                        PrintNode(module_, module_.nodes[id]));
      }
      is_placed_[id] = true;
      HY_TRY(CheckNode(id, index, users));
    }
    for (const ValueId result : graph.results) {
      if (result >= module_.values.size() || graph_of_[result] != index) {
        return Internal("A result of graph '{}' is value {}, which it does not define.", graph.name,
                        result);
      }
    }
    if (graph.result_names.size() != graph.results.size()) {
      return Internal("Graph '{}' has {} results and {} names for them.", graph.name,
                      graph.results.size(), graph.result_names.size());
    }
    return OkStatus();
  }

  Status CheckNode(NodeId id, uint32_t graph, std::vector<int>& users) {
    const Node& node = module_.nodes[id];
    if (node.op == nullptr || FindOp(node.op->name) != node.op) {
      return Internal("Node '{}' has no op of the catalogue.", node.name);
    }
    for (const ValueId operand : node.operands) {
      if (operand == kNone) continue;  // whether it may be absent, inference checks
      if (operand >= module_.values.size() || graph_of_[operand] != graph) {
        return Internal(
            "Node '{}' ({}) uses value {}, which is not defined before it in graph '{}'.",
            node.name, node.op->name, operand, module_.graphs[graph].name);
      }
    }
    for (const uint32_t region : node.regions) {
      if (region == 0 || region >= module_.graphs.size()) {
        return Internal("Node '{}' ({}) has region {}, which is none.", node.name, node.op->name,
                        region);
      }
      ++users[region];
      for (const ValueId value : module_.graphs[region].results) {
        if (value >= module_.values.size()) return Internal("A region result is no value.");
      }
      for (const ValueId value : module_.graphs[region].parameters) {
        if (value >= module_.values.size()) return Internal("A region parameter is no value.");
      }
    }
    const Node copy = node;  // inference may add expressions, never nodes
    Result<std::vector<Value>> inferred = InferNode(module_, copy);
    if (!inferred.ok()) {
      return Internal("{} is ill-formed: {}", PrintNode(module_, copy),
                      inferred.status().message());
    }
    if (inferred->size() != copy.results.size()) {
      return Internal("Node '{}' ({}) has {} results; its rule gives {}.", copy.name, copy.op->name,
                      copy.results.size(), inferred->size());
    }
    for (size_t i = 0; i < inferred->size(); ++i) {
      HY_TRY(DefineValue(copy.results[i], graph, id, i));
      const Value& value = module_.values[copy.results[i]];
      if (value.type == (*inferred)[i].type) continue;
      return Internal("Value '%{}' is {}; shape inference says {} (node '{}').", value.name,
                      FormatType(module_.exprs, value.type),
                      FormatType(module_.exprs, (*inferred)[i].type), copy.name);
    }
    return OkStatus();
  }

  // Every region has one user, so following users upwards from a cycle never reaches the entry.
  Status CheckNesting() {
    std::vector<uint32_t> reached = {0};
    std::vector<bool> is_reached(module_.graphs.size(), false);
    is_reached[0] = true;
    for (size_t i = 0; i < reached.size(); ++i) {
      for (const NodeId id : module_.graphs[reached[i]].nodes) {
        if (module_.nodes[id].is_dead) continue;
        for (const uint32_t region : module_.nodes[id].regions) {
          if (is_reached[region]) continue;
          is_reached[region] = true;
          reached.push_back(region);
        }
      }
    }
    for (size_t i = 0; i < is_reached.size(); ++i) {
      if (!is_reached[i]) return Internal("Graph '{}' contains itself.", module_.graphs[i].name);
    }
    return OkStatus();
  }

  Module& module_;
  std::vector<uint32_t> graph_of_;
  std::vector<bool> is_placed_;
  std::unordered_set<std::string_view> value_names_;
};

}  // namespace

Status VerifyModule(Module& module) { return Verifier(module).Run(); }

}  // namespace halyard::graph
