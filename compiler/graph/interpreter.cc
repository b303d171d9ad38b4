// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/interpreter.h"

#include "base/quantity.h"
#include "compiler/ops/op_def.h"

namespace halyard::graph {
namespace {

class Interpreter {
 public:
  Interpreter(const Module& module, const SymbolValues& symbols)
      : module_(module),
        symbols_(symbols),
        is_checked_(module.assumed_equal.size() + module.assumed_at_most.size(), false) {}

  Result<std::vector<Tensor>> RunGraph(uint32_t index, std::span<const Tensor> inputs) {
    const Graph& graph = module_.graphs[index];
    if (inputs.size() != graph.parameters.size()) {
      return InvalidArgument("Graph '{}' takes {}; {} are given.", graph.name,
                             Counted(graph.parameters.size(), "input"), inputs.size());
    }
    std::vector<uint32_t> uses_left(module_.values.size(), 0);
    for (const NodeId id : graph.nodes) {
      if (module_.nodes[id].is_dead) continue;
      for (const ValueId operand : module_.nodes[id].operands) {
        if (operand != kNone) ++uses_left[operand];
      }
    }
    for (const ValueId result : graph.results) ++uses_left[result];
    std::map<ValueId, Tensor> values;
    for (size_t i = 0; i < inputs.size(); ++i) {
      HY_TRY(Bind(module_.values[graph.parameters[i]], inputs[i]));
    }
    // Compound dims are checked once all symbols that stand alone are bound.
    for (size_t i = 0; i < inputs.size(); ++i) {
      HY_TRY(CheckDims(module_.values[graph.parameters[i]], inputs[i]));
      values[graph.parameters[i]] = inputs[i];
    }
    HY_TRY(CheckAssumptions());
    for (const NodeId id : graph.nodes) {
      const Node& node = module_.nodes[id];
      if (node.is_dead) continue;
      std::vector<Tensor> operands(node.operands.size());
      for (size_t i = 0; i < operands.size(); ++i) {
        if (node.operands[i] != kNone) operands[i] = values.at(node.operands[i]);
      }
      HY_ASSIGN(std::vector<Tensor> results, RunNode(node, operands));
      for (size_t i = 0; i < results.size(); ++i) {
        if (uses_left[node.results[i]] > 0) values[node.results[i]] = std::move(results[i]);
      }
      for (const ValueId operand : node.operands) {
        if (operand != kNone && --uses_left[operand] == 0) values.erase(operand);
      }
    }
    std::vector<Tensor> results;
    for (const ValueId result : graph.results) results.push_back(values.at(result));
    return results;
  }

  Result<std::vector<Tensor>> RunNode(const Node& node, std::span<const Tensor> operands) {
    if (node.op->evaluate == nullptr) {
      return Unimplemented("{} has no reference evaluation (node '{}').", node.op->name, node.name);
    }
    const auto value_of = [this](Expr symbol) -> std::optional<int64_t> {
      const auto found = symbols_.find(symbol);
      if (found == symbols_.end()) return std::nullopt;
      return found->second;
    };
    std::vector<DType> dtypes;
    std::vector<std::vector<int64_t>> dims;
    for (const ValueId result : node.results) {
      const TensorType& type = module_.values[result].type;
      dtypes.push_back(type.dtype);
      dims.emplace_back();
      for (const Expr dim : type.dims) {
        const Result<int64_t> size = module_.exprs.Evaluate(dim, value_of);
        if (!size.ok() && size.status().code() != StatusCode::kInvalidArgument)
          return size.status();
        dims.back().push_back(size.ok() ? *size : -1);
      }
    }
    EvalContext context{.module = module_,
                        .node = node,
                        .operands = operands,
                        .result_dtypes = dtypes,
                        .result_dims = dims,
                        .value_of = value_of,
                        .run_region = [this](uint32_t graph, std::span<const Tensor> arguments) {
                          return RunGraph(graph, arguments);
                        }};
    HY_ASSIGN(std::vector<Tensor> results, node.op->evaluate(context));
    if (results.size() != node.results.size()) {
      return Internal("{} gives {} results for {} (node '{}').", node.op->name, results.size(),
                      node.results.size(), node.name);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Value& value = module_.values[node.results[i]];
      HY_TRY_CONTEXT(Bind(value, results[i]), "evaluating node '{}'", node.name);
      HY_TRY_CONTEXT(CheckDims(value, results[i]), "evaluating node '{}'", node.name);
    }
    HY_TRY_CONTEXT(CheckAssumptions(), "evaluating node '{}'", node.name);
    return results;
  }

