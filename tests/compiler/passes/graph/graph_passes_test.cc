// SPDX-License-Identifier: Apache-2.0
// Golden tests of the graph passes. A .hy file beside this one names passes in its first line, then
// holds a module and, after a line "// expected", what the passes make of it. HALYARD_BLESS=1
// rewrites the expectation. Every file is also run before and after on random inputs, so a golden
// cannot bless a wrong rewrite.
#include "compiler/passes/graph_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/env.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/graph/printer.h"
#include "compiler/graph/verifier.h"
#include "tests/compiler/ops/op_examples.h"

namespace halyard::graph {
namespace {

constexpr std::string_view kExpected = "// expected\n";

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<std::filesystem::path> Goldens() {
  std::vector<std::filesystem::path> paths;
  const std::string folder = std::string(HALYARD_SOURCE_DIR) + "/tests/compiler/passes/graph";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".hy") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Every symbol is 4, which all the goldens' constraints admit.
std::vector<Tensor> RandomInputs(const Module& module, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  std::vector<Tensor> inputs;
  for (const ValueId parameter : module.entry().parameters) {
    const TensorType& type = module.values[parameter].type;
    std::vector<int64_t> dims;
    for (const Expr dim : type.dims) {
      dims.push_back(*module.exprs.Evaluate(dim, [](Expr) { return std::optional<int64_t>(4); }));
    }
    Tensor tensor = *MakeTensor(type.dtype, dims);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if (IsFloat(type.dtype)) {
        StoreFloat(tensor, i, real(random));
      } else {
        StoreInt(tensor, i, static_cast<int64_t>(random() % 4));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Of tensors whose dtype narrow-io changed: rounded as a caller does, or widened to compare.
Tensor As(DType dtype, const Tensor& tensor) {
  if (tensor.dtype == dtype) return tensor;
  Tensor out = *MakeTensor(dtype, tensor.dims);
  for (int64_t i = 0; i < out.elements(); ++i) StoreFloat(out, i, LoadFloat(tensor, i));
  return out;
}

TEST(GraphPassesTest, GoldensHoldAndKeepTheMeaning) {
  const std::vector<std::filesystem::path> paths = Goldens();
  EXPECT_GE(paths.size(), 8u);
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    const std::string content = ReadFile(path);
    const std::string first_line = content.substr(0, content.find('\n'));
    const size_t split = content.find(kExpected);
    const std::string before = content.substr(0, split);
    Result<Module> original = ParseModule(before);
    ASSERT_TRUE(original.ok()) << original.status().ToString();
    Result<Module> module = ParseModule(before);
    std::stringstream names(first_line.substr(std::string_view("// passes: ").size()));
    bool is_exact = true, is_narrow = false;
    for (std::string name; names >> name;) {
      const GraphPass* pass = FindGraphPass(name);
      ASSERT_NE(pass, nullptr) << name;
      is_narrow |= name == "narrow-floats";
      is_exact &= name != "fold-affine" && name != "fuse-attention" && !is_narrow;
      const Status ran = pass->run(*module);
      ASSERT_TRUE(ran.ok()) << ran.ToString();
      const Status verified = VerifyModule(*module);
      ASSERT_TRUE(verified.ok()) << name << ": " << verified.ToString() << PrintModule(*module);
    }
    const std::string after = PrintModule(*module);
    EXPECT_EQ(PrintModule(*ParseModule(after)), after);
    if (EnvFlag(EnvVar::kBless)) {
      std::ofstream(path) << before << kExpected << after;
    } else {
      ASSERT_NE(split, std::string::npos) << "Run with HALYARD_BLESS=1 to write the expectation.";
      EXPECT_EQ(content.substr(split + kExpected.size()), after);
    }
    for (uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<Tensor> inputs = RandomInputs(*original, seed);
      Result<std::vector<Tensor>> wanted = Interpret(*original, inputs);
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i] = As(module->values[module->entry().parameters[i]].type.dtype, inputs[i]);
      }
      Result<std::vector<Tensor>> got = Interpret(*module, inputs);
      ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      ASSERT_EQ(wanted->size(), got->size());
      for (size_t i = 0; i < wanted->size(); ++i) {
        // Inexact passes: sums of a few dozen terms of size 1 in f32, each rounded at 2^-24, or in
        // f16 at 2^-11.
        const double tolerance = is_exact ? 0 : is_narrow ? 2e-2 : 2e-5;
        const Status same =
            CompareTensors((*wanted)[i], As((*wanted)[i].dtype, (*got)[i]), tolerance, tolerance);
        EXPECT_TRUE(same.ok()) << same.ToString();
      }
    }
  }
}

TEST(GraphPassesTest, TheTableHasEveryPassOnce) {
  for (const GraphPass& pass : AllGraphPasses()) EXPECT_EQ(FindGraphPass(pass.name), &pass);
  EXPECT_EQ(FindGraphPass("no-such-pass"), nullptr);
}

// All passes over the whole op matrix: nothing that they may touch changes a value.
TEST(GraphPassesTest, ThePipelineKeepsEveryOpExample) {
  for (const OpExample& example : AllOpExamples(3)) {
    if (example.dtype != DType::kF32 && example.dtype != DType::kI64) continue;
    SCOPED_TRACE(example.name);
    Result<Module> original = ParseModule(example.text);
    Result<Module> module = ParseModule(example.text);
    ASSERT_TRUE(module.ok());
    for (const GraphPass& pass : AllGraphPasses()) {
      if (pass.name.starts_with("narrow-")) continue;  // only where rounding is asked for
      ASSERT_TRUE(pass.run(*module).ok()) << pass.name;
      ASSERT_TRUE(VerifyModule(*module).ok()) << pass.name;
    }
    Result<std::vector<Tensor>> wanted = Interpret(*original, example.inputs);
    Result<std::vector<Tensor>> got = Interpret(*module, example.inputs);
    ASSERT_TRUE(wanted.ok() && got.ok());
    for (size_t i = 0; i < wanted->size(); ++i) {
      EXPECT_TRUE(CompareTensors((*wanted)[i], (*got)[i], 0, 0).ok());
    }
  }
}

}  // namespace
}  // namespace halyard::graph
