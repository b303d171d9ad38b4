// SPDX-License-Identifier: Apache-2.0
// Builder, text form, verifier and interpreter of Graph IR.
#include <gtest/gtest.h>

#include <random>

#include "compiler/graph/builder.h"
#include "compiler/graph/constants.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/graph/uses.h"
#include "compiler/graph/verifier.h"

namespace halyard::graph {
namespace {

constexpr std::string_view kLoopText = R"(symbol n in [1, 64] divisor 2
graph main(%x: f32[n, 3], %count: i64[]) -> (%last, "all of them" = %stack) {
  %one = constant @step f32[]{1}
  %t = symbolic {dtype = i64, shape = [], values = [4]} : i64[]
  %last, %stack = loop %t, _, %x, %one {carried = 1, trips = [4]} [body] : f32[n, 3], f32[4, n, 3] "looped"
}
graph body(%i: i64[], %c: f32[n, 3], %s: f32[]) -> (%go, %next, %next) {
  %go = constant bool[]{true}
  %wide = broadcast %s {shape = [n, 3]} : f32[n, 3]
  %next = add %c, %wide : f32[n, 3]
}
)";

Module Parse(std::string_view text) {
  Result<Module> module = ParseModule(text);
  EXPECT_TRUE(module.ok()) << module.status().ToString();
  return module.ok() ? std::move(*module) : Module();
}

TEST(TextTest, RoundTripsLoopsSymbolsAndNames) {
  Module module = Parse(kLoopText);
  EXPECT_EQ(PrintModule(module), kLoopText);
  EXPECT_TRUE(VerifyModule(module).ok()) << VerifyModule(module).ToString();
  Compact(module);
  EXPECT_EQ(PrintModule(module), kLoopText);
  EXPECT_TRUE(VerifyModule(module).ok());
}

TEST(TextTest, OddNamesAndLargeConstantsRoundTrip) {
  Module module;
  Builder builder(module);
  const Expr dim = module.exprs.Dim("batch size");
  const ValueId x = *builder.AddParameter("a \"b\"\\\n%{}", {DType::kF16, {dim}});
  std::vector<double> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  ASSERT_TRUE(builder.ConstantOf(TensorOfFloats(DType::kF32, {100}, values), "/w.0//x").ok());
  builder.SetNodeName("node \"1\"");
  const ValueId y = *builder.Unary("exp", x);
  builder.Rename(y, "/y//z");
  ASSERT_TRUE(builder.SetResults({y}).ok());
  const std::string text = PrintModule(module);
  Module read = Parse(text);
  EXPECT_EQ(PrintModule(read), text);
  EXPECT_NE(text.find("#"), std::string::npos);
  // The data is elsewhere: asked for, it is an error; with a resolver, it is there.
  ASSERT_EQ(read.constants.size(), 1u);
  EXPECT_EQ(ReadConstant(read.constants[0]).status().code(), StatusCode::kNotFound);
  Result<Module> resolved =
      ParseModule(text,
                  [&](uint64_t hash, DType,
                      const std::vector<int64_t>&) -> Result<std::shared_ptr<const ByteSource>> {
                    EXPECT_EQ(hash, module.constants[0].content_hash);
                    return module.constants[0].bytes;
                  });
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(ReadConstant(resolved->constants[0])->bytes, ReadConstant(module.constants[0])->bytes);
}

// Each node in a module of its own computes what it computes in place.
TEST(TextTest, ANodeStandsAlone) {
  const Module module = Parse(R"(
graph main_2(%operand0: f32[2], %c: bool[]) -> (%y, %z) {
  %y = add %operand0, %operand0
  %z = if %c, %y [main, other]
}
graph main(%result0: f32[2]) -> (%operand1) { %operand1 = neg %result0 }
graph other(%b: f32[2]) -> (%b) {}
)");
  const Tensor x = TensorOfFloats(DType::kF32, {2}, std::vector<double>{1, 2});
  const Tensor c = TensorOfInts(DType::kBool, {}, std::vector<int64_t>{1});
  const Result<std::string> sum = PrintNodeModule(module, module.entry().nodes[0]);
  const Result<std::string> branch = PrintNodeModule(module, module.entry().nodes[1]);
  ASSERT_TRUE(sum.ok() && branch.ok());
  const Result<std::vector<Tensor>> doubled = Interpret(Parse(*sum), std::vector<Tensor>{x, x});
  ASSERT_TRUE(doubled.ok()) << doubled.status().ToString();
  EXPECT_EQ(FormatTensor((*doubled)[0]), "f32[2]{2, 4}");
  const Result<std::vector<Tensor>> chosen = Interpret(Parse(*branch), std::vector<Tensor>{c, x});
  ASSERT_TRUE(chosen.ok()) << chosen.status().ToString();
  EXPECT_EQ(FormatTensor((*chosen)[0]), "f32[2]{-1, -2}");
}

TEST(TextTest, RejectsIllFormedTextWithItsPlace) {
  struct Row {
    std::string_view text, message;
  };
  const Row kRows[] = {
      {"", "a module has a graph"},
      {"graph g() -> (%x) {}", "'%x' is not defined"},
      {"graph g(%x: f32[2]) -> (%y) { %y = nope %x }", "'nope' is not an op"},
      {"graph g(%x: f32[2]) -> (%y) { %y = add %x, %y }", "'%y' is not defined"},
      {"graph g(%x: f32[2], %z: f32[3]) -> (%y) { %y = add %x, %z }", "differ in shape"},
      {"graph g(%x: f32[2]) -> (%y) { %y = neg %x : f32[3] }", "inference says f32[2]"},
      {"graph g(%x: f32[2]) -> (%y) { %y = neg %x, %x }", "takes 1 operand; it has 2"},
      {"graph g(%x: f32[2]) -> (%y) { %y = neg %x {axis = 1} }", "no attribute 'axis'"},
      {"graph g(%x: f32[2]) -> (%x) { %x = neg %x }", "two values '%x'"},
      {"graph g(%x: f32[-1]) -> () {}", "-1"},
      {"graph g(%c: bool[]) -> () { %r = if %c [g, g] }", "contains itself"},
      {"graph g(%c: bool[]) -> () { %r = if %c [h, h] } graph h() -> () {}",
       "graph 'h' is the region of another node"},
      {"graph g() -> () {} graph h() -> () {}", "graph 'h' is the region of no node"},
      {"graph \"\"() -> () {}", "a graph has a name"},
      {"graph g(%x: f32[4611686018427387904, 4]) -> () {}", "2^63"},
      {"graph g() -> (%c) { %c = constant f32[1000000000]{1} }", "at most"},
      {"graph g() -> (%c) { %c = constant u8[1]{256} }", "not a value of dtype u8"},
      {"graph g(%x: f32[2]) -> (%y) { %y = reshape %x {shape = [3]} }", "2 elements"},
      {"graph g(%x: f32[2]) -> (%y) { %y = slice %x {starts = [1], sizes = [2], steps = [1]} }",
       "leave axis 0"},
      {"graph g(%x: f32[2]) -> (%y) { %y = neg %x ", "does not end"},
  };
  for (const Row& row : kRows) {
    const Result<Module> module = ParseModule(row.text);
    ASSERT_FALSE(module.ok()) << row.text;
    EXPECT_NE(module.status().ToString().find(row.message), std::string::npos)
        << row.text << "\n"
        << module.status().ToString();
  }
}

TEST(TextTest, MutatedTextNeverCrashes) {
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(kLoopText);
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(32 + random() % 95);
          break;
        case 1:
          text.erase(at, 1 + random() % 4);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 9));
      }
    }
    Result<Module> module = ParseModule(text);
    if (!module.ok()) continue;
    ++accepted;
    EXPECT_TRUE(VerifyModule(*module).ok()) << text << VerifyModule(*module).ToString();
    const std::string once = PrintModule(*module);
    EXPECT_EQ(PrintModule(Parse(once)), once);
  }
  EXPECT_GT(accepted, 50);
}

