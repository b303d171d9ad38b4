// SPDX-License-Identifier: Apache-2.0
// Every op against its literal cases, and the whole test matrix through text form, verifier and
// interpreter; docs/ops.md against the catalogue.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/env.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/graph/verifier.h"
#include "compiler/ops/op_docs.h"
#include "tests/compiler/ops/op_examples.h"

namespace halyard::graph {
namespace {

std::vector<Tensor> ParseTensors(std::string_view text) {
  std::vector<Tensor> tensors;
  while (!text.empty()) {
    const size_t end = text.find(';');
    Result<Tensor> tensor = ParseTensor(text.substr(0, end));
    EXPECT_TRUE(tensor.ok()) << tensor.status().ToString();
    if (tensor.ok()) tensors.push_back(*tensor);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return tensors;
}

// A module with one node of `op`; the operands are parameters, or constants where `as_constants`.
Result<Module> ModuleOf(const OpDef& op, const OpCase& one, const std::vector<Tensor>& inputs,
                        bool as_constants) {
  Module module;
  Builder builder(module);
  HY_ASSIGN(const Attributes attributes, ParseAttributes(module, op, one.attributes));
  std::vector<ValueId> operands;
  for (const Tensor& input : inputs) {
    TensorType type{input.dtype, {}};
    for (const int64_t dim : input.dims) type.dims.push_back(module.exprs.Const(dim));
    HY_ASSIGN(const ValueId operand,
              as_constants ? builder.ConstantOf(input) : builder.AddParameter("x", type));
    operands.push_back(operand);
  }
  builder.SetNodeName("tested");
  HY_ASSIGN(std::vector<ValueId> results, builder.Add(op.name, operands, attributes));
  HY_TRY(builder.SetResults(results));
  HY_TRY(VerifyModule(module));
  return module;
}

void ExpectRoundTrip(const Module& module) {
  const std::string text = PrintModule(module);
  Result<Module> read = ParseModule(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString() << "\n" << text;
  EXPECT_EQ(PrintModule(*read), text);
}

// Functions are given with the digits of the table they come from, so the last unit may differ.
bool IsTranscendental(std::string_view op) {
  static constexpr std::string_view kOps[] = {"exp",   "log",   "sin",  "cos",      "tan",  "asin",
                                              "acos",  "atan",  "sinh", "cosh",     "tanh", "asinh",
                                              "acosh", "atanh", "erf",  "attention"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

TEST(OpCasesTest, EveryOpGivesItsLiteralResults) {
  int cases = 0;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& one : op->cases) {
      SCOPED_TRACE(fmt::format("{} ({}) {{{}}}", op->name, one.inputs, one.attributes));
      const std::vector<Tensor> inputs = ParseTensors(one.inputs);
      const std::vector<Tensor> expected = ParseTensors(one.outputs);
      Result<Module> module = ModuleOf(*op, one, inputs, false);
      ASSERT_TRUE(module.ok()) << module.status().ToString();
      ExpectRoundTrip(*module);
      Result<std::vector<Tensor>> actual = Interpret(*module, inputs);
      ASSERT_TRUE(actual.ok()) << actual.status().ToString();
      ASSERT_EQ(actual->size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        const double relative = IsTranscendental(op->name) ? 4e-16 : 0;
        const Status same = CompareTensors(expected[i], (*actual)[i], 0, relative);
        EXPECT_TRUE(same.ok()) << same.ToString() << "\n" << FormatTensor((*actual)[i]);
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 150);
}

// Where shape inference claims to know elements, they must be what evaluation gives.
TEST(OpCasesTest, KnownElementsAgreeWithEvaluation) {
  int known = 0;
  std::set<std::string> ops;
  for (const OpDef* op : AllOps()) {
    for (const OpCase& one : op->cases) {
      SCOPED_TRACE(fmt::format("{} ({}) {{{}}}", op->name, one.inputs, one.attributes));
      Result<Module> module = ModuleOf(*op, one, ParseTensors(one.inputs), true);
      ASSERT_TRUE(module.ok()) << module.status().ToString();
      const Value& value = module->values[module->entry().results[0]];
      if (!value.elements) continue;
      ++known;
      ops.insert(std::string(op->name));
      const Tensor expected = ParseTensors(one.outputs)[0];
      ASSERT_EQ(static_cast<int64_t>(value.elements->size()), expected.elements());
      for (int64_t i = 0; i < expected.elements(); ++i) {
        const std::optional<int64_t> element =
            module->exprs.AsConst((*value.elements)[static_cast<size_t>(i)]);
        ASSERT_TRUE(element.has_value());
        EXPECT_EQ(*element, LoadInt(expected, i));
      }
    }
  }
  EXPECT_GT(known, 40);
  for (const char* op : {"shape_of", "gather", "concat", "slice", "cast", "add", "div", "eq",
                         "select", "reshape", "transpose", "reduce_min", "symbolic", "iota"}) {
    EXPECT_EQ(ops.count(op), 1u) << op;
  }
}

TEST(OpCasesTest, EveryOpHasCasesOrIsTestedElsewhere) {
  const std::set<std::string_view> elsewhere = {"constant", "if", "loop"};
  for (const OpDef* op : AllOps()) {
    EXPECT_EQ(op->cases.empty(), elsewhere.count(op->name) == 1) << op->name;
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_NE(op->evaluate, nullptr) << op->name;
    EXPECT_FALSE(op->doc.empty()) << op->name;
    EXPECT_EQ(FindOp(op->name), op);
  }
}

// A new op has examples. Those without need what no example has: bytes from outside, regions, a
// result whose size only its evaluation tells.
TEST(OpExamplesTest, TheMatrixHasEveryOtherOp) {
  std::set<std::string_view> missing;
  for (const OpDef* op : AllOps()) {
    if (OpExamplesOf(op->name, 1).empty()) missing.insert(op->name);
  }
  EXPECT_EQ(missing, (std::set<std::string_view>{"constant", "if", "loop", "nonzero"}));
}

TEST(OpExamplesTest, EveryExampleRoundTripsAndRuns) {
  const std::vector<OpExample> examples = AllOpExamples(1);
  EXPECT_GT(examples.size(), 1500u);
  std::set<std::string> ops;
  for (const OpExample& example : examples) {
    SCOPED_TRACE(example.name);
    ops.insert(example.op);
    Result<Module> module = ParseModule(example.text);
    ASSERT_TRUE(module.ok()) << module.status().ToString() << example.text;
    EXPECT_EQ(PrintModule(*module), example.text);
    ASSERT_TRUE(VerifyModule(*module).ok());
    Result<std::vector<Tensor>> results = Interpret(*module, example.inputs);
    ASSERT_TRUE(results.ok()) << results.status().ToString();
    for (size_t i = 0; i < results->size(); ++i) {
      EXPECT_TRUE(
          CompareTensors((*results)[i], (*results)[i], example.absolute, example.relative).ok());
    }
  }
  EXPECT_GT(ops.size(), 65u);
}

// At the first value of its symbol an example gives what it gives without one. The ops that are
// missing fix all their extents, or have no operand.
TEST(OpExamplesTest, ASymbolChangesNothing) {
  std::map<std::string, OpExample> fixed;
  for (OpExample& example : AllOpExamples(4)) fixed.emplace(example.name, std::move(example));
  std::set<std::string> ops, missing;
  size_t of_three_sizes = 0;
  const std::vector<OpExample> examples = OpenOpExamples(4);
  for (const OpExample& example : examples) {
    SCOPED_TRACE(example.name);
    const OpExample& without = fixed.at(example.name.substr(0, example.name.rfind("/n")));
    const Result<Module> open = ParseModule(example.text), closed = ParseModule(without.text);
    ASSERT_TRUE(open.ok()) << open.status().ToString() << example.text;
    const auto got = Interpret(*open, example.inputs);
    const auto wanted = Interpret(*closed, example.inputs);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    ASSERT_EQ(got->size(), wanted->size());
    for (size_t i = 0; i < got->size(); ++i) {
      const Status same = CompareTensors((*wanted)[i], (*got)[i], 0, 0);
      EXPECT_TRUE(same.ok()) << same.ToString();
    }
    ops.insert(example.op);
    of_three_sizes += example.further_inputs.size() == 2;
  }
  for (const auto& [name, example] : fixed) {
    if (ops.count(example.op) == 0) missing.insert(example.op);
  }
  EXPECT_EQ(missing, (std::set<std::string>{"iota", "random_bits", "symbolic"}));
  EXPECT_GT(examples.size(), 700u);
  EXPECT_GT(of_three_sizes, 300u);
}

// The comparison can fail: each result with one element moved by a thousand tolerances, and at
// least by more than a unit of the narrowest result, is refused.
TEST(OpExamplesTest, AWrongElementIsFound) {
  int tried = 0;
  for (const OpExample& example : AllOpExamples(2, DType::kF32)) {
    Result<Module> module = ParseModule(example.text);
    ASSERT_TRUE(module.ok());
    Result<std::vector<Tensor>> results = Interpret(*module, example.inputs);
    ASSERT_TRUE(results.ok());
    Tensor wrong = (*results)[0];
    if (wrong.elements() == 0) continue;
    const int64_t at = wrong.elements() / 2;
    if (IsFloat(wrong.dtype)) {
      const double value = LoadFloat(wrong, at);
      if (!std::isfinite(value)) continue;
      const double step = std::max(1000 * example.relative, 0.02);
      StoreFloat(wrong, at, value * (1 + step) + 1000 * example.absolute + 0.01);
    } else {
      StoreInt(wrong, at, LoadInt(wrong, at) ^ 1);
    }
    EXPECT_FALSE(CompareTensors((*results)[0], wrong, example.absolute, example.relative).ok())
        << example.name;
    ++tried;
  }
  EXPECT_GT(tried, 200);
}

TEST(OpDocsTest, TheDocumentIsUpToDate) {
  const std::string path = std::string(HALYARD_SOURCE_DIR) + "/docs/ops.md";
  const std::string text = FormatOpDocs();
  if (EnvFlag(EnvVar::kBless)) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), text) << "Run this test with HALYARD_BLESS=1 to rewrite docs/ops.md.";
}

}  // namespace
}  // namespace halyard::graph
