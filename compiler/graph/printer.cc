// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/printer.h"

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/graph/tensor.h"
#include "compiler/graph/text_scanner.h"

namespace halyard::graph {
namespace {

std::string ValueName(const Module& module, ValueId value) {
  if (value == kNone) return "_";
  if (value >= module.values.size()) return fmt::format("%<value {}>", value);
  return "%" + FormatName(module.values[value].name);
}

std::string FormatConstant(const Constant& constant) {
  std::string out = "constant ";
  if (!constant.name.empty()) out += "@" + FormatName(constant.name) + " ";
  if (IsPrintedInline(constant)) {
    const Result<Tensor> tensor = ReadConstant(constant);
    if (tensor.ok()) return out + FormatTensor(*tensor);
  }
  return out + fmt::format("{}[{}]#{:016x}", FormatDType(constant.dtype),
                           fmt::join(constant.dims, ", "), constant.content_hash);
}

// The dim symbols of everything that is printed, by name.
class SymbolSet {
 public:
  explicit SymbolSet(const Module& module) : exprs_(module.exprs) {
    for (const Graph& graph : module.graphs) {
      if (graph.is_segment) continue;
      for (const ValueId value : graph.parameters) Add(module.values[value].type.dims);
      for (const NodeId id : graph.nodes) {
        const Node& node = module.nodes[id];
        if (node.is_dead) continue;
        for (const ValueId value : node.results) Add(module.values[value].type.dims);
        for (const auto& [name, attribute] : node.attributes) {
          if (const auto* exprs = std::get_if<std::vector<Expr>>(&attribute)) Add(*exprs);
        }
      }
    }
  }
  std::string Declarations() const {
    std::string out;
    for (const auto& [name, symbol] : symbols_) {
      const ExprRange range = exprs_.RangeOf(symbol);
      const int64_t divisor = exprs_.SymbolDivisor(symbol);
      ExprArena fresh;
      const ExprRange usual = fresh.RangeOf(fresh.Dim("fresh"));
      if (range.lo == usual.lo && range.hi == usual.hi && divisor == 1) continue;
      out += fmt::format("symbol {} in [{}, {}]", FormatName(name), range.lo, range.hi);
      out += divisor == 1 ? "\n" : fmt::format(" divisor {}\n", divisor);
    }
    return out;
  }

 private:
  void Add(const std::vector<Expr>& exprs) {
    for (const Expr expr : exprs) {
      for (const Expr symbol : exprs_.SymbolsOf(expr)) {
        if (exprs_.SymbolKindOf(symbol) == SymbolKind::kDim) {
          symbols_.emplace(exprs_.SymbolName(symbol), symbol);
        }
      }
    }
  }
  const ExprArena& exprs_;
  std::map<std::string, Expr> symbols_;
};

// The entry's nodes, and before their readers those that a pass gave to a segment alone.
std::vector<NodeId> EntryNodes(const Module& module) {
  const std::vector<NodeId>& entry = module.entry().nodes;
  const std::unordered_set<NodeId> known(entry.begin(), entry.end());
  std::unordered_map<NodeId, std::vector<NodeId>> before;
  for (const Graph& graph : module.graphs) {
    if (!graph.is_segment) continue;
    std::vector<NodeId> added;
    for (const NodeId id : graph.nodes) {
      if (!known.contains(id)) {
        added.push_back(id);
      } else if (!added.empty()) {
        std::vector<NodeId>& here = before[id];
        here.insert(here.end(), added.begin(), added.end());
        added.clear();
      }
    }
  }
  std::vector<NodeId> out;
  for (const NodeId id : entry) {
    if (const auto found = before.find(id); found != before.end()) {
      out.insert(out.end(), found->second.begin(), found->second.end());
    }
    out.push_back(id);
  }
  return out;
}

void PrintGraph(const Module& module, const Graph& graph, std::span<const NodeId> nodes,
                std::string& out) {
  out += fmt::format("graph {}(", FormatName(graph.name));
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (i > 0) out += ", ";
    out += ValueName(module, graph.parameters[i]) + ": " +
           FormatType(module.exprs, module.values[graph.parameters[i]].type);
  }
  out += ") -> (";
  for (size_t i = 0; i < graph.results.size(); ++i) {
    if (i > 0) out += ", ";
    if (i < graph.result_names.size() &&
        graph.result_names[i] != module.values[graph.results[i]].name) {
      out += Quote(graph.result_names[i]) + " = ";
    }
    out += ValueName(module, graph.results[i]);
  }
  out += ") {\n";
  for (const NodeId node : nodes) {
    if (!module.nodes[node].is_dead) out += "  " + PrintNode(module, module.nodes[node]) + "\n";
  }
  out += "}\n";
}

// The node with names for its operands and results.
std::string PrintNamed(const Module& module, const Node& node,
                       const std::vector<std::string>& operands,
                       const std::vector<std::string>& results) {
  std::string out;
  for (size_t i = 0; i < node.results.size(); ++i) {
    out += (i > 0 ? ", " : "") + results[i];
  }
  out += " = ";
  if (node.constant != kNone && node.constant < module.constants.size()) {
    out += FormatConstant(module.constants[node.constant]);
  } else {
    out += node.op == nullptr ? "<no op>" : std::string(node.op->name);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      out += (i > 0 ? ", " : " ") + operands[i];
    }
    bool is_first = true;
    for (const auto& [name, attribute] : node.attributes) {
      out += fmt::format("{}{} = {}", is_first ? " {" : ", ", name,
                         FormatAttribute(module.exprs, attribute));
      is_first = false;
    }
    if (!is_first) out += "}";
    for (size_t i = 0; i < node.regions.size(); ++i) {
      out += (i > 0 ? ", " : " [") + FormatName(module.graphs[node.regions[i]].name);
    }
    if (!node.regions.empty()) out += "]";
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value& value = module.values[node.results[i]];
      out += (i > 0 ? ", " : " : ") + FormatType(module.exprs, value.type);
      if (!value.layout.empty()) out += fmt::format(" order({})", fmt::join(value.layout, ", "));
    }
  }
  if (!node.name.empty()) out += " " + Quote(node.name);
  return out;
}

}  // namespace

