// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/reference.h"

namespace halyard::graph {

Result<Tensor> MakeResult(const EvalContext& context, size_t i) {
  return MakeTensor(context.result_dtypes[i], context.result_dims[i]);
}

Result<Tensor> MakeResultOf(const EvalContext& context, std::vector<int64_t> dims, size_t i) {
  return MakeTensor(context.result_dtypes[i], std::move(dims));
}

Result<std::vector<int64_t>> EvaluateExprs(const EvalContext& context, std::string_view name) {
  HY_ASSIGN(const std::vector<Expr> exprs, GetExprs(context.node, name));
  std::vector<int64_t> values;
  for (const Expr expr : exprs) {
    HY_ASSIGN(const int64_t value, context.module.exprs.Evaluate(expr, context.value_of));
    values.push_back(value);
  }
  return values;
}

bool Has(const EvalContext& context, size_t operand) {
  return operand < context.operands.size() && context.operands[operand].dtype != DType::kInvalid;
}

int64_t FlatIndex(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); ++i) flat += index[i] * strides[i];
  return flat;
}

Result<int64_t> WrapIndex(const EvalContext& context, int64_t index, int64_t extent) {
  const int64_t wrapped = index < 0 ? index + extent : index;
  if (wrapped < 0 || wrapped >= extent) {
    return OutOfRange("The index {} of {} lies outside [-{}, {}) (node '{}').", index,
                      context.node.op->name, extent, extent, context.node.name);
  }
  return wrapped;
}

std::vector<Tensor> OneTensor(Tensor tensor) {
  std::vector<Tensor> results;
  results.push_back(std::move(tensor));
  return results;
}

}  // namespace halyard::graph
