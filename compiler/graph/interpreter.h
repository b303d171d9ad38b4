// SPDX-License-Identifier: Apache-2.0
// Runs a graph through the reference evaluations of its ops: the oracle of tests, the engine of
// constant folding and the last-resort fallback. Correct and slow; nothing about its time means
// anything.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/tensor.h"

namespace halyard::graph {

// Values of symbols by expression handle; what the inputs do not bind may be given beforehand.
using SymbolValues = std::map<Expr, int64_t>;

// Runs the entry graph. Inputs are in the order of its parameters. Binds symbols from the inputs'
// dims and checks every dim and every assumption; INVALID_ARGUMENT names the input, dim and both
// values. OUT_OF_RANGE for data-dependent failures such as an index outside its dim, naming the
// node.
Result<std::vector<Tensor>> Interpret(const Module& module, std::span<const Tensor> inputs,
                                      const SymbolValues& symbols = {});
// Evaluates one node without regions on operands (dtype kInvalid where absent) with known symbols.
Result<std::vector<Tensor>> EvaluateNode(const Module& module, const Node& node,
                                         std::span<const Tensor> operands,
                                         const SymbolValues& symbols = {});

}  // namespace halyard::graph
