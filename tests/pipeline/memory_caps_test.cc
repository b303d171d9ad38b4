// SPDX-License-Identifier: Apache-2.0
// Limits of the devices' memories: what runs under one runs under every larger one, takes no more
// than it, and gives the results of the reference, whatever streams, moves or is refused. The
// devices are synthetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "compiler/compile.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/compile.h"
#include "runtime/device_target.h"
#include "runtime/memory_caps.h"
#include "runtime/report.h"
#include "runtime/session.h"
#include "tests/compiler/ops/op_examples.h"

namespace halyard::pipeline {
namespace {

using graph::Tensor;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kRows = 20;

// tanh(x W) for each width, one after the other. `outputs`: of the graph, "%v3" is what layer 2
// makes, "%w2" its weight.
std::string Layers(const std::vector<int64_t>& widths, const std::string& outputs) {
  std::mt19937 random(11);
  std::string text =
      fmt::format("graph main(%v0: f32[{}, {}]) -> ({}) {{\n", kRows, widths[0], outputs);
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    text += fmt::format("  %w{} = constant f32[{}, {}]{{", i, widths[i], widths[i + 1]);
    for (int64_t e = 0; e < widths[i] * widths[i + 1]; ++e) {
      text += fmt::format("{}{}", e == 0 ? "" : ", ", (static_cast<int>(random() % 17) - 8) / 64.0);
    }
    text += fmt::format(
        "}} \"w{0}\"\n  %p{0} = matmul %v{0}, %w{0} : f32[{2}, {3}] \"p{0}\"\n"
        "  %v{1} = tanh %p{0} : f32[{2}, {3}] \"t{0}\"\n",
        i, i + 1, kRows, widths[i + 1]);
  }
  return text + "}\n";
}

class MemoryCaps : public ::testing::Test {
 protected:
  MemoryCaps() {
    auto instance = runtime::Instance::Create({});
    EXPECT_TRUE(instance.ok()) << instance.status().ToString();
    instance_ = *instance;
  }

  void Open(const std::vector<std::string>& paths) {
    devices_.clear();
    for (const std::string& path : paths) {
      auto device = instance_->OpenDevice(path);
      ASSERT_TRUE(device.ok()) << device.status().ToString();
      devices_.push_back(*device);
    }
  }
  void Model(const std::string& text) {
    text_ = text;
    auto module = graph::ParseModule(text);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    module_ = std::move(*module);
  }
  void Require(const std::string& pattern, const std::string& device) {
    options_.affinities.push_back({pattern, device, place::Strength::kRequire});
  }

  Result<program::Program> Compile(const std::map<std::string, int64_t>& caps) {
    CompileRequest request;
    request.graph_text = text_;
    request.options.tune = false;
    request.options.placement = options_;
    for (const auto& [device, bytes] : caps) {
      request.options.placement.memory_caps.push_back({device, bytes});
    }
    for (const Ref<hal::Device>& device : devices_) {
      request.devices.push_back({std::string(device->path()), runtime::TargetOf(*device), "",
                                 runtime::IsHostDevice(*device)});
      request.memory_limits.push_back(runtime::PlacedMemoryBytes(*device));
    }
    request.judge_memory = runtime::MakeMemoryJudge(devices_, caps);
    HY_ASSIGN(CompileResult result, pipeline::Compile(request));
    return std::move(result.program);
  }

  Result<std::shared_ptr<runtime::LoadedProgram>> Load(program::Program program) {
    std::vector<Ref<hal::Device>> devices = devices_;
    devices.resize(program.devices.size());
    return runtime::LoadSaved(instance_, std::move(program), std::move(devices), {});
  }

  static int64_t BytesOf(const runtime::DeviceMemory& memory) {
    return memory.constant_bytes + memory.activation_bytes + memory.io_bytes + memory.staging_bytes;
  }

