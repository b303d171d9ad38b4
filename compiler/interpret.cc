// SPDX-License-Identifier: Apache-2.0
// Evaluates one-node Graph IR text on host tensors: what an interpreted command of a program does.
#include "compiler/compile.h"

#include <algorithm>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"

namespace halyard {
Status InterpretNode(const InterpretRequest& request) {
  HY_ASSIGN(graph::Module module, graph::ParseModule(request.text));
  if (request.operands.size() != module.entry().parameters.size() ||
      request.results.size() != module.entry().results.size()) {
    return InvalidArgument(
        "An interpreted node has {} operands and {} results; {} and {} are given.",
        module.entry().parameters.size(), module.entry().results.size(), request.operands.size(),
        request.results.size());
  }
  std::vector<graph::Tensor> inputs;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    graph::Tensor tensor;
    tensor.dtype = module.values[module.entry().parameters[i]].type.dtype;
    tensor.dims = request.operand_dims[i];
    tensor.bytes.assign(request.operands[i].begin(), request.operands[i].end());
    inputs.push_back(std::move(tensor));
  }
  graph::SymbolValues symbols;
  for (const auto& [name, value] : request.symbols) {
    symbols.emplace(module.exprs.Dim(name), value);
  }
  HY_ASSIGN(const std::vector<graph::Tensor> results, graph::Interpret(module, inputs, symbols));
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].bytes.size() != request.results[i].size()) {
      return Internal("Result {} of an interpreted node has {} bytes; its place has {}.", i,
                      results[i].bytes.size(), request.results[i].size());
    }
    std::copy(results[i].bytes.begin(), results[i].bytes.end(), request.results[i].begin());
  }
  return OkStatus();
}

}  // namespace halyard
