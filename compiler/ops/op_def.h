// SPDX-License-Identifier: Apache-2.0
// OpDef: the one record that defines what a Graph IR op means: documentation, shape and dtype rule,
// reference evaluation and literal cases. The printer and parser, the verifier, the interpreter,
// constant folding and docs/ops.md read the list in all.cc. Lowerings stand in
// compiler/loop/lower_ops.cc, the examples that all layers are compared on in
// tests/compiler/ops/op_examples.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/tensor.h"

namespace halyard::graph {

enum OpTraits : uint32_t {
  kElementwise =
      1u << 0,      // result element i depends on operand elements i only; all shapes are equal
  kView = 1u << 1,  // moves or repeats elements, computes nothing
  kReduction = 1u << 2,
  kTemplate = 1u << 3,  // contraction, convolution, pooling, attention, sort, scan
  kHasRegions = 1u << 4,
  kHostOnly = 1u << 5,  // shape arithmetic that never runs on a device
  kCommutative = 1u << 6,
};

enum class AttributeKind : uint8_t { kInt, kFloat, kString, kDType, kInts, kFloats, kExprs };

struct AttributeDef {
  std::string_view name;
  AttributeKind kind;
  bool is_required;
  std::string_view doc;
};

// What a shape rule sees: the node with its operand values; `module` to make expressions.
struct InferContext {
  Module& module;
  const Node& node;
  // Operand `i` must be present (`has` tells for optional ones).
  const Value& operand(size_t i) const { return module.values[node.operands[i]]; }
  bool has(size_t i) const { return i < node.operands.size() && node.operands[i] != kNone; }
};

// What a reference evaluation sees. Shapes are concrete; symbols have values.
struct EvalContext {
  const Module& module;
  const Node& node;
  std::span<const Tensor> operands;  // dtype kInvalid: an optional operand that is absent
  // Types of the results; a dim is -1 where only the evaluation can tell it (nonzero, loop).
  std::span<const DType> result_dtypes;
  std::span<const std::vector<int64_t>> result_dims;
  std::function<std::optional<int64_t>(Expr)> value_of;  // of symbols
  // Runs a region with arguments; set where the node has regions.
  std::function<Result<std::vector<Tensor>>(uint32_t graph, std::span<const Tensor>)> run_region;
};

// A literal case: operands, attributes as IR text, expected results; from outside, never computed
// by us.
struct OpCase {
  std::string_view inputs;      // "f32[2]{1, 2}; f32[2]{3, 4}"
  std::string_view attributes;  // "axis = 0"
  std::string_view outputs;     // "f32[2]{4, 6}"
};

struct OpDef {
  std::string_view name;  // "add"
  std::string_view doc;   // one or two sentences
  uint32_t traits = 0;
  int min_operands = 0;
  int max_operands = 0;  // -1: any number
  std::span<const AttributeDef> attributes = {};
  // Types of the results, and `elements` where they can be known. Must reject every ill-typed node.
  Result<std::vector<Value>> (*infer)(const InferContext& context) = nullptr;
  // Slow, obvious, in double or int64 as the dtype asks.
  Result<std::vector<Tensor>> (*evaluate)(const EvalContext& context) = nullptr;
  std::span<const OpCase> cases = {};
};

// All ops, in the order of docs/ops.md. Lookup is by name; null when unknown.
std::span<const OpDef* const> AllOps();
const OpDef* FindOp(std::string_view name);

}  // namespace halyard::graph