TEST(InterpreterTest, RunsLoopsAndBindsSymbols) {
  const Module module = Parse(kLoopText);
  const Tensor x = TensorOfFloats(DType::kF32, {2, 3}, std::vector<double>{0, 1, 2, 3, 4, 5});
  const Tensor count = TensorOfInts(DType::kI64, {}, std::vector<int64_t>{4});
  const Result<std::vector<Tensor>> results = Interpret(module, std::vector<Tensor>{x, count});
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  EXPECT_EQ(FormatTensor((*results)[0]), "f32[2, 3]{4, 5, 6, 7, 8, 9}");
  EXPECT_EQ((*results)[1].dims, (std::vector<int64_t>{4, 2, 3}));
  EXPECT_EQ(LoadFloat((*results)[1], 0), 1);
  const Tensor odd = *MakeTensor(DType::kF32, {3, 3});
  EXPECT_EQ(Interpret(module, std::vector<Tensor>{odd, count}).status().message(),
            "Dimension 0 of 'x' is 3; 'n' lies in [1, 64] and is a multiple of 2.");
}

TEST(InterpreterTest, ChoosesABranch) {
  const Module module = Parse(R"(
graph main(%c: bool[], %x: f32[2]) -> (%y) { %y = if %c, %x [left, right] }
graph left(%a: f32[2]) -> (%la) { %la = neg %a }
graph right(%b: f32[2]) -> (%b) {}
)");
  const Tensor x = TensorOfFloats(DType::kF32, {2}, std::vector<double>{1, 2});
  for (const int64_t flag : {0, 1}) {
    const Tensor c = TensorOfInts(DType::kBool, {}, std::vector<int64_t>{flag});
    const Result<std::vector<Tensor>> results = Interpret(module, std::vector<Tensor>{c, x});
    ASSERT_TRUE(results.ok()) << results.status().ToString();
    EXPECT_EQ(LoadFloat((*results)[0], 1), flag != 0 ? -2 : 2);
  }
}