  // Runs it twice and compares with the reference.
  void ExpectRuns(const std::shared_ptr<runtime::LoadedProgram>& loaded) {
    const auto session = runtime::Session::Create(loaded, {});
    for (int run = 0; run < 2; ++run) {
      std::vector<Tensor> inputs;
      for (const graph::ValueId value : module_.entry().parameters) {
        Tensor& tensor = inputs.emplace_back();
        tensor.dtype = DType::kF32;
        int64_t count = 1;
        for (const Expr dim : module_.values[value].type.dims) {
          tensor.dims.push_back(*module_.exprs.AsConst(dim));
          count *= tensor.dims.back();
        }
        tensor.bytes.resize(static_cast<size_t>(count) * 4);
        auto* data = reinterpret_cast<float*>(tensor.bytes.data());
        for (int64_t i = 0; i < count; ++i) {
          data[i] = static_cast<float>(static_cast<int>(random_() % 2001) - 1000) / 500.0f;
        }
      }
      const auto wanted = graph::Interpret(module_, inputs);
      ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
      std::vector<Tensor> got = *wanted;
      std::vector<runtime::CallTensor> in, out;
      for (Tensor& input : inputs) {
        in.push_back({input.dtype, input.dims, input.bytes.data(),
                      static_cast<int64_t>(input.bytes.size())});
      }
      for (Tensor& output : got) {
        std::fill(output.bytes.begin(), output.bytes.end(), 0xA5);
        out.push_back({output.dtype, output.dims, output.bytes.data(),
                       static_cast<int64_t>(output.bytes.size())});
      }
      std::vector<runtime::CallResult> results(out.size());
      const Status status = session->Run(in, out, results);
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (size_t i = 0; i < got.size(); ++i) {
        const Status same = graph::CompareTensors((*wanted)[i], got[i], 1e-5, 1e-5);
        EXPECT_TRUE(same.ok()) << "output " << i << ": " << same.ToString();
      }
    }
  }

  // Compiles under many caps of `device`, the smallest first: from the first that runs on all do,
  // none takes more than its cap, and some of them give the right results. Returns the smallest.
  int64_t ExpectMonotone(const std::string& device, int64_t least, int64_t most, int caps) {
    int64_t first = 0, refused = 0;
    const auto judge = [&](int64_t cap, bool runs) {
      auto program = Compile({{device, cap}});
      if (!program.ok()) {
        EXPECT_EQ(program.status().code(), StatusCode::kOutOfMemory) << program.status().ToString();
        EXPECT_EQ(first, 0) << "a cap of " << first << " runs and one of " << cap
                            << " is refused: " << program.status().message();
        return false;
      }
      auto loaded = Load(std::move(*program));
      EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
      if (!loaded.ok()) return true;
      const auto memory = runtime::PredictMemory(**loaded, {});
      EXPECT_TRUE(memory.ok()) << memory.status().ToString();
      for (const runtime::DeviceMemory& one : *memory) {
        EXPECT_LE(BytesOf(one), one.device == device ? cap : INT64_MAX);
      }
      if (runs) ExpectRuns(*loaded);
      return true;
    };
    for (int i = 0; i < caps; ++i) {
      const double part = static_cast<double>(i) / (caps - 1);
      const auto cap = static_cast<int64_t>(
          static_cast<double>(least) *
          std::pow(static_cast<double>(most) / static_cast<double>(least), part));
      const bool ran = judge(cap, i % 5 == 0 || (first == 0 && refused > 0));
      if (!ran) refused = cap;
      if (ran && first == 0) first = cap;
    }
    EXPECT_GT(first, 0);
    // To the byte, where it begins.
    if (refused == 0) return first;
    int64_t runs = first;
    first = 0;
    while (runs - refused > 64) {
      const int64_t cap = refused + (runs - refused) / 2;
      (judge(cap, false) ? runs : refused) = cap;
    }
    first = runs;
    for (const int64_t more : {1, 63, 64, 1000, 4096, 10'000, 30'000}) judge(runs + more, false);
    return runs;
  }

  static size_t Brought(const program::Program& program, const std::string& label) {
    size_t count = 0;
    for (const program::Block& block : program.entries[0].blocks) {
      for (const program::Command& command : block.commands) count += command.label == label;
    }
    return count;
  }

  std::shared_ptr<runtime::Instance> instance_;
  std::vector<Ref<hal::Device>> devices_;
  place::Options options_;
  std::string text_;
  graph::Module module_;
  std::mt19937 random_{7};
};

constexpr const char* kAccelerator = "cpu:1?synthetic=1&threads=1";

TEST_F(MemoryCaps, WhatRunsUnderACapRunsUnderALargerOneWhereAllIsRequiredThere) {
  Open({"cpu:0", kAccelerator});
  Model(Layers({128, 128, 128, 128, 128, 128, 128}, "%v6"));
  Require("?*", "cpu:1");
  // One weight of 64 KiB at a time, input, output and what stages them, and the values between.
  EXPECT_LE(ExpectMonotone("cpu:1", 50'000, 900'000, 30), 65536 + 6 * kRows * 128 * 4 + 1024);
}

TEST_F(MemoryCaps, WhatRunsUnderACapRunsUnderALargerOneWithWeightsOfManySizes) {
  Open({"cpu:0", kAccelerator});
  Model(Layers({64, 512, 160, 256, 96, 192, 32}, "%v6, %v3"));
  for (const char* i : {"0", "1", "2", "4", "5"}) {
    Require(fmt::format("?{}", i), "cpu:1");
  }
  Require("?3", "cpu:0");
  ExpectMonotone("cpu:1", 50'000, 2'500'000, 30);
}

TEST_F(MemoryCaps, EveryCapRunsWhereAnotherDeviceHasNone) {
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{"cpu:0", kAccelerator},
        std::vector<std::string>{kAccelerator, "cpu:2?synthetic=1&threads=1", "cpu:0"}}) {
    Open(paths);
    options_.last_resort.clear();
    if (paths.size() == 3) options_.last_resort = {"cpu:0"};
    Model(Layers({128, 256, 128, 256, 128}, "%v4, %w1"));
    EXPECT_EQ(ExpectMonotone("cpu:1", 1, 2'000'000, 25), 1);
  }
}

