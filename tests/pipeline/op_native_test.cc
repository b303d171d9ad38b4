// SPDX-License-Identifier: Apache-2.0
// Every op example through the whole compiler and runtime: many examples as one graph, compiled for
// each instruction set that this machine runs, executed on the CPU device as it is and in its
// discrete mode, and for the Vulkan device that it has, over poisoned outputs, against the
// reference evaluation.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "compiler/graph/builder.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/loop/lowering.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/device_target.h"
#include "runtime/instance.h"
#include "tests/compiler/ops/op_examples.h"
#include "tests/pipeline/run_program.h"

namespace halyard::pipeline {
namespace {

using graph::OpExample;
using graph::Tensor;

// Examples whose nodes stand side by side in one graph.
struct Batch {
  graph::Module module;
  std::vector<const OpExample*> examples;
  std::vector<std::vector<Tensor>>
      wanted;  // at each size of their symbols, of all results, in order
  std::vector<const OpExample*> example_of;  // by result
};

// Sizes of one module in another. Those of examples are numbers and symbols.
std::vector<Expr> Move(ExprArena& from, ExprArena& to, const std::vector<Expr>& exprs) {
  std::vector<Expr> moved;
  for (const Expr expr : exprs) {
    const std::optional<int64_t> number = from.AsConst(expr);
    moved.push_back(number ? to.Const(*number) : to.Dim(from.SymbolName(expr)));
  }
  return moved;
}
graph::Attribute Move(ExprArena& from, ExprArena& to, const graph::Attribute& attribute) {
  const auto* exprs = std::get_if<std::vector<Expr>>(&attribute);
  return exprs == nullptr ? attribute : Move(from, to, *exprs);
}

// At the first size of an example's symbol, the next, ...
const std::vector<Tensor>& InputsAt(const OpExample& example, size_t size) {
  return size == 0 ? example.inputs : example.further_inputs[size - 1];
}

void AddExample(Batch& batch, graph::Builder& builder, const OpExample& example,
                std::vector<graph::ValueId>& results) {
  Result<graph::Module> source = graph::ParseModule(example.text);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  std::vector<graph::ValueId> operands;
  for (const graph::ValueId parameter : source->entry().parameters) {
    const graph::TensorType& given = source->values[parameter].type;
    const graph::TensorType type{given.dtype, Move(source->exprs, batch.module.exprs, given.dims)};
    const Result<graph::ValueId> value =
        builder.AddParameter(fmt::format("x{}", batch.module.values.size()), type);
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    operands.push_back(*value);
  }
  ASSERT_EQ(source->entry().nodes.size(), 1u);
  const graph::Node& node = source->nodes[source->entry().nodes[0]];
  graph::Attributes attributes;
  for (const auto& [name, attribute] : node.attributes) {
    attributes[name] = Move(source->exprs, batch.module.exprs, attribute);
  }
  builder.SetNodeName(fmt::format("{}_{}", example.op, batch.examples.size()));
  Result<std::vector<graph::ValueId>> made =
      builder.Add(example.op, operands, std::move(attributes));
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  results.insert(results.end(), made->begin(), made->end());
  batch.wanted.resize(example.further_inputs.size() + 1);
  for (size_t size = 0; size < batch.wanted.size(); ++size) {
    Result<std::vector<Tensor>> wanted = graph::Interpret(*source, InputsAt(example, size));
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    std::move(wanted->begin(), wanted->end(), std::back_inserter(batch.wanted[size]));
  }
  batch.example_of.insert(batch.example_of.end(), made->size(), &example);
  batch.examples.push_back(&example);
}

// What a result may err by, relative. exp through Vulkan is the device's own exp2, whose bound is
// 3 + 2 |y| ULP, of y = x * log2(e) rounded: examples lie in [-9, 9], so 29 ULP and 5 of the
// product.
double RelativeTolerance(const OpExample& example, const std::string& path) {
  if (path.starts_with("vulkan") && example.op == "exp") {
    return std::max(example.relative, 34 * 0x1p-23);
  }
  return example.relative;
}

// Runs the program at one size of the symbols and compares every result.
void RunAndCompare(const Batch& batch, size_t size, program::Program program,
                   const std::string& path) {
  std::vector<Tensor> inputs, got = batch.wanted[size];
  for (const OpExample* example : batch.examples) {
    const std::vector<Tensor>& given = InputsAt(*example, size);
    inputs.insert(inputs.end(), given.begin(), given.end());
  }
  const Status ran = RunProgram(std::move(program), path, inputs, got);
  ASSERT_TRUE(ran.ok()) << ran.ToString();
  for (size_t i = 0; i < got.size(); ++i) {
    const OpExample& example = *batch.example_of[i];
    const Status same = graph::CompareTensors(batch.wanted[size][i], got[i], example.absolute,
                                              RelativeTolerance(example, path));
    EXPECT_TRUE(same.ok()) << example.name << " at size " << size << " on " << path << ": "
                           << same.ToString();
  }
}

// Compiles the examples for one device and runs them on it, in each of the modes that `paths` name.
void RunExamples(const std::string& name, const Target& target,
                 std::initializer_list<const char*> paths, std::vector<OpExample> examples) {
  // A graph of this many examples compiles fast and still shows a failure of the planner.
  constexpr size_t kPerGraph = 400;
  size_t next = 0, native = 0;
  while (next < examples.size()) {
    Batch batch;
    graph::AddGraph(batch.module, "main");
    graph::Builder builder(batch.module);
    std::vector<graph::ValueId> results;
    for (; next < examples.size() && batch.examples.size() < kPerGraph; ++next) {
      // The interpreter is tested elsewhere.
      Result<graph::Module> source = graph::ParseModule(examples[next].text);
      ASSERT_TRUE(source.ok());
      if (!loop::CanLower(*source, source->nodes[source->entry().nodes[0]]).ok()) continue;
      AddExample(batch, builder, examples[next], results);
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(builder.SetResults(results).ok());
    native += batch.examples.size();
    const std::string text = graph::PrintModule(batch.module);
    CompileRequest request;
    request.graph_text = text;
    request.options.tune = false;
    request.options.allow_fallback = false;
    program::Device compiled;
    compiled.name = name;
    compiled.target = target;
    request.devices.push_back(compiled);
    Result<CompileResult> result = pipeline::Compile(request);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    for (const char* path : paths) {
      for (size_t size = 0; size < batch.wanted.size(); ++size) {
        RunAndCompare(batch, size, result->program, path);
      }
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(native, examples.size() * 9 / 10);
}

class OpNative : public ::testing::TestWithParam<const char*> {};

TEST_P(OpNative, EveryExampleMatchesTheReference) {
  Result<std::shared_ptr<runtime::Instance>> instance = runtime::Instance::Create({});
  ASSERT_TRUE(instance.ok());
  Result<Ref<hal::Device>> device = (*instance)->OpenDevice("cpu:0");
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  Result<Target> target = ParseTarget(GetParam());
  ASSERT_TRUE(target.ok());
  target->worker_count = 3;
  if ((target->cpu_features & ~runtime::TargetOf(**device).cpu_features) != 0) {
    GTEST_SKIP() << "This machine does not run " << GetParam() << ".";
  }
  RunExamples("cpu:0", *target, {"cpu:0", "cpu:0?discrete=7"}, graph::AllOpExamples(11));
}

// Kernels for any value of a symbol: where loops end, vectors have a rest and addresses come from
// is only known when they run. Examples of one graph have equally many sizes, which their symbols
// share.
TEST(OpNativeOpen, EveryExampleMatchesTheReferenceAtEverySize) {
  Result<std::shared_ptr<runtime::Instance>> instance = runtime::Instance::Create({});
  ASSERT_TRUE(instance.ok());
  Result<Ref<hal::Device>> device = (*instance)->OpenDevice("cpu:0");
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  std::vector<OpExample> of_two_sizes, of_three_sizes;
  for (OpExample& example : graph::OpenOpExamples(13)) {
    (example.further_inputs.size() == 1 ? of_two_sizes : of_three_sizes)
        .push_back(std::move(example));
  }
  RunExamples("cpu:0", runtime::TargetOf(**device), {"cpu:0"}, std::move(of_two_sizes));
  RunExamples("cpu:0", runtime::TargetOf(**device), {"cpu:0"}, std::move(of_three_sizes));
}

// In parts, because a software device takes minutes for all.
constexpr size_t kVulkanParts = 4;

class OpVulkan : public ::testing::TestWithParam<size_t> {};

TEST_P(OpVulkan, EveryExampleMatchesTheReference) {
  Result<std::shared_ptr<runtime::Instance>> instance = runtime::Instance::Create({});
  ASSERT_TRUE(instance.ok());
  Result<Ref<hal::Device>> device = (*instance)->OpenDevice("vulkan:0");
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  std::vector<graph::OpExample> all = graph::AllOpExamples(11), part;
  for (size_t i = GetParam(); i < all.size(); i += kVulkanParts) part.push_back(std::move(all[i]));
  RunExamples("vulkan:0", runtime::TargetOf(**device), {"vulkan:0"}, std::move(part));
}

INSTANTIATE_TEST_SUITE_P(Parts, OpVulkan, ::testing::Range<size_t>(0, kVulkanParts));

INSTANTIATE_TEST_SUITE_P(Targets, OpNative,
                         ::testing::Values("cpu-sse4.2", "cpu-avx2", "cpu-avx512"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace halyard::pipeline
