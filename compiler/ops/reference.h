// SPDX-License-Identifier: Apache-2.0
// What the reference evaluations share: results of the inferred type, attributes with their
// expressions evaluated, indices that wrap. Obvious rather than fast.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace halyard::graph {

// A tensor of zeros of the type of result `i`.
Result<Tensor> MakeResult(const EvalContext& context, size_t i = 0);
// A tensor with the dtype of result `i` and dims that only the evaluation knows.
Result<Tensor> MakeResultOf(const EvalContext& context, std::vector<int64_t> dims, size_t i = 0);
// An attribute of expressions, with the symbols' values.
Result<std::vector<int64_t>> EvaluateExprs(const EvalContext& context, std::string_view name);
bool Has(const EvalContext& context, size_t operand);

// The flat position of a multi-index.
int64_t FlatIndex(const std::vector<int64_t>& index, const std::vector<int64_t>& strides);
// An index from data: a negative one counts from the end. OUT_OF_RANGE, naming node, index and
// extent, when it lies outside.
Result<int64_t> WrapIndex(const EvalContext& context, int64_t index, int64_t extent);

std::vector<Tensor> OneTensor(Tensor tensor);

// Calls body(index) for every multi-index of `dims` in row-major order; stops at a failure.
template <typename Body>
Status ForEachIndex(const std::vector<int64_t>& dims, Body&& body);

template <typename Body>
Status ForEachIndex(const std::vector<int64_t>& dims, Body&& body) {
  for (const int64_t dim : dims) {
    if (dim == 0) return OkStatus();
  }
  std::vector<int64_t> index(dims.size(), 0);
  do {
    HY_TRY(body(static_cast<const std::vector<int64_t>&>(index)));
  } while (NextIndex(dims, index));
  return OkStatus();
}

}  // namespace halyard::graph