TEST_F(MemoryCaps, AWeightThatIsAnOutputStreamsToIt) {
  Open({kAccelerator, "cpu:0"});
  options_.last_resort = {"cpu:0"};
  Model(Layers({128, 128, 128, 128, 128, 128}, "%v5, %w2, %w4, %w2"));
  Require("?*", "cpu:1");
  auto program = Compile({{"cpu:1", 700'000}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_GT(Brought(*program, "weights to cpu:1"), 0u);
  auto loaded = Load(std::move(*program));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectRuns(*loaded);
  ExpectMonotone("cpu:1", 300'000, 1'500'000, 20);
}

TEST_F(MemoryCaps, AWeightAboveHalfOfTheCapStreamsThroughOneLot) {
  Open({"cpu:0", kAccelerator});
  Model(Layers({64, 512, 256, 64, 256, 64}, "%v5"));  // 512 KiB in the middle of 64 and 128 KiB
  Require("?*", "cpu:1");
  constexpr int64_t kCap = 800'000;
  auto program = Compile({{"cpu:1", kCap}});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_GT(Brought(*program, "weights to cpu:1"), 1u);
  auto loaded = Load(std::move(*program));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const auto memory = runtime::PredictMemory(**loaded, {});
  ASSERT_TRUE(memory.ok());
  EXPECT_LE(BytesOf((*memory)[1]), kCap);
  ExpectRuns(*loaded);
}

// Nothing streams in the host's memory: the refusal names what the program needs.
TEST_F(MemoryCaps, TheOnlyDeviceRunsOrSaysWhatIsNeeded) {
  Open({"cpu:0"});
  Model(Layers({128, 128, 128}, "%v2"));
  const int64_t least = ExpectMonotone("cpu:0", 10'000, 400'000, 12);
  const auto program = Compile({{"cpu:0", 10'000}});
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.status().message(), HasSubstr("The program needs "));
  EXPECT_THAT(program.status().message(), HasSubstr("; the cap is 10000, "));
  EXPECT_THAT(program.status().message(),
              EndsWith(" too few: in the host's memory nothing streams."));
  const auto both = Compile({{"cpu:0", 100'000}});
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.status().message(), EndsWith(": in the host's memory nothing streams."));
  EXPECT_GT(least, 2 * 65536);
}

// Without a cap the memory that a device has is one, and what streams stands in the host's.
TEST_F(MemoryCaps, WithoutACapTheMemoryOfTheDeviceLimits) {
  constexpr int64_t kBytes = 300'000;
  Open({fmt::format("{}&memory_bytes={}", kAccelerator, kBytes), "cpu:0"});
  options_.last_resort = {"cpu:0"};
  Model(Layers({128, 128, 128, 128, 128, 128, 128}, "%v6"));  // 384 KiB of weights
  Require("?*", "cpu:1");
  EXPECT_EQ(runtime::OwnMemoryBytes(*devices_[0]), kBytes);
  EXPECT_EQ(runtime::PlacedMemoryBytes(*devices_[0]), kBytes - kBytes / 16);
  EXPECT_EQ(runtime::OwnMemoryBytes(*devices_[1]), 0);
  auto program = Compile({});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_GT(Brought(*program, "weights to cpu:1"), 0u);
  auto loaded = Load(std::move(*program));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectRuns(*loaded);
  // What cannot be is said before anything is loaded.
  Open({fmt::format("{}&memory_bytes=60000", kAccelerator), "cpu:0"});
  program = Compile({});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(program.status().message(), HasSubstr("bytes of 'cpu:1' ("));
  EXPECT_THAT(program.status().message(), HasSubstr("; the device has 60000, "));
  options_.affinities.clear();  // where it need not be there, it is not
  options_.last_resort.clear();
  program = Compile({});
  ASSERT_TRUE(program.ok()) << program.status().ToString();
}

}  // namespace
}  // namespace halyard::pipeline
