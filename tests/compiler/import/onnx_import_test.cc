// SPDX-License-Identifier: Apache-2.0
// Import of models that are wrong, with the exact sentence; of shapes and names; and of small
// models whose results are compared with literal values.
#include "compiler/import/onnx_import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/env.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/tensor.h"
#include "compiler/graph/verifier.h"
#include "compiler/ops/op_def.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using graph::Module;
using graph::Tensor;
using testing::GraphOf;
using testing::GraphParts;
using testing::IntTensor;
using testing::kBool;
using testing::kF32;
using testing::kI64;
using testing::Message;
using testing::ModelOf;
using testing::Node;
using testing::ValueInfo;

Result<Module> Import(const Message& model, ImportReport* report = nullptr,
                      const ImportOptions& options = {}) {
  // The module's constants may refer to the bytes.
  auto bytes = std::make_shared<std::string>(model.str());
  return ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, options,
                         report, bytes, "m.onnx");
}

// Imports, verifies and runs; results as text.
std::vector<std::string> RunModel(const Message& model, const std::vector<std::string>& inputs) {
  auto module = Import(model);
  if (!module.ok()) return {module.status().ToString()};
  const Status verified = graph::VerifyModule(*module);
  if (!verified.ok()) return {verified.ToString()};
  std::vector<Tensor> tensors;
  for (const std::string& text : inputs) {
    auto tensor = graph::ParseTensor(text);
    if (!tensor.ok()) return {tensor.status().ToString()};
    tensors.push_back(*std::move(tensor));
  }
  auto results = graph::Interpret(*module, tensors);
  if (!results.ok()) return {results.status().ToString()};
  std::vector<std::string> out;
  for (const Tensor& tensor : *results) out.push_back(graph::FormatTensor(tensor));
  return out;
}

using Texts = std::vector<std::string>;

GraphParts OneNode(const Message& node, const std::vector<Message>& inputs,
                   const std::vector<Message>& outputs,
                   const std::vector<Message>& initialisers = {}) {
  return {{node}, initialisers, inputs, outputs};
}

TEST(OnnxImport, AddBroadcasts) {
  const auto model = ModelOf(
      OneNode(Node("Add", {"x", "b"}, {"y"}), {ValueInfo("x", kF32, {"n", 2})},
              {ValueInfo("y", kF32, {"n", 2})}, {testing::FloatTensor("b", {2}, {10, 20})}));
  EXPECT_EQ(RunModel(model, {"f32[2, 2]{1, 2, 3, 4}"}), (Texts{"f32[2, 2]{11, 22, 13, 24}"}));
  ImportReport report;
  const auto module = Import(model, &report);
  ASSERT_TRUE(module.ok());
  ASSERT_EQ(report.weights.size(), 1u);
  EXPECT_EQ(report.weights["b"].type, "f32[2]");
  EXPECT_EQ(report.weights["b"].readers, (Texts{"y"}));
  const auto& entry = module->entry();
  EXPECT_EQ(module->values[entry.parameters[0]].name, "x");
  EXPECT_EQ(entry.result_names, (Texts{"y"}));
  EXPECT_EQ(graph::FormatType(module->exprs, module->values[entry.results[0]].type), "f32[n, 2]");
}

TEST(OnnxImport, NamesDims) {
  const auto model = ModelOf(
      OneNode(Node("Concat", {"a", "b"}, {"y"}, {testing::IntAttribute("axis", 0)}),
              {ValueInfo("a", kF32, {"batch size", -1}), ValueInfo("b", kF32, {"", "batch_size"})},
              {ValueInfo("y", kF32, {"", ""})}));
  const auto module = Import(model);
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const auto type = [&](size_t i) {
    return graph::FormatType(module->exprs, module->values[module->entry().parameters[i]].type);
  };
  EXPECT_EQ(type(0), "f32[batch_size, a_1]");
  EXPECT_EQ(type(1), "f32[b_0, batch_size_2]");
  ImportOptions options;
  options.symbol_values = {{"batch size", 4}, {"a_1", 3}};
  const auto fixed = Import(model, nullptr, options);
  ASSERT_TRUE(fixed.ok()) << fixed.status().ToString();
  EXPECT_EQ(graph::FormatType(fixed->exprs, fixed->values[fixed->entry().parameters[0]].type),
            "f32[4, 3]");
  options.symbol_values = {{"a_1", int64_t{1} << 31}};
  EXPECT_EQ(Import(model, nullptr, options).status().message(),
            "m.onnx: Symbol 'a_1' is fixed to 2147483648; it must lie in [0, 2147483647].");
}

// What exporters write for x.view(x.shape[0], -1): no shape arithmetic is left.
TEST(OnnxImport, ShapeArithmeticVanishes) {
  GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {"n", 3, 4})};
  parts.outputs = {ValueInfo("y", kF32, {"n", 12})};
  parts.initialisers = {IntTensor("zero", {}, {0}), IntTensor("axes", {1}, {0}),
                        IntTensor("rest", {1}, {-1})};
  parts.nodes = {Node("Shape", {"x"}, {"s"}), Node("Gather", {"s", "zero"}, {"g"}),
                 Node("Unsqueeze", {"g", "axes"}, {"u"}),
                 Node("Concat", {"u", "rest"}, {"c"}, {testing::IntAttribute("axis", 0)}),
                 Node("Reshape", {"x", "c"}, {"y"})};
  const auto module = Import(ModelOf(parts));
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const auto& value = module->values[module->entry().results[0]];
  EXPECT_EQ(graph::FormatType(module->exprs, value.type), "f32[n, 12]");
  EXPECT_EQ(module->nodes[value.producer].op->name, "reshape");
  EXPECT_EQ(module->nodes[value.producer].operands[0], module->entry().parameters[0]);
}

TEST(OnnxImport, SortsNodesAndKeepsPassThroughOutputsApart) {
  GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {2})};
  parts.outputs = {ValueInfo("z", kF32, {2}), ValueInfo("i", kF32, {2}), ValueInfo("w", kF32, {2})};
  parts.initialisers = {testing::FloatTensor("w", {2}, {5, 6})};
  parts.nodes = {Node("Neg", {"y"}, {"z"}), Node("Abs", {"x"}, {"y"}),
                 Node("Identity", {"x"}, {"i"})};
  EXPECT_EQ(RunModel(ModelOf(parts), {"f32[2]{-1, 2}"}),
            (Texts{"f32[2]{-1, -2}", "f32[2]{-1, 2}", "f32[2]{5, 6}"}));
}