bool IsPrintedInline(const Constant& constant) {
  const Result<int64_t> count = CountElements(constant.dims);
  return count.ok() && *count <= (IsFloat(constant.dtype) ? 16 : 64);
}

std::string FormatAttribute(const ExprArena& exprs, const Attribute& attribute) {
  struct Visitor {
    const ExprArena& exprs;
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const { return Quote(value); }
    std::string operator()(DType value) const { return std::string(FormatDType(value)); }
    std::string operator()(const std::vector<int64_t>& values) const {
      return fmt::format("[{}]", fmt::join(values, ", "));
    }
    std::string operator()(const std::vector<double>& values) const {
      return fmt::format("[{}]", fmt::join(values, ", "));
    }
    std::string operator()(const std::vector<Expr>& values) const {
      std::string out = "[";
      for (size_t i = 0; i < values.size(); ++i) {
        out += (i > 0 ? ", " : "") + exprs.Format(values[i]);
      }
      return out + "]";
    }
    std::string operator()(const CanBeValueless&) const { return {}; }
  };
  return std::visit(Visitor{exprs}, attribute);
}

std::string PrintNode(const Module& module, const Node& node) {
  std::vector<std::string> operands, results;
  for (const ValueId value : node.operands) operands.push_back(ValueName(module, value));
  for (const ValueId value : node.results) results.push_back(ValueName(module, value));
  return PrintNamed(module, node, operands, results);
}

Result<std::string> PrintNodeModule(const Module& module, NodeId id) {
  const Node& node = module.nodes[id];
  if (node.constant != kNone) {
    return FailedPrecondition("Node '{}' is a constant and stands in no module of its own.",
                              node.name);
  }
  // Regions keep the names of their values; those of the node must not meet them.
  std::vector<uint32_t> regions = node.regions;
  std::unordered_set<std::string> taken;
  for (size_t i = 0; i < regions.size(); ++i) {
    const Graph& graph = module.graphs[regions[i]];
    for (const ValueId value : graph.parameters) taken.insert(module.values[value].name);
    for (const NodeId inner : graph.nodes) {
      if (module.nodes[inner].is_dead) continue;
      for (const ValueId value : module.nodes[inner].results) {
        taken.insert(module.values[value].name);
      }
      const std::vector<uint32_t>& more = module.nodes[inner].regions;
      regions.insert(regions.end(), more.begin(), more.end());
    }
  }
  const auto name_of = [&](std::string_view kind, size_t i) {
    std::string name = fmt::format("{}{}", kind, i);
    while (!taken.insert(name).second) name += "_";
    return "%" + name;
  };
  std::vector<std::string> operands, results;
  std::string parameters;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    operands.push_back(node.operands[i] == kNone ? "_" : name_of("operand", i));
    if (node.operands[i] == kNone) continue;
    parameters += (parameters.empty() ? "" : ", ") + operands.back() + ": " +
                  FormatType(module.exprs, module.values[node.operands[i]].type);
  }
  for (size_t i = 0; i < node.results.size(); ++i) results.push_back(name_of("result", i));
  std::string entry = "main";
  for (const uint32_t region : regions) {
    if (module.graphs[region].name == entry) entry += "_";
  }
  std::string out = SymbolSet(module).Declarations();
  out += fmt::format("graph {}({}) -> ({}) {{\n  {}\n}}\n", entry, parameters,
                     fmt::join(results, ", "), PrintNamed(module, node, operands, results));
  for (const uint32_t region : regions)
    PrintGraph(module, module.graphs[region], module.graphs[region].nodes, out);
  return out;
}

std::string PrintModule(const Module& module) {
  std::string out = SymbolSet(module).Declarations();
  for (size_t i = 0; i < module.graphs.size(); ++i) {
    const Graph& graph = module.graphs[i];
    if (i == 0) {
      PrintGraph(module, graph, EntryNodes(module), out);
    } else if (!graph.is_segment) {
      PrintGraph(module, graph, graph.nodes, out);
    }
  }
  return out;
}

}  // namespace halyard::graph
