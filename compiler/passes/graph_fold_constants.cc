// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/builder.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/uses.h"
#include "compiler/passes/graph_passes.h"

namespace halyard::graph {
namespace {

// The reference evaluation takes some 50 ns an element: these keep a fold below about 50 ms.
constexpr int64_t kMostResultElements = int64_t{1} << 18;
constexpr int64_t kMostOperandElements = int64_t{1} << 20;
// Results up to this size may be larger than their operands.
constexpr int64_t kAlwaysSmall = 64;

std::optional<int64_t> StaticCount(const Module& module, ValueId id) {
  std::vector<int64_t> dims;
  for (const Expr dim : module.values[id].type.dims) {
    const std::optional<int64_t> size = module.exprs.AsConst(dim);
    if (!size) return std::nullopt;
    dims.push_back(*size);
  }
  const Result<int64_t> count = CountElements(dims);
  return count.ok() ? std::optional(*count) : std::nullopt;
}

// The constant node behind a value: its producer, or what its producer spreads.
NodeId ConstantBehind(const Module& module, ValueId value) {
  NodeId producer = module.values[value].producer;
  if (producer != kNone && module.nodes[producer].op->name == "broadcast") {
    producer = module.values[module.nodes[producer].operands[0]].producer;
  }
  return producer != kNone && module.nodes[producer].constant != kNone ? producer : kNone;
}

bool IsWorthFolding(const Module& module, const Node& node) {
  if (node.is_dead || node.constant != kNone || !node.regions.empty() || node.operands.empty() ||
      node.op->evaluate == nullptr) {
    return false;
  }
  int64_t operand_count = 0;
  for (const ValueId operand : node.operands) {
    if (operand == kNone) continue;
    const NodeId constant = ConstantBehind(module, operand);
    if (constant == kNone) return false;
    const std::optional<int64_t> count = StaticCount(module, operand);
    if (!count || *count > kMostOperandElements) return false;
    // A spread constant weighs what is stored.
    const std::optional<int64_t> stored = StaticCount(module, module.nodes[constant].results[0]);
    if (!stored) return false;
    operand_count += *stored;
  }
  for (const ValueId result : node.results) {
    const std::optional<int64_t> count = StaticCount(module, result);
    if (!count || *count > kMostResultElements) return false;
    if (*count > kAlwaysSmall && *count > operand_count) return false;
  }
  return operand_count <= kMostOperandElements;
}

// The results as tensors; nothing where evaluation needs symbols, missing data, or fails: then the
// node stays and fails where it is run.
std::optional<std::vector<Tensor>> EvaluateOnConstants(const Module& module, const Node& node) {
  std::vector<Tensor> operands(node.operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (node.operands[i] == kNone) continue;
    const NodeId constant = ConstantBehind(module, node.operands[i]);
    Result<Tensor> tensor = ReadConstant(module.constants[module.nodes[constant].constant]);
    if (!tensor.ok()) return std::nullopt;
    operands[i] = std::move(*tensor);
    const NodeId producer = module.values[node.operands[i]].producer;
    if (producer == constant) continue;
    Result<std::vector<Tensor>> spread =
        EvaluateNode(module, module.nodes[producer], {&operands[i], 1});
    if (!spread.ok()) return std::nullopt;
    operands[i] = std::move((*spread)[0]);
  }
  Result<std::vector<Tensor>> results = EvaluateNode(module, node, operands);
  if (!results.ok()) return std::nullopt;
  return std::move(*results);
}

}  // namespace

Status FoldConstants(Module& module) {
  std::vector<ValueId> replacement(module.values.size(), kNone);
  Builder builder(module);
  for (uint32_t graph = 0; graph < module.graphs.size(); ++graph) {
    const std::vector<NodeId> nodes = module.graphs[graph].nodes;
    size_t position = 0;
    for (const NodeId id : nodes) {
      for (ValueId& operand : module.nodes[id].operands) {
        if (operand < replacement.size() && replacement[operand] != kNone) {
          operand = replacement[operand];
        }
      }
      if (IsWorthFolding(module, module.nodes[id])) {
        if (const auto tensors = EvaluateOnConstants(module, module.nodes[id])) {
          builder.InsertBefore(graph, position);
          builder.SetNodeName(module.nodes[id].name);
          for (size_t i = 0; i < tensors->size(); ++i) {
            HY_ASSIGN(const ValueId made, builder.ConstantOf((*tensors)[i]));
            replacement[module.nodes[id].results[i]] = made;
          }
          position = builder.position();
        }
      }
      ++position;
    }
  }
  ReplaceValues(module, replacement);
  return OkStatus();
}

}  // namespace halyard::graph