TEST(OnnxImport, InlinesFunctionsWithAttributes) {
  // F(a; alpha) = LeakyRelu(a, alpha); alpha defaults to 0.5.
  Message function;
  function.Text(1, "F").Text(4, "a").Text(5, "b").Text(10, "custom");
  function.Sub(11, testing::FloatAttribute("alpha", 0.5f));
  Message reference;
  reference.Text(1, "alpha").Text(21, "alpha").Varint(20, 1);
  function.Sub(7, Node("LeakyRelu", {"a"}, {"b"}, {reference}));
  function.Sub(9, Message().Varint(2, 17));
  GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {2})};
  parts.outputs = {ValueInfo("y", kF32, {2}), ValueInfo("z", kF32, {2})};
  parts.nodes = {Node("F", {"x"}, {"y"}, {}, "", "custom"),
                 Node("F", {"x"}, {"z"}, {testing::FloatAttribute("alpha", 0.25f)}, "", "custom")};
  const auto model = ModelOf(parts, 17, {function}, {"custom"});
  EXPECT_EQ(RunModel(model, {"f32[2]{-4, 4}"}), (Texts{"f32[2]{-2, 4}", "f32[2]{-1, 4}"}));
}

TEST(OnnxImport, StopsRecursiveFunctions) {
  Message function;
  function.Text(1, "F").Text(4, "a").Text(5, "b").Text(10, "custom");
  function.Sub(7, Node("F", {"a"}, {"b"}, {}, "again", "custom"));
  function.Sub(9, Message().Text(1, "custom").Varint(2, 1));
  const auto model = ModelOf(OneNode(Node("F", {"x"}, {"y"}, {}, "n", "custom"),
                                     {ValueInfo("x", kF32, {2})}, {ValueInfo("y", kF32, {2})}),
                             17, {function}, {"custom"});
  const auto module = Import(model);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(module.status().message().find("Functions call functions deeper than the limit of 32."),
            std::string::npos);
}

TEST(OnnxImport, IfTakesWhatItsBranchesRead) {
  const Message then_graph =
      GraphOf({{Node("Add", {"x", "x"}, {"t"})}, {}, {}, {ValueInfo("t", kF32, {2})}});
  const Message else_graph =
      GraphOf({{Node("Mul", {"x", "k"}, {"e"})}, {}, {}, {ValueInfo("e", kF32, {2})}});
  GraphParts parts;
  parts.inputs = {ValueInfo("c", kBool, {}), ValueInfo("x", kF32, {2})};
  parts.outputs = {ValueInfo("y", kF32, {2})};
  parts.initialisers = {testing::FloatTensor("k", {}, {10})};
  parts.nodes = {Node("If", {"c"}, {"y"},
                      {testing::GraphAttribute("then_branch", then_graph),
                       testing::GraphAttribute("else_branch", else_graph)})};
  EXPECT_EQ(RunModel(ModelOf(parts), {"bool[]{true}", "f32[2]{1, 2}"}), (Texts{"f32[2]{2, 4}"}));
  EXPECT_EQ(RunModel(ModelOf(parts), {"bool[]{false}", "f32[2]{1, 2}"}), (Texts{"f32[2]{10, 20}"}));
}

TEST(OnnxImport, LoopCarriesAndStacks) {
  // state = state + i; every state is stacked.
  const Message body = GraphOf(
      {{Node("Cast", {"i"}, {"f"}, {testing::IntAttribute("to", kF32)}),
        Node("Add", {"s", "f"}, {"s2"}), Node("Identity", {"go"}, {"go2"}),
        Node("Identity", {"s2"}, {"row"})},
       {},
       {ValueInfo("i", kI64, {}), ValueInfo("go", kBool, {}), ValueInfo("s", kF32, {})},
       {ValueInfo("go2", kBool, {}), ValueInfo("s2", kF32, {}), ValueInfo("row", kF32, {})}});
  GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {})};
  parts.outputs = {ValueInfo("last", kF32, {}), ValueInfo("all", kF32, {4})};
  parts.initialisers = {IntTensor("n", {}, {4})};
  parts.nodes = {
      Node("Loop", {"n", "", "x"}, {"last", "all"}, {testing::GraphAttribute("body", body)})};
  EXPECT_EQ(RunModel(ModelOf(parts), {"f32[]{10}"}),
            (Texts{"f32[]{16}", "f32[4]{10, 11, 13, 16}"}));
}

// What a loop stacks has as many rows as it runs; where constants tell that, the size is known.
TEST(OnnxImport, LoopsOfKnownTripsStackKnownSizes) {
  const struct {
    int64_t trips;  // -1: no limit
    int starts;     // -1: no condition
    bool goes_on;
    int64_t wanted;
  } cases[] = {{3, 1, true, 3},   {3, -1, true, 3},  {3, 0, true, 0},  {-1, 0, true, 0},
               {0, 1, true, 0},   {0, -1, false, 0}, {-7, 1, true, 0}, {3, 1, false, 1},
               {-1, 1, false, 1}, {3, 0, false, 0}};
  for (const auto& [trips, starts, goes_on, wanted] : cases) {
    const Message body = GraphOf(
        {{Node("Neg", {"s"}, {"s2"}), Node("Identity", {"s2"}, {"row"})},
         {testing::BoolScalar("go2", goes_on)},
         {ValueInfo("i", kI64, {}), ValueInfo("go", kBool, {}), ValueInfo("s", kF32, {2})},
         {ValueInfo("go2", kBool, {}), ValueInfo("s2", kF32, {2}), ValueInfo("row", kF32, {2})}});
    GraphParts parts;
    parts.inputs = {ValueInfo("x", kF32, {2})};
    parts.outputs = {ValueInfo("last", kF32, {2}), ValueInfo("all", kF32, {"", 2})};
    parts.initialisers = {IntTensor("n", {}, {trips}), testing::BoolScalar("c", starts == 1)};
    parts.nodes = {Node("Loop", {trips == -1 ? "" : "n", starts == -1 ? "" : "c", "x"},
                        {"last", "all"}, {testing::GraphAttribute("body", body)})};
    const auto module = Import(ModelOf(parts));
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    const Expr rows = module->values[module->entry().results[1]].type.dims[0];
    EXPECT_EQ(module->exprs.AsConst(rows), wanted)
        << trips << ", " << starts << ", " << goes_on << ": " << module->exprs.Format(rows);
    const std::vector<std::string> got = RunModel(ModelOf(parts), {"f32[2]{1, 2}"});
    ASSERT_EQ(got.size(), 2u) << got[0];
    EXPECT_EQ(got[0], wanted % 2 == 0 ? "f32[2]{1, 2}" : "f32[2]{-1, -2}");
    EXPECT_EQ(got[1].find("f32[" + std::to_string(wanted) + ", 2]"), 0u) << got[1];
  }
}

