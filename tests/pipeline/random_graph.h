// SPDX-License-Identifier: Apache-2.0
// Random graphs of f32, i64 and bool values, for tests of the whole compiler: what passes do to
// nodes depends on their neighbours, which tests of single ops do not have.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/tensor.h"

namespace halyard::graph {

struct RandomGraph {
  Module module;
  Expr symbol;  // a dim of some inputs, from 1 to 40; invalid: all dims are numbers
};

// Between 6 and 20 nodes, the same for each seed: elementwise and data movement, reductions,
// contractions, windows. Values stay within a few units, so that f32 evaluated in another order
// differs by rounding only; ops that jump (comparisons, floor, argmax) take values that no
// arithmetic has touched.
RandomGraph MakeRandomGraph(uint32_t seed);

// Inputs uniform in [-1, 1]; `size` is the symbol's value.
std::vector<Tensor> RandomInputs(const RandomGraph& graph, int64_t size, uint32_t seed);

}  // namespace halyard::graph