TEST(InterpreterTest, AnAssumptionThatDoesNotHoldIsAnError) {
  const Module module = Parse("graph g(%a: f32[n], %b: f32[m]) -> (%c) { %c = add %a, %b }");
  EXPECT_EQ(module.assumed_equal.size(), 1u);
  const Tensor two = *MakeTensor(DType::kF32, {2});
  const Tensor five = *MakeTensor(DType::kF32, {5});
  EXPECT_TRUE(Interpret(module, std::vector<Tensor>{two, two}).ok());
  const Status status = Interpret(module, std::vector<Tensor>{two, five}).status();
  EXPECT_NE(status.message().find("must be equal"), std::string::npos) << status.ToString();
}

// What would be read or written beside a tensor is refused once the symbols are known.
TEST(InterpreterTest, WhatMustFitIsAssumed) {
  const struct {
    const char* inputs;
    const char* node;
    int64_t least;  // size of n that does
  } cases[] = {
      {"%x: f32[n]", "slice %x {starts = [n - 3], sizes = [3], steps = [1]}", 3},
      {"%x: f32[n]", "slice %x {starts = [2], sizes = [n - 4], steps = [1]}", 4},
      {"%x: f32[n]", "slice %x {starts = [3], sizes = [2], steps = [-3]}", 4},
      {"%x: f32[n]", "pad %x {low = [2], high = [0], mode = \"reflect\"}", 3},
      {"%x: f32[n]", "pad %x {low = [0], high = [1], mode = \"edge\"}", 1},
      {"%x: f32[n]", "pad %x {low = [0], high = [1], mode = \"wrap\"}", 1},
      {"%x: f32[n]", "pad %x {low = [n - 2], high = [0], mode = \"constant\"}", 2},
      {"%x: f32[n, 2], %i: i64[3, 2]", "gather_elements %x, %i {axis = 1}", 3},
      {"%x: f32[n, 2], %i: i64[3, 2], %u: f32[3, 2]", "scatter_elements %x, %i, %u {axis = 1}", 3},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.node);
    const Module module = Parse(fmt::format("graph g({}) -> (%y) {{ %y = {} }}", c.inputs, c.node));
    EXPECT_EQ(module.assumed_at_most.size(), 1u);
    const size_t inputs_given = module.entry().parameters.size();
    for (int64_t n = 0; n < c.least + 3; ++n) {
      std::vector<Tensor> inputs = {*MakeTensor(DType::kF32, {n})};
      if (inputs_given > 1) {
        inputs = {*MakeTensor(DType::kF32, {n, 2}), *MakeTensor(DType::kI64, {3, 2})};
      }
      if (inputs_given > 2) inputs.push_back(*MakeTensor(DType::kF32, {3, 2}));
      const Status status = Interpret(module, inputs).status();
      if (n >= c.least) {
        EXPECT_TRUE(status.ok()) << n << ": " << status.ToString();
      } else {
        EXPECT_NE(status.message().find("must be at most"), std::string::npos)
            << n << ": " << status.ToString();
      }
    }
  }
  // What is proven needs no assumption.
  for (const char* node : {"slice %x {starts = [0], sizes = [n], steps = [1]}",
                           "slice %x {starts = [n - 1], sizes = [n], steps = [-1]}",
                           "pad %x {low = [n], high = [0], mode = \"constant\"}"}) {
    EXPECT_TRUE(Parse(fmt::format("graph g(%x: f32[n]) -> (%y) {{ %y = {} }}", node))
                    .assumed_at_most.empty())
        << node;
  }
}