TEST(OnnxImport, ScanReadsSlices) {
  const Message body = GraphOf({{Node("Add", {"s", "x"}, {"s2"}), Node("Neg", {"s2"}, {"row"})},
                                {},
                                {ValueInfo("s", kF32, {2}), ValueInfo("x", kF32, {2})},
                                {ValueInfo("s2", kF32, {2}), ValueInfo("row", kF32, {2})}});
  GraphParts parts;
  parts.inputs = {ValueInfo("init", kF32, {2}), ValueInfo("xs", kF32, {"t", 2})};
  parts.outputs = {ValueInfo("last", kF32, {2}), ValueInfo("rows", kF32, {"t", 2})};
  parts.nodes = {
      Node("Scan", {"init", "xs"}, {"last", "rows"},
           {testing::GraphAttribute("body", body), testing::IntAttribute("num_scan_inputs", 1)})};
  EXPECT_EQ(RunModel(ModelOf(parts), {"f32[2]{0, 1}", "f32[3, 2]{1, 2, 3, 4, 5, 6}"}),
            (Texts{"f32[2]{9, 13}", "f32[3, 2]{-1, -3, -4, -7, -9, -13}"}));
}

struct Wrong {
  const char* what;
  Message model;
  StatusCode code;
  std::string message;
};

