// SPDX-License-Identifier: Apache-2.0
// The op test matrix: one-node modules over dtypes and awkward shapes (0, 1, primes, broadcast,
// non-contiguous reads), with random inputs. Every layer that executes ops runs it and compares
// with the reference evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/graph/tensor.h"

namespace halyard::graph {

struct OpExample {
  std::string name;  // "add/f32/[7, 13]"
  std::string op;
  DType dtype;                 // of the data operands
  std::string text;            // the module, parseable; the entry's parameters are the inputs
  std::vector<Tensor> inputs;  // random, of a range that suits the op
  // How far another correct evaluation may be off, per element: |a - b| <= absolute + relative *
  // |b|. Exact (0, 0) for ops that only move, compare or round once; argued in op_examples.cc for
  // the rest.
  double absolute = 0;
  double relative = 0;
  // Of an example with a symbol: the inputs at further values of it; `inputs` are at the first.
  std::vector<std::vector<Tensor>> further_inputs;
};

// All examples, or those of one op, or of one dtype (kInvalid: all). The same for equal seeds.
std::vector<OpExample> AllOpExamples(uint64_t seed, DType dtype = DType::kInvalid);
std::vector<OpExample> OpExamplesOf(std::string_view op, uint64_t seed,
                                    DType dtype = DType::kInvalid);

// Examples of which one extent is a symbol "nD" of first value D: those of AllOpExamples that allow
// it. Each has inputs at one value or two after that, which follow from D alone: D + 6, and 0 where
// the op takes it.
std::vector<OpExample> OpenOpExamples(uint64_t seed);

// Whether `actual` agrees with `expected` within the example's tolerance: NaN with NaN, infinities
// exactly, integers and bool exactly. Describes the first difference.
Status CompareTensors(const Tensor& expected, const Tensor& actual, double absolute,
                      double relative);

}  // namespace halyard::graph