TEST(InterpreterTest, NonzeroBindsItsSymbol) {
  const Module module = Parse(R"(
graph g(%x: f32[4]) -> (%w) {
  %i = nonzero %x {count = [found]}
  %f = reshape %i {shape = [found]}
  %w = gather %x, %f {axis = 0}
})");
  const Tensor x = TensorOfFloats(DType::kF32, {4}, std::vector<double>{0, 3, 0, 5});
  const Result<std::vector<Tensor>> results = Interpret(module, std::vector<Tensor>{x});
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  EXPECT_EQ(FormatTensor((*results)[0]), "f32[2]{3, 5}");
}

TEST(BuilderTest, EqualConstantsAreStoredOnce) {
  Module module;
  Builder builder(module);
  const ValueId a = *builder.ScalarFloat(DType::kF32, 1);
  const ValueId b = *builder.ScalarFloat(DType::kF32, 1);
  EXPECT_NE(a, b);
  EXPECT_EQ(module.constants.size(), 1u);
  ASSERT_TRUE(builder.ScalarInt(DType::kI32, 0x3f800000).ok());  // the same bytes, another dtype
  EXPECT_EQ(module.constants.size(), 2u);
}

// The shape code that exporters write: everything vanishes into expressions.
TEST(BuilderTest, ShapeArithmeticIsFollowed) {
  Module module = Parse(R"(
graph g(%x: f32[n, s, 768]) -> (%r) {
  %shape = shape_of %x
  %zero = constant i64[1]{0}
  %n = gather %shape, %zero {axis = 0}
  %minus = constant i64[1]{-1}
  %last = gather %shape, %minus {axis = 0}
  %twelve = constant i64[1]{12}
  %head = div %last, %twelve
  %all = concat %n, %minus, %twelve, %head {axis = 0}
  %none = constant i64[4]{-1, -1, -1, -1}
  %is_free = eq %all, %none
  %ones = constant i64[4]{1, 1, 1, 1}
  %chosen = select %is_free, %ones, %all
  %r = cast %chosen {dtype = i32}
})");
  const Value& value = module.values[module.entry().results[0]];
  ASSERT_TRUE(value.elements.has_value());
  EXPECT_EQ(module.exprs.Format((*value.elements)[0]), "n");
  EXPECT_EQ(module.exprs.AsConst((*value.elements)[1]), 1);
  EXPECT_EQ(module.exprs.AsConst((*value.elements)[3]), 64);
}