std::vector<Wrong> WrongModels() {
  const auto x = ValueInfo("x", kF32, {2, 3});
  const auto y = ValueInfo("y", kF32, {2, 3});
  std::vector<Wrong> wrong;
  const auto add = [&](const char* what, const Message& model, StatusCode code,
                       const std::string& message) {
    wrong.push_back({what, model, code, "m.onnx: " + message});
  };
  using enum StatusCode;
  add("cycle",
      ModelOf({{Node("Relu", {"b"}, {"a"}, {}, "first"), Node("Relu", {"a"}, {"b"}, {}, "second")},
               {},
               {x},
               {ValueInfo("b", kF32, {2, 3})}}),
      kInvalidArgument,
      "Node 'first' (Relu): It depends on itself through a cycle of 2 nodes or their readers.");
  add("two producers",
      ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "first"), Node("Abs", {"x"}, {"y"}, {}, "second")},
               {},
               {x},
               {y}}),
      kInvalidArgument, "Node 'second' (Abs): Output 'y' is already produced by node 'first'.");
  add("output named as input", ModelOf({{Node("Relu", {"x"}, {"x"}, {}, "n")}, {}, {x}, {x}}),
      kInvalidArgument,
      "Node 'n' (Relu): Output 'x' is already produced by an input or initialiser.");
  add("input twice", ModelOf({{Node("Relu", {"x"}, {"y"})}, {}, {x, x}, {y}}), kInvalidArgument,
      "Input 'x' is declared twice.");
  add("initialiser twice",
      ModelOf({{Node("Relu", {"x"}, {"y"})},
               {testing::FloatTensor("w", {}, {1}), testing::FloatTensor("w", {}, {1})},
               {x},
               {y}}),
      kInvalidArgument, "Initialiser 'w' is defined twice.");
  add("missing input", ModelOf({{Node("Relu", {"gone"}, {"y"}, {}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Relu): Input 'gone' is produced by nothing.");
  add("missing output", ModelOf({{Node("Relu", {"x"}, {"z"})}, {}, {x}, {y}}), kInvalidArgument,
      "Output 'y' is produced by nothing.");
  add("unknown ops",
      ModelOf(
          {{Node("Frobnicate", {"x"}, {"a"}, {}, "n1"), Node("Frobnicate", {"a"}, {"b"}, {}, "n2"),
            Node("Twiddle", {"x"}, {"c"}, {}, "n3", "com.microsoft"),
            Node("Add", {"b", "c"}, {"y"})},
           {},
           {x},
           {y}},
          17, {}, {"com.microsoft"}),
      kUnimplemented,
      "2 ops are not supported: Frobnicate (opset 17, 1 node, first 'n1'): there is no such op "
      "here.; "
      "com.microsoft.Twiddle (opset 1, 1 node, first 'n3'): there is no such op here.");
  add("unknown domain", ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n", "other")}, {}, {x}, {y}}),
      kInvalidArgument,
      "Node 'n' (Relu): Its domain 'other' is not among the opset imports of the model.");
  add("too few inputs", ModelOf({{Node("Add", {"x"}, {"y"}, {}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Add): It has 1 input; Add needs 2.");
  add("too many inputs",
      ModelOf({{Node("Gemm", {"x", "x", "x", "x"}, {"y"}, {}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Gemm): It has 4 inputs; Gemm needs 2 to 3.");
  add("too many outputs", ModelOf({{Node("Relu", {"x"}, {"y", "z"}, {}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Relu): It has 2 outputs; Relu gives at most 1.");
  add("unknown attribute",
      ModelOf(
          {{Node("Relu", {"x"}, {"y"}, {testing::IntAttribute("slope", 1)}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Relu): Attribute 'slope' is not known; Relu has none.");
  add("attribute of another kind",
      ModelOf({{Node("Flatten", {"x"}, {"y"}, {testing::FloatAttribute("axis", 1)}, "n")},
               {},
               {x},
               {y}}),
      kInvalidArgument, "Node 'n' (Flatten): Attribute 'axis' is a float; it must be an integer.");
  add("axis outside",
      ModelOf(
          {{Node("Flatten", {"x"}, {"y"}, {testing::IntAttribute("axis", 5)}, "n")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'n' (Flatten): Axis 5 is outside [-2, 2).");
  add("rank of Conv", ModelOf({{Node("Conv", {"x", "x"}, {"y"}, {}, "conv1")}, {}, {x}, {y}}),
      kInvalidArgument, "Node 'conv1' (Conv): Input 'X' has 2 dimensions; Conv needs at least 3.");
  add("declared type",
      ModelOf({{Node("Relu", {"x"}, {"y"})}, {}, {x}, {ValueInfo("y", kI64, {2, 3})}}),
      kInvalidArgument, "Output 'y' is declared int64 (7); the graph computes f32.");
  add("huge dim",
      ModelOf({{Node("Relu", {"x"}, {"y"})}, {}, {ValueInfo("x", kF32, {int64_t{1} << 41})}, {y}}),
      kOutOfRange, "Input 'x' has a dim of 2199023255552; the limit is 1099511627776.");
  add("raw data of another size",
      ModelOf({{Node("Relu", {"w"}, {"y"})}, {testing::FloatTensor("w", {3}, {1})}, {}, {y}}),
      kInvalidArgument, "Initialiser 'w' has 4 bytes of raw data; its type and shape need 12.");
  add("string input", ModelOf({{Node("Relu", {"x"}, {"y"})}, {}, {ValueInfo("x", 8, {2})}, {y}}),
      kUnimplemented, "Input 'x': Element type string (8) is not supported.");
  add("old opset", ModelOf({{Node("Add", {"x", "x"}, {"y"}, {}, "n")}, {}, {x}, {y}}, 6),
      kUnimplemented,
      "1 op is not supported: Add (opset 6, 1 node, first 'n'): it is supported from opset 7 on.");
  add("no graph", Message().Varint(1, 8), kInvalidArgument,
      "The file is no ONNX model: it holds no graph; ONNX models and programs that `halyard "
      "compile` "
      "writes are read.");
  add("a shape that is data",
      ModelOf(
          {{Node("Reshape", {"x", "s"}, {"y"}, {}, "n")}, {}, {x, ValueInfo("s", kI64, {2})}, {y}}),
      kUnimplemented,
      "1 op is not supported: Reshape (opset 17, 1 node, first 'n'): Input 'shape' is computed "
      "from data; it must "
      "be known from constants and shapes.");
  return wrong;
}

TEST(OnnxImport, NamesWhatIsWrong) {
  for (const Wrong& test : WrongModels()) {
    const auto module = Import(test.model);
    ASSERT_FALSE(module.ok()) << test.what;
    EXPECT_EQ(module.status().code(), test.code) << test.what;
    EXPECT_EQ(module.status().ToLine(), test.message) << test.what;
  }
}

TEST(OnnxImport, ReportListsEveryUnsupportedOp) {
  ImportReport report;
  GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {2})};
  parts.outputs = {ValueInfo("y", kF32, {2})};
  parts.nodes = {Node("A", {"x"}, {"a"}, {}, "n1"), Node("A", {"x"}, {"b"}, {}, "n2"),
                 Node("B", {"x"}, {"c"}, {}, "n3"), Node("Sum", {"a", "b", "c"}, {"y"}, {}, "n4")};
  EXPECT_FALSE(Import(ModelOf(parts), &report).ok());
  ASSERT_EQ(report.unsupported.size(), 2u);
  EXPECT_EQ(report.unsupported[0].op_type, "A");
  EXPECT_EQ(report.unsupported[0].nodes, 2);
  EXPECT_EQ(report.unsupported[0].first_node, "n1");
  EXPECT_EQ(report.unsupported[1].op_type, "B");
  EXPECT_EQ(report.opset, 17);

  // The sentence names the first of very many.
  parts.nodes.clear();
  for (int i = 0; i < 500; ++i) {
    parts.nodes.push_back(Node("Op" + std::to_string(i), {"x"}, {i == 0 ? "y" : ""}));
  }
  report = {};
  const std::string line = Import(ModelOf(parts), &report).status().ToLine();
  EXPECT_EQ(report.unsupported.size(), 500u);
  EXPECT_NE(line.find("500 ops are not supported: Op0 "), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("; and 468 more")) << line;
}

TEST(OnnxImport, WhatIsAcceptedWithAWord) {
  const Message x = ValueInfo("x", kF32, {3}), right = ValueInfo("y", kF32, {3}),
                open = ValueInfo("y", kF32, {"n"}), wrong = ValueInfo("y", kF32, {4, "n", ""});
  const auto warnings = [&](const Message& y, int opset) {
    ImportReport report;
    const auto module =
        Import(ModelOf({{Node("Relu", {"x"}, {"y"}, {}, "n")}, {}, {x}, {y}}, opset), &report);
    EXPECT_TRUE(module.ok()) << module.status().ToString();
    return report.warnings;
  };
  EXPECT_EQ(warnings(right, 17), std::vector<std::string>());
  EXPECT_EQ(warnings(open, 28), std::vector<std::string>());
  EXPECT_EQ(warnings(wrong, 17),
            std::vector<std::string>(
                {"Output 'y' is f32[3]; the file declares another shape, [4, n, ?]."}));
  EXPECT_EQ(warnings(right, 99),
            std::vector<std::string>({"The model is of opset 99; ops are known up to opset 28, and "
                                      "what a newer one changed is not."}));
}

TEST(OnnxImport, AttributesAndInputsMeanTheSame) {
  // Squeeze, Slice, Clip and Softmax before and after their change.
  const auto x = ValueInfo("x", kF32, {1, 3});
  const auto y = ValueInfo("y", kF32, {""});
  const std::string input = "f32[1, 3]{-1, 0, 5}";
  EXPECT_EQ(
      RunModel(ModelOf(OneNode(Node("Squeeze", {"x"}, {"y"}, {testing::IntsAttribute("axes", {0})}),
                               {x}, {y}),
                       11),
               {input}),
      (Texts{"f32[3]{-1, 0, 5}"}));
  EXPECT_EQ(RunModel(ModelOf(OneNode(Node("Squeeze", {"x", "a"}, {"y"}), {x}, {y},
                                     {IntTensor("a", {1}, {0})}),
                             13),
                     {input}),
            (Texts{"f32[3]{-1, 0, 5}"}));
  EXPECT_EQ(RunModel(ModelOf(OneNode(Node("Slice", {"x"}, {"y"},
                                          {testing::IntsAttribute("starts", {1}),
                                           testing::IntsAttribute("ends", {99}),
                                           testing::IntsAttribute("axes", {1})}),
                                     {x}, {y}),
                             9),
                     {input}),
            (Texts{"f32[1, 2]{0, 5}"}));
  EXPECT_EQ(RunModel(ModelOf(OneNode(Node("Slice", {"x", "s", "e", "a", "t"}, {"y"}), {x}, {y},
                                     {IntTensor("s", {1}, {-1}), IntTensor("e", {1}, {-99}),
                                      IntTensor("a", {1}, {1}), IntTensor("t", {1}, {-2})})),
                     {input}),
            (Texts{"f32[1, 2]{5, -1}"}));
  for (const auto& [step, first, text] : {std::tuple(INT64_MIN, INT64_MAX, "f32[1, 1]{5}"),
                                          std::tuple(INT64_MAX, INT64_MIN, "f32[1, 1]{-1}")}) {
    EXPECT_EQ(
        RunModel(ModelOf(OneNode(Node("Slice", {"x", "s", "e", "a", "t"}, {"y"}), {x}, {y},
                                 {IntTensor("s", {1}, {first}), IntTensor("e", {1}, {-1 - first}),
                                  IntTensor("a", {1}, {1}), IntTensor("t", {1}, {step})})),
                 {input}),
        (Texts{text}));
  }
  EXPECT_EQ(RunModel(ModelOf(OneNode(Node("Clip", {"x"}, {"y"},
                                          {testing::FloatAttribute("min", 0),
                                           testing::FloatAttribute("max", 4)}),
                                     {x}, {y}),
                             10),
                     {input}),
            (Texts{"f32[1, 3]{0, 0, 4}"}));
  EXPECT_EQ(RunModel(ModelOf(OneNode(Node("Clip", {"x", "", "m"}, {"y"}), {x}, {y},
                                     {testing::FloatTensor("m", {}, {4})})),
                     {input}),
            (Texts{"f32[1, 3]{-1, 0, 4}"}));
}

// As everybody computes it: 5 times the f32 below 2.6 is 13 when it is rounded to f32.
TEST(OnnxImport, ResizedSizesAreRoundedAsInF32) {
  const auto resize =
      ModelOf(OneNode(Node("Resize", {"x", "", "s"}, {"y"}), {ValueInfo("x", kF32, {5})},
                      {ValueInfo("y", kF32, {""})}, {testing::FloatTensor("s", {1}, {2.6f})}));
  EXPECT_EQ(RunModel(resize, {"f32[5]{1, 2, 3, 4, 5}"}),
            (Texts{"f32[13]{1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5}"}));
}

// A query of NaN, whose result is NaN, and one that the mask keeps from every key.
TEST(OnnxImport, AttentionHidesNoNaN) {
  GraphParts parts;
  parts.nodes = {
      Node("Attention", {"q", "k", "k"}, {"y"},
           {testing::FloatAttribute("scale", 1), testing::IntAttribute("is_causal", 1)}),
      Node("Attention", {"q", "k", "k", "m"}, {"z"}, {testing::FloatAttribute("scale", 1)})};
  parts.inputs = {ValueInfo("q", kF32, {1, 1, 2, 1}), ValueInfo("k", kF32, {1, 1, 1, 1}),
                  ValueInfo("m", kBool, {2, 1})};
  parts.outputs = {ValueInfo("y", kF32, {1, 1, 2, 1}), ValueInfo("z", kF32, {1, 1, 2, 1})};
  EXPECT_EQ(RunModel(ModelOf(parts, 23),
                     {"f32[1, 1, 2, 1]{nan, 1}", "f32[1, 1, 1, 1]{3}", "bool[2, 1]{true, false}"}),
            (Texts{"f32[1, 1, 2, 1]{nan, 3}", "f32[1, 1, 2, 1]{nan, 0}"}));
}

TEST(OnnxImport, ZerosAreQuantizedByAScaleOfOne) {
  GraphParts parts;
  parts.nodes = {Node("DynamicQuantizeLinear", {"x"}, {"y", "s", "z"})};
  parts.inputs = {ValueInfo("x", kF32, {2})};
  parts.outputs = {ValueInfo("y", testing::kU8, {2}), ValueInfo("s", kF32, {}),
                   ValueInfo("z", testing::kU8, {})};
  EXPECT_EQ(RunModel(ModelOf(parts), {"f32[2]{0, 0}"}),
            (Texts{"u8[2]{0, 0}", "f32[]{1}", "u8[]{0}"}));
}

// Sizes that are open when the model is imported.
TEST(OnnxImport, OpenSizesKeepTheirMeaning) {
  const auto y = ValueInfo("y", kF32, {""});
  // Backwards through an axis that may be empty.
  const auto reversed = ModelOf(
      OneNode(Node("Slice", {"x", "s", "e", "a", "t"}, {"y"}), {ValueInfo("x", kF32, {"n"})}, {y},
              {IntTensor("s", {1}, {-1}), IntTensor("e", {1}, {INT64_MIN}),
               IntTensor("a", {1}, {0}), IntTensor("t", {1}, {-1})}));
  EXPECT_EQ(RunModel(reversed, {"f32[3]{1, 2, 3}"}), (Texts{"f32[3]{3, 2, 1}"}));
  EXPECT_EQ(RunModel(reversed, {"f32[0]{}"}), (Texts{"f32[0]{}"}));
  // The last row, which broadcasts as a row does.
  GraphParts last = {{Node("Slice", {"x", "s", "e"}, {"row"}), Node("Sub", {"x", "row"}, {"y"})},
                     {IntTensor("s", {1}, {-1}), IntTensor("e", {1}, {INT64_MAX})},
                     {ValueInfo("x", kF32, {"n"})},
                     {y}};
  EXPECT_EQ(RunModel(ModelOf(last), {"f32[3]{1, 2, 4}"}), (Texts{"f32[3]{-3, -2, 0}"}));
  // Bounds that count from different ends may cross, and of those that count from the end both may
  // lie before the dim: nothing is left. It is refused where one element is all that there can be.
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return ModelOf(OneNode(Node("Slice", {"x", "s", "e", "a", "t"}, {"y"}),
                           {ValueInfo("x", kF32, {"n"})}, {y},
                           {IntTensor("s", {1}, {start}), IntTensor("e", {1}, {end}),
                            IntTensor("a", {1}, {0}), IntTensor("t", {1}, {step})}));
  };
  for (const auto& [start, end, step, x, text] :
       {std::tuple(-3, -2, 1, "f32[4]{1, 2, 3, 4}", "f32[1]{2}"),
        std::tuple(-3, -2, 9, "f32[4]{1, 2, 3, 4}", "f32[1]{2}"),
        std::tuple(-3, -2, 9, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(-4, 4, 4, "f32[7]{1, 2, 3, 4, 5, 6, 7}", "f32[1]{4}"),
        std::tuple(1, -1, 9, "f32[3]{1, 2, 3}", "f32[1]{2}"),
        std::tuple(-9, 0, -9, "f32[3]{1, 2, 3}", "f32[0]{}"),
        std::tuple(2, 3, 1, "f32[3]{1, 2, 3}", "f32[1]{3}"),
        std::tuple(2, 3, 1, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(-3, -2, 1, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(-4, 4, 4, "f32[8]{1, 2, 3, 4, 5, 6, 7, 8}", ""),
        std::tuple(1, -1, 9, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(-1, -2, -1, "f32[1]{1}", "f32[1]{1}"),
        std::tuple(-1, 1, -9, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(-1, 1, -9, "f32[3]{1, 2, 3}", "f32[1]{3}"),
        // Empty whatever n is.
        std::tuple(0, 3, -3, "f32[2]{1, 2}", "f32[0]{}"),
        std::tuple(3, 2, 7, "f32[9]{1, 2, 3, 4, 5, 6, 7, 8, 9}", "f32[0]{}")}) {
    const Texts results = RunModel(slice(start, end, step), {x});
    if (*text != '\0') {
      EXPECT_EQ(results, (Texts{text})) << start << ":" << end << ":" << step << " of " << x;
    } else {
      EXPECT_NE(results[0].find("must be at most"), std::string::npos)
          << start << ":" << end << ":" << step << " of " << x << " gives " << results[0];
    }
  }
  EXPECT_EQ(RunModel(slice(INT64_MAX, -1, 2), {"f32[2]{1, 2}"}), (Texts{"f32[0]{}"}));
  EXPECT_EQ(RunModel(slice(INT64_MIN, 2, 1), {"f32[3]{1, 2, 3}"}), (Texts{"f32[2]{1, 2}"}));
  // Two open sizes are one, or the run is refused.
  GraphParts expand = {{Node("Shape", {"z"}, {"s"}), Node("Expand", {"x", "s"}, {"y"})},
                       {},
                       {ValueInfo("x", kF32, {"n"}), ValueInfo("z", kF32, {"k"})},
                       {y}};
  EXPECT_EQ(RunModel(ModelOf(expand), {"f32[2]{1, 2}", "f32[2]{0, 0}"}), (Texts{"f32[2]{1, 2}"}));
  for (const char* x : {"f32[1]{1}", "f32[2]{1, 2}"}) {
    const Texts refused = RunModel(ModelOf(expand), {x, "f32[3]{0, 0, 0}"});
    EXPECT_NE(refused[0].find("must be equal"), std::string::npos) << refused[0];
  }
  const auto diagonal =
      ModelOf(OneNode(Node("Einsum", {"x"}, {"y"}, {testing::TextAttribute("equation", "ii->i")}),
                      {ValueInfo("x", kF32, {"n", "m"})}, {y}));
  EXPECT_EQ(RunModel(diagonal, {"f32[2, 2]{1, 2, 3, 4}"}), (Texts{"f32[2]{1, 4}"}));
  EXPECT_NE(RunModel(diagonal, {"f32[1, 2]{1, 2}"})[0].find("must be equal"), std::string::npos);
  const auto loss =
      ModelOf(OneNode(Node("NegativeLogLikelihoodLoss", {"x", "t"}, {"y"},
                           {testing::TextAttribute("reduction", "none")}),
                      {ValueInfo("x", kF32, {"n", 2}), ValueInfo("t", testing::kI64, {"m"})}, {y}));
  EXPECT_EQ(RunModel(loss, {"f32[2, 2]{1, 2, 3, 4}", "i64[2]{0, 1}"}), (Texts{"f32[2]{-1, -4}"}));
  for (const char* target : {"i64[1]{0}", "i64[3]{0, 1, 0}"}) {
    const Texts refused = RunModel(loss, {"f32[2, 2]{1, 2, 3, 4}", target});
    EXPECT_NE(refused[0].find("must be"), std::string::npos) << refused[0];
  }
  const auto split = ModelOf({{Node("Split", {"x", "s"}, {"y", "z"})},
                              {IntTensor("s", {2}, {1, 2})},
                              {ValueInfo("x", kF32, {"n"})},
                              {y, ValueInfo("z", kF32, {""})}});
  EXPECT_EQ(RunModel(split, {"f32[3]{1, 2, 3}"}), (Texts{"f32[1]{1}", "f32[2]{2, 3}"}));
  EXPECT_NE(RunModel(split, {"f32[5]{1, 2, 3, 4, 5}"})[0].find("must be equal"), std::string::npos);
  // Equal parts, and parts of which the last may be smaller or empty, of a size that the run tells.
  const auto halves = ModelOf({{Node("Split", {"x"}, {"y", "z"})},
                               {},
                               {ValueInfo("x", kF32, {"n"})},
                               {y, ValueInfo("z", kF32, {""})}},
                              17);
  EXPECT_EQ(RunModel(halves, {"f32[4]{1, 2, 3, 4}"}), (Texts{"f32[2]{1, 2}", "f32[2]{3, 4}"}));
  EXPECT_NE(RunModel(halves, {"f32[3]{1, 2, 3}"})[0].find("must be equal"), std::string::npos);
  const auto thirds = ModelOf(
      {{Node("Split", {"x"}, {"a", "b", "c"}, {testing::IntAttribute("num_outputs", 3)})},
       {},
       {ValueInfo("x", kF32, {"n"})},
       {ValueInfo("a", kF32, {""}), ValueInfo("b", kF32, {""}), ValueInfo("c", kF32, {""})}},
      18);
  EXPECT_EQ(RunModel(thirds, {"f32[7]{1, 2, 3, 4, 5, 6, 7}"}),
            (Texts{"f32[3]{1, 2, 3}", "f32[3]{4, 5, 6}", "f32[1]{7}"}));
  EXPECT_EQ(RunModel(thirds, {"f32[4]{1, 2, 3, 4}"}),
            (Texts{"f32[2]{1, 2}", "f32[2]{3, 4}", "f32[0]{}"}));
  EXPECT_EQ(RunModel(thirds, {"f32[0]{}"}), (Texts{"f32[0]{}", "f32[0]{}", "f32[0]{}"}));
  const auto uneven = ModelOf({{Node("Split", {"x"}, {"y", "z"})},
                               {},
                               {ValueInfo("x", kF32, {3})},
                               {y, ValueInfo("z", kF32, {""})}},
                              17);
  EXPECT_NE(RunModel(uneven, {"f32[3]{1, 2, 3}"})[0].find("Dim 3 of axis 0 has no 2 equal parts."),
            std::string::npos);
  // What is chosen of constants is a size like any other.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<std::vector<float>, const char*> choices[] = {
      {{0, 1, 0, 2, 0, 3}, "f32[3]{2, 4, 6}"},
      {{-1, 0, 0, 0, 0, nan}, "f32[2]{1, 6}"},
      {{1, 1, 1, 1, 1, 1}, "f32[6]{1, 2, 3, 4, 5, 6}"},
      {{0, -0.0f, 0, 0, 0, 0}, "f32[0]{}"},
  };
  for (const auto& choice : choices) {
    const auto chosen = ModelOf({{Node("NonZero", {"c"}, {"i"}), Node("Transpose", {"i"}, {"t"}),
                                  Node("GatherND", {"x", "t"}, {"y"})},
                                 {testing::FloatTensor("c", {2, 3}, choice.first)},
                                 {ValueInfo("x", kF32, {2, 3})},
                                 {y}});
    EXPECT_EQ(RunModel(chosen, {"f32[2, 3]{1, 2, 3, 4, 5, 6}"}), (Texts{choice.second}));
  }
  // NaN has no sign.
  EXPECT_EQ(
      RunModel(ModelOf(OneNode(Node("Sign", {"x"}, {"y"}), {ValueInfo("x", kF32, {"n"})}, {y})),
               {"f32[3]{nan, -2, 0}"}),
      (Texts{"f32[3]{nan, -1, 0}"}));
}

TEST(OnnxImport, WindowsThatDoNotFitAreNamedAtRun) {
  const auto pool = ModelOf(
      OneNode(Node("MaxPool", {"x"}, {"y"}, {testing::IntsAttribute("kernel_shape", {3})}, "pool"),
              {ValueInfo("x", kF32, {1, 1, "n"})}, {ValueInfo("y", kF32, {1, 1, ""})}));
  EXPECT_EQ(RunModel(pool, {"f32[1, 1, 3]{1, 3, 2}"}), (Texts{"f32[1, 1, 1]{3}"}));
  EXPECT_NE(RunModel(pool, {"f32[1, 1, 2]{1, 2}"})[0].find(
                "'3' = 3 must be at most 'n' = 2 (max_pool, node 'pool': a window of 3 with "
                "dilation 1 in n padded by 0 and 0 along spatial axis 0)"),
            std::string::npos);
  const auto conv = ModelOf(
      OneNode(Node("Conv", {"x", "w"}, {"y"}, {testing::IntsAttribute("dilations", {2})}, "conv"),
              {ValueInfo("x", kF32, {1, 1, "n"})}, {ValueInfo("y", kF32, {1, 1, ""})},
              {testing::FloatTensor("w", {1, 1, 2}, {1, 1})}));
  EXPECT_EQ(RunModel(conv, {"f32[1, 1, 3]{1, 3, 2}"}), (Texts{"f32[1, 1, 1]{3}"}));
  EXPECT_NE(RunModel(conv, {"f32[1, 1, 2]{1, 2}"})[0].find("(conv, node 'conv': a window of 2"),
            std::string::npos);
}

TEST(OnnxImport, TwoOpenSizesAreOneSize) {
  const auto add = ModelOf(OneNode(Node("Add", {"a", "b"}, {"y"}, {}, "sum"),
                                   {ValueInfo("a", kF32, {"n"}), ValueInfo("b", kF32, {"m"})},
                                   {ValueInfo("y", kF32, {""})}));
  EXPECT_NE(RunModel(add, {"f32[1]{1}", "f32[2]{1, 2}"})[0].find(
                "must be equal (broadcast, node 'sum': an open size of 1 is not repeated)"),
            std::string::npos);
}

// Types that Halyard does not have matter only where something reads them.
TEST(OnnxImport, StringsThatNothingReadsAreLeftOut) {
  Message labels;  // TensorProto
  labels.Varint(1, 2).Varint(2, 8).Text(6, "cat").Text(6, "dog").Text(8, "labels");
  GraphParts parts = {{Node("Neg", {"x"}, {"y"})},
                      {labels},
                      {ValueInfo("x", kF32, {1}), ValueInfo("labels", 8, {2})},
                      {ValueInfo("y", kF32, {1})}};
  EXPECT_EQ(RunModel(ModelOf(parts), {"f32[1]{2}"}), (Texts{"f32[1]{-2}"}));
  parts.outputs.push_back(ValueInfo("labels", 8, {2}));
  EXPECT_NE(RunModel(ModelOf(parts), {})[0].find("Initialiser 'labels'"), std::string::npos);
  parts.outputs.pop_back();
  parts.nodes.push_back(Node("Identity", {"labels"}, {"z"}));
  EXPECT_NE(RunModel(ModelOf(parts), {})[0].find("Initialiser 'labels'"), std::string::npos);
}

// What counts elements or names one, and does not count from the end.
TEST(OnnxImport, LengthsAndIndicesAreChecked) {
  const auto y = ValueInfo("y", kF32, {""});
  const auto reversed =
      ModelOf(OneNode(Node("ReverseSequence", {"x", "i"}, {"y"}, {}, "turn"),
                      {ValueInfo("x", kF32, {"n", 1}), ValueInfo("i", kI64, {1})}, {y}));
  EXPECT_EQ(RunModel(reversed, {"f32[2, 1]{1, 2}", "i64[1]{2}"}), (Texts{"f32[2, 1]{2, 1}"}));
  const auto loss =
      ModelOf(OneNode(Node("NegativeLogLikelihoodLoss", {"x", "i"}, {"y"}, {}, "turn"),
                      {ValueInfo("x", kF32, {1, 2}), ValueInfo("i", kI64, {1})}, {y}));
  EXPECT_EQ(RunModel(loss, {"f32[1, 2]{1, 2}", "i64[1]{1}"}), (Texts{"f32[]{-2}"}));
  for (const int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX}) {
    const std::string index = "i64[1]{" + std::to_string(bad) + "}";
    EXPECT_NE(RunModel(reversed, {"f32[2, 1]{1, 2}", index})[0].find(
                  "The entry of 'sequence_lens' " + std::to_string(bad) +
                  " lies outside [0, 3) (node 'turn')"),
              std::string::npos);
    EXPECT_NE(RunModel(loss, {"f32[1, 2]{1, 2}", index})[0].find(
                  "The target " + std::to_string(bad) + " lies outside [0, 2) (node 'turn')"),
              std::string::npos);
  }
}

// A recurrent layer over an unknown number of steps is a loop; over a known one it is unrolled.
// Both compute the same, for sequences that end early too.
TEST(OnnxImport, RecurrentLayersLoopOrUnroll) {
  const auto values = [](int64_t count, float step) {
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) out.push_back(step * static_cast<float>(i % 7 - 3));
    return out;
  };
  const struct {
    const char* op;
    int64_t gates;
  } cells[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
  for (const auto& [op, gates] : cells) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool has_lengths : {false, true}) {
        const int64_t directions = std::string(direction) == "bidirectional" ? 2 : 1;
        GraphParts parts;
        parts.inputs = {ValueInfo("x", kF32, {"steps", 2, 3})};
        parts.initialisers = {testing::FloatTensor("w", {directions, gates * 2, 3},
                                                   values(directions * gates * 6, 0.1f)),
                              testing::FloatTensor("r", {directions, gates * 2, 2},
                                                   values(directions * gates * 4, 0.2f)),
                              testing::FloatTensor("b", {directions, gates * 4},
                                                   values(directions * gates * 4, 0.05f))};
        std::vector<std::string> names = {"x", "w", "r", "b"};
        if (has_lengths) {
          parts.inputs.push_back(ValueInfo("lengths", testing::kI32, {2}));
          names.push_back("lengths");
        }
        parts.outputs = {ValueInfo("y", kF32, {"", "", "", ""}),
                         ValueInfo("h", kF32, {"", "", ""})};
        parts.nodes = {
            Node(op, names, {"y", "h"}, {testing::TextAttribute("direction", direction)})};
        std::vector<Tensor> inputs = {*graph::ParseTensor(
            "f32[3, 2, 3]{1, -2, 3, 4, 5, -6, 1, 0, 2, -1, 2, 1, 3, 1, 0, 0, 2, 1}")};
        if (has_lengths) inputs.push_back(*graph::ParseTensor("i32[2]{3, 2}"));
        std::vector<std::vector<Tensor>> results;
        for (const bool is_fixed : {false, true}) {
          ImportOptions options;
          if (is_fixed) options.symbol_values = {{"steps", 3}};
          const auto module = Import(ModelOf(parts), nullptr, options);
          ASSERT_TRUE(module.ok()) << module.status().ToString();
          const bool has_loop =
              std::any_of(module->nodes.begin(), module->nodes.end(),
                          [](const graph::Node& node) { return node.op->name == "loop"; });
          EXPECT_EQ(has_loop, !is_fixed);
          const auto got = graph::Interpret(*module, inputs);
          ASSERT_TRUE(got.ok()) << got.status().ToString();
          results.push_back(*got);
        }
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(graph::FormatTensor(results[0][i]), graph::FormatTensor(results[1][i]))
              << op << " " << direction << (has_lengths ? " with lengths" : "");
        }
      }
    }
  }
}

// Mean and spread of many numbers, their range, and that seeds and nodes tell them apart.
TEST(OnnxImport, RandomNumbersAreDistributed) {
  constexpr int64_t kCount = 1 << 14;
  const auto shape = testing::IntsAttribute("shape", {kCount});
  GraphParts parts;
  parts.initialisers = {testing::FloatTensor("p", {kCount}, std::vector<float>(kCount, 0.25f))};
  parts.outputs = {ValueInfo("n", kF32, {kCount}), ValueInfo("m", kF32, {kCount}),
                   ValueInfo("s", kF32, {kCount}), ValueInfo("u", kF32, {kCount}),
                   ValueInfo("b", kF32, {kCount})};
  const auto normal = [&](const char* out, std::vector<Message> more) {
    more.push_back(shape);
    more.push_back(testing::FloatAttribute("mean", 3));
    more.push_back(testing::FloatAttribute("scale", 2));
    return Node("RandomNormal", {}, {out}, more);
  };
  parts.nodes = {normal("n", {}), normal("m", {}),
                 normal("s", {testing::FloatAttribute("seed", 7)}),
                 Node("RandomUniformLike", {"p"}, {"u"},
                      {testing::FloatAttribute("low", -1), testing::FloatAttribute("high", 3)}),
                 Node("Bernoulli", {"p"}, {"b"})};
  const auto module = Import(ModelOf(parts));
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const auto got = graph::Interpret(*module, {});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const auto again = graph::Interpret(*module, {});
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  struct Moments {
    double mean = 0, square = 0, least = 1e9, greatest = -1e9;
  };
  std::vector<Moments> moments;
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_EQ((*got)[i].bytes, (*again)[i].bytes);
    Moments m;
    for (int64_t k = 0; k < kCount; ++k) {
      const double value = graph::LoadFloat((*got)[i], k);
      m.mean += value / kCount;
      m.square += value * value / kCount;
      m.least = std::min(m.least, value);
      m.greatest = std::max(m.greatest, value);
    }
    moments.push_back(m);
  }
  // Five standard errors of 2^14 numbers: 5 / 128 of the deviation for a mean.
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(moments[i].mean, 3, 2 * 5.0 / 128);
    EXPECT_NEAR(moments[i].square - moments[i].mean * moments[i].mean, 4, 4 * 1.5 * 5.0 / 128);
    EXPECT_LT(moments[i].least, 3 - 3 * 2.0);
    EXPECT_GT(moments[i].greatest, 3 + 3 * 2.0);
  }
  EXPECT_NE((*got)[0].bytes, (*got)[1].bytes);
  EXPECT_NE((*got)[0].bytes, (*got)[2].bytes);
  EXPECT_NEAR(moments[3].mean, 1, 4 / std::sqrt(12.0) * 5 / 128);
  EXPECT_GE(moments[3].least, -1);
  EXPECT_LT(moments[3].greatest, 3);
  EXPECT_LT(moments[3].least, -0.99);
  EXPECT_GT(moments[3].greatest, 2.99);
  EXPECT_NEAR(moments[4].mean, 0.25, 0.433 * 5 / 128);
  EXPECT_EQ(moments[4].square, moments[4].mean);  // zeros and ones
}

// The document is the table.
TEST(OnnxImport, DocumentsTheTable) {
  const std::string path = HALYARD_SOURCE_DIR "/docs/onnx.md";
  if (EnvFlag(EnvVar::kBless)) std::ofstream(path) << FormatSupportedOps();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), FormatSupportedOps()) << "Run compiler_tests with HALYARD_BLESS=1.";
}

}  // namespace
}  // namespace halyard::onnx