 private:
  // Gives the symbols that stand alone as dims their values.
  Status Bind(const Value& value, const Tensor& tensor) {
    if (tensor.dtype != value.type.dtype) {
      return InvalidArgument("'{}' is {}; {} is given.", value.name,
                             FormatType(module_.exprs, value.type), FormatDType(tensor.dtype));
    }
    if (tensor.dims.size() != value.type.dims.size()) {
      return InvalidArgument("'{}' has {}; {} needs {}.", value.name,
                             Counted(tensor.dims.size(), "dimension"),
                             FormatType(module_.exprs, value.type), value.type.dims.size());
    }
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      const Expr dim = value.type.dims[i];
      if (module_.exprs.KindOf(dim) != ExprKind::kSymbol) continue;
      const ExprRange range = module_.exprs.RangeOf(dim);
      const int64_t divisor = module_.exprs.SymbolDivisor(dim);
      if (tensor.dims[i] < range.lo || tensor.dims[i] > range.hi || tensor.dims[i] % divisor != 0) {
        return InvalidArgument(
            "Dimension {} of '{}' is {}; '{}' lies in [{}, {}] and is a multiple of {}.", i,
            value.name, tensor.dims[i], module_.exprs.SymbolName(dim), range.lo, range.hi, divisor);
      }
      symbols_.emplace(dim, tensor.dims[i]);
    }
    return OkStatus();
  }

  Status CheckDims(const Value& value, const Tensor& tensor) {
    for (size_t i = 0; i < tensor.dims.size(); ++i) {
      HY_ASSIGN(const int64_t size, Evaluate(value.type.dims[i]));
      if (size == tensor.dims[i]) continue;
      return InvalidArgument("Dimension {} of '{}' is {}; '{}' is {}.", i, value.name,
                             tensor.dims[i], module_.exprs.Format(value.type.dims[i]), size);
    }
    return OkStatus();
  }

  Result<int64_t> Evaluate(Expr expr) const {
    return module_.exprs.Evaluate(expr, [this](Expr symbol) -> std::optional<int64_t> {
      const auto found = symbols_.find(symbol);
      if (found == symbols_.end()) return std::nullopt;
      return found->second;
    });
  }

  // Checks what shape inference took as equal, each pair as soon as its symbols have values. No
  // node runs before the pairs about its operands are checked, so evaluations may rely on their
  // shapes.
  Status CheckAssumptions() {
    if (symbols_.size() == symbols_at_check_) return OkStatus();
    symbols_at_check_ = symbols_.size();
    const size_t equal = module_.assumed_equal.size();
    for (size_t i = 0; i < is_checked_.size(); ++i) {
      if (is_checked_[i]) continue;
      const bool is_equal = i < equal;
      const auto& [a, b, why] =
          is_equal ? module_.assumed_equal[i] : module_.assumed_at_most[i - equal];
      const Result<int64_t> left = Evaluate(a);
      const Result<int64_t> right = Evaluate(b);
      if (!left.ok() || !right.ok()) continue;
      if (is_equal && *left != *right) {
        return InvalidArgument("The dimensions '{}' = {} and '{}' = {} must be equal ({}).",
                               module_.exprs.Format(a), *left, module_.exprs.Format(b), *right,
                               why);
      }
      if (*left > *right) {
        return InvalidArgument("'{}' = {} must be at most '{}' = {} ({}).", module_.exprs.Format(a),
                               *left, module_.exprs.Format(b), *right, why);
      }
      is_checked_[i] = true;
    }
    return OkStatus();
  }

  const Module& module_;
  SymbolValues symbols_;
  std::vector<bool> is_checked_;
  size_t symbols_at_check_ = SIZE_MAX;
};

}  // namespace

Result<std::vector<Tensor>> Interpret(const Module& module, std::span<const Tensor> inputs,
                                      const SymbolValues& symbols) {
  return Interpreter(module, symbols).RunGraph(0, inputs);
}

Result<std::vector<Tensor>> EvaluateNode(const Module& module, const Node& node,
                                         std::span<const Tensor> operands,
                                         const SymbolValues& symbols) {
  return Interpreter(module, symbols).RunNode(node, operands);
}

}  // namespace halyard::graph