TEST(VerifierTest, FindsWhatPassesMightBreak) {
  struct Row {
    void (*breaks)(Module&);
    std::string_view message;
  };
  const Row kRows[] = {
      {[](Module& m) {
         m.nodes[m.entry().nodes[2]].operands[2] = m.nodes[m.entry().nodes[2]].results[0];
       },
       "not defined before it"},
      {[](Module& m) { m.values[m.entry().parameters[0]].name = "last"; }, "empty or taken"},
      {[](Module& m) { m.nodes[m.entry().nodes[2]].op = nullptr; }, "no op of the catalogue"},
      {[](Module& m) { m.values[m.entry().results[0]].type.dtype = DType::kF64; },
       "inference says"},
      {[](Module& m) { m.nodes[m.entry().nodes[2]].attributes.erase("carried"); }, "ill-formed"},
      {[](Module& m) { m.entry().nodes.push_back(m.entry().nodes[0]); }, "stands in two places"},
      {[](Module& m) { m.nodes[m.entry().nodes[2]].regions[0] = 0; }, "has region 0"},
      {[](Module& m) { m.nodes[m.entry().nodes[2]].is_dead = true; }, "does not define"},
      {[](Module& m) { m.entry().result_names.pop_back(); }, "names for them"},
      {[](Module& m) { m.graphs[1].name = "main"; }, "empty or taken"},
      {[](Module& m) { m.values[m.entry().results[1]].producer = 0; },
       "does not name its producer"},
      {[](Module& m) { m.constants[0].dims = {3}; }, "does not have its 12 bytes"},
      {[](Module& m) { std::swap(m.entry().nodes[0], m.entry().nodes[2]); }, "not defined before"},
  };
  for (const Row& row : kRows) {
    Module module = Parse(kLoopText);
    ASSERT_TRUE(VerifyModule(module).ok());
    row.breaks(module);
    const Status status = VerifyModule(module);
    EXPECT_NE(status.ToString().find(row.message), std::string::npos) << row.message << "\n"
                                                                      << status.ToString();
  }
}

TEST(TensorTest, NarrowFloatsRoundToNearestEven) {
  struct Row {
    DType dtype;
    double value;
    std::string_view text;
  };
  const Row kRows[] = {
      {DType::kF16, 65504, "65504"},  {DType::kF16, 65519.99, "65504"},
      {DType::kF16, 65520, "inf"},    {DType::kF16, 5.960464477539063e-08, "6e-08"},
      {DType::kF16, 2.98e-08, "0"},   {DType::kBF16, 3.3895313892515355e38, "3.39e+38"},
      {DType::kF8E4M3, 464, "448"},   {DType::kF8E4M3, 465, "nan"},
      {DType::kF8E5M2, 61440, "inf"}, {DType::kF8E5M2, 57344, "6e+04"},
  };
  for (const Row& row : kRows) {
    const Tensor tensor = TensorOfFloats(row.dtype, {}, std::vector<double>{row.value});
    const Result<Tensor> expected =
        ParseTensor(fmt::format("{}[]{{{}}}", FormatDType(row.dtype), row.text));
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(FormatTensor(tensor), FormatTensor(*expected)) << row.value;
  }
}

TEST(TensorTest, EveryBitPatternOfNarrowTypesRoundTripsThroughText) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8,
                            DType::kI4, DType::kU4, DType::kU16}) {
    const int64_t count = int64_t{1} << BitWidth(dtype);
    Tensor tensor = *MakeTensor(dtype, {count});
    for (int64_t i = 0; i < count; ++i) {
      switch (BitWidth(dtype)) {
        case 4:
          tensor.bytes[static_cast<size_t>(i / 2)] |= static_cast<uint8_t>(i << (i % 2 * 4));
          break;
        case 8:
          tensor.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
          break;
        default:
          tensor.bytes[static_cast<size_t>(2 * i)] = static_cast<uint8_t>(i);
          tensor.bytes[static_cast<size_t>(2 * i + 1)] = static_cast<uint8_t>(i >> 8);
      }
    }
    const Result<Tensor> read = ParseTensor(FormatTensor(tensor));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_TRUE(*read == tensor) << FormatDType(dtype);
  }
}

}  // namespace
}  // namespace halyard::graph
