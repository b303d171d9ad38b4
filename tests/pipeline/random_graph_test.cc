// SPDX-License-Identifier: Apache-2.0
// Random graphs through the whole compiler and runtime against the reference evaluation: for the
// CPU as it is and in its discrete mode, on the stand-in for libcuda, and for the Vulkan device
// that the machine has. Every second graph takes schedules by chance, every
// third one is compiled without one of the optimisations; now and then a dim is a symbol, and the
// program runs at two sizes.
//
// Values are within a few units and pass through at most 20 nodes, none of which enlarges an error
// by more than the square root of its sum's length (at most 128): 1e-4 is about 800 ULP.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/printer.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/device_target.h"
#include "runtime/instance.h"
#include "tests/codegen/spirv/spirv_val.h"
#include "tests/compiler/ops/op_examples.h"
#include "tests/drivers/cuda/fake_knobs.h"
#include "tests/pipeline/random_graph.h"
#include "tests/pipeline/run_program.h"

namespace halyard::pipeline {
namespace {

constexpr double kTolerance = 1e-4;

// HALYARD_TEST_GRAPHS=FIRST:COUNT runs others than CI does.
std::pair<uint32_t, uint32_t> Seeds(uint32_t count) {
  const char* asked = std::getenv("HALYARD_TEST_GRAPHS");
  unsigned first = 0, number = count;
  if (asked != nullptr && std::sscanf(asked, "%u:%u", &first, &number) != 2) {
    ADD_FAILURE() << "HALYARD_TEST_GRAPHS is '" << asked << "', not FIRST:COUNT";
  }
  return {first, number};
}

// Lets chance decide every race, so that schedules run that the rank puts last.
class RandomRaces : public Measurer {
 public:
  explicit RandomRaces(uint32_t seed) : random_(seed) {}
  Result<std::vector<double>> Measure(uint32_t, std::span<const Candidate> candidates) override {
    std::vector<double> seconds;
    for (size_t i = 0; i < candidates.size(); ++i) seconds.push_back(1e-6 * (1 + random_() % 1000));
    return seconds;
  }
  std::optional<std::string> FindChoice(uint32_t, uint64_t) override { return std::nullopt; }
  void StoreChoice(uint32_t, uint64_t, std::string_view, double) override {}

 private:
  std::mt19937 random_;
};

// In every third graph one optimisation is left out; "": none.
std::string PassToDisable(uint32_t seed) {
  if (seed % 3 != 0) return "";
  std::vector<std::string> names;
  for (const Pass& pass : Passes()) {
    if (pass.can_disable) names.emplace_back(pass.name);
  }
  return names[seed / 3 % names.size()];
}

void RunSeed(uint32_t seed, const program::Device& device, const std::vector<std::string>& paths) {
  const graph::RandomGraph random = graph::MakeRandomGraph(seed);
  const std::string text = graph::PrintModule(random.module);
  CompileRequest request;
  request.graph_text = text;
  for (const graph::Constant& constant : random.module.constants) {
    request.graph_constants[fmt::format("{:016x}", constant.content_hash)] = constant.bytes;
  }
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  request.devices = {device};
  const drivers::cuda::ScopedVariable without{"HALYARD_DISABLE_PASS", PassToDisable(seed)};
  SCOPED_TRACE("without pass '" + PassToDisable(seed) + "'");
  RandomRaces races(seed);
  request.measurer = &races;
  request.options.tune = seed % 2 == 1;
  request.options.allow_fallback = false;
  Result<CompileResult> compiled = pipeline::Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  for (const program::Executable& executable : compiled->program.executables) {
    if (device.target.kind != TargetKind::kVulkan) continue;
    EXPECT_EQ(halyard::testing::ValidateGpuImage(executable.code), "");
  }
  std::vector<int64_t> sizes = {1};
  if (random.symbol.valid()) sizes = {1 + seed % 39, 40};
  for (const int64_t size : sizes) {
    SCOPED_TRACE("n = " + std::to_string(size));
    const std::vector<graph::Tensor> inputs = graph::RandomInputs(random, size, seed);
    graph::SymbolValues symbols;
    if (random.symbol.valid()) symbols[random.symbol] = size;
    Result<std::vector<graph::Tensor>> wanted = graph::Interpret(random.module, inputs, symbols);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    for (const std::string& path : paths) {
      std::vector<graph::Tensor> got = *wanted;
      const Status ran = RunProgram(compiled->program, path, inputs, got);
      ASSERT_TRUE(ran.ok()) << ran.ToString();
      for (size_t i = 0; i < got.size(); ++i) {
        const Status same = graph::CompareTensors((*wanted)[i], got[i], kTolerance, kTolerance);
        EXPECT_TRUE(same.ok()) << "result " << i << " on " << path << ": " << same.ToString();
      }
    }
  }
}

void RunSeeds(const std::string& path, uint32_t count, const std::vector<std::string>& modes) {
  Result<std::shared_ptr<runtime::Instance>> instance = runtime::Instance::Create({});
  ASSERT_TRUE(instance.ok()) << instance.status().ToString();
  Result<Ref<hal::Device>> opened = (*instance)->OpenDevice(path);
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  program::Device device;
  device.name = path;
  device.target = runtime::TargetOf(**opened);
  const auto [first, number] = Seeds(count);
  for (uint32_t seed = first; seed < first + number; ++seed) {
    RunSeed(seed, device, modes);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomGraphs, MatchTheReferenceOnTheCpu) {
  RunSeeds("cpu:0", 40, {"cpu:0", "cpu:0?discrete=3"});
}

// CUDA's schedules, on the stand-in for libcuda, which runs Kernel IR in the interpreter.
TEST(RandomGraphs, MatchTheReferenceThroughCuda) {
  const drivers::cuda::ScopedVariable library{"HALYARD_CUDA_LIBRARY", HALYARD_FAKE_LIBCUDA};
  RunSeeds("cuda:0", 24, {"cuda:0"});
}

TEST(RandomGraphs, MatchTheReferenceThroughVulkan) { RunSeeds("vulkan:0", 12, {"vulkan:0"}); }

}  // namespace
}  // namespace halyard::pipeline
