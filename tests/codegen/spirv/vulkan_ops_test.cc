// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype and number of lanes on a Vulkan device: generated code against the
// interpreter on random and special inputs, with poisoned outputs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compiler/codegen/spirv/emit.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "tests/codegen/gpu_cases.h"
#include "tests/codegen/op_cases.h"
#include "tests/codegen/spirv/vulkan_runner.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

VulkanRunner* Device() {
  static const Result<std::unique_ptr<VulkanRunner>> runner = VulkanRunner::Create();
  return runner.ok() ? runner->get() : nullptr;
}

struct Buffers {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<kernel::BufferArgument> arguments;
};

Buffers MakeBuffers(const OpCase& c, int64_t elements, uint64_t seed) {
  Buffers buffers;
  std::mt19937_64 random(seed);
  for (const kernel::Buffer& b : c.kernel.buffers) {
    if (b.space != kernel::MemorySpace::kGlobal) continue;
    buffers.bytes.emplace_back(static_cast<size_t>(elements * BitWidth(b.dtype) / 8), 0xa5);
    uint8_t* data = buffers.bytes.back().data();
    if (b.access == kernel::Access::kRead) {
      FillRandom(b.dtype, c.small_indices, elements, &random, data);
    }
    if (b.access != kernel::Access::kRead && b.dtype == DType::kBool) {
      std::memset(data, 1, buffers.bytes.back().size());
    }
  }
  for (size_t i = 0; i < buffers.bytes.size(); ++i) {
    buffers.arguments.push_back({buffers.bytes[i].data(), elements, true});
  }
  return buffers;
}

// Where `actual` differs from what the interpreter makes of `oracle`, one sentence per buffer.
std::vector<std::string> Mismatches(const OpCase& c, const kernel::Kernel& oracle,
                                    const GpuKernel& actual, const int64_t (&grid)[3],
                                    int64_t elements = kCaseElements + kCaseSlack) {
  const int64_t scalar_values[] = {1, -7};
  const std::span<const int64_t> scalars(scalar_values, c.kernel.scalars.size());
  Buffers expected = MakeBuffers(c, elements, 17);
  Buffers got = MakeBuffers(c, elements, 17);
  ErrorRecord expected_error{};
  ErrorRecord actual_error{};
  Status status = kernel::Interpret(oracle, expected.arguments, scalars, grid, &expected_error);
  if (!status.ok()) return {status.ToString() + kernel::FormatKernel(oracle)};
  const std::vector<std::span<uint8_t>> spans(got.bytes.begin(), got.bytes.end());
  status = Device()->Run(actual, spans, scalars, grid, &actual_error);
  if (!status.ok()) return {status.ToString()};
  std::vector<std::string> mismatches;
  if (std::memcmp(&expected_error, &actual_error, sizeof(ErrorRecord)) != 0) {
    mismatches.push_back(c.kernel.name + " reports another error");
  }
  for (size_t i = 0; i < expected.bytes.size(); ++i) {
    const DType dtype = c.kernel.buffers[i].dtype;
    const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
    for (size_t e = 0; e < expected.bytes[i].size() / size; ++e) {
      const uint8_t* want = expected.bytes[i].data() + e * size;
      const uint8_t* have = got.bytes[i].data() + e * size;
      if (SameElement(dtype, want, have)) continue;
      uint64_t w = 0, h = 0;
      std::memcpy(&w, want, size);
      std::memcpy(&h, have, size);
      mismatches.push_back(fmt::format("{} buffer {}[{}]: expected {:#x}, got {:#x}", c.kernel.name,
                                       c.kernel.buffers[i].name, e, w, h));
      break;
    }
  }
  return mismatches;
}

// One scalar case and one of several memory accesses; between them the emitter does nothing new.
bool IsTried(const OpCase& c) {
  int lanes = 1;
  for (const kernel::Value& value : c.kernel.values) {
    lanes = std::max<int>(lanes, value.type.lanes);
  }
  return lanes == 1 || lanes == 8;
}

// llvmpipe folds x + 0, 0 - x, 0 * x and 0 / x with a constant zero, whatever the execution modes
// ask for (lp_build_add and its siblings in Mesa's gallivm).
bool IsKnownDefect(const OpCase& c, Opcode opcode) {
  const bool folds = opcode == Opcode::kAdd || opcode == Opcode::kSub || opcode == Opcode::kMul ||
                     opcode == Opcode::kDiv;
  return folds && IsFloat(c.kernel.buffers[0].dtype) && c.kernel.name.ends_with("_c1") &&
         Device()->target().name.starts_with("llvmpipe");
}

bool Has(GpuFeature feature) {
  return (Device()->target().gpu.features & static_cast<uint64_t>(feature)) != 0;
}

class VulkanOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(VulkanOps, MatchInterpreter) {
  if (!Device()) GTEST_SKIP() << "no Vulkan device";
  std::vector<OpCase> cases;
  kernel::Module module;
  for (OpCase& c : CasesFor(GetParam(), true)) {
    if (!IsTried(c) || IsKnownDefect(c, GetParam())) continue;
    module.kernels.push_back(c.kernel);
    cases.push_back(std::move(c));
  }
  Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, Device()->target());
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  const bool ids = GetParam() == Opcode::kWorkgroupId;
  const int64_t grid[3] = {ids ? 2 : 1, ids ? 3 : 1, ids ? 2 : 1};
  int failures = 0;
  for (size_t n = 0; n < cases.size() && failures < 12; ++n) {
    const bool splits = GetParam() == Opcode::kFma && !Has(GpuFeature::kFma);
    const kernel::Kernel oracle = splits ? kernel::SplitFma(cases[n].kernel) : cases[n].kernel;
    for (const std::string& mismatch : Mismatches(cases[n], oracle, image->kernels[n], grid)) {
      ADD_FAILURE() << mismatch;
      ++failures;
    }
  }
}

// The comparison sees a wrong result, in every dtype.
TEST(VulkanOpsTest, AWrongResultIsSeen) {
  if (!Device()) GTEST_SKIP() << "no Vulkan device";
  kernel::Module module;
  std::vector<OpCase> cases;
  for (OpCase& c : CasesFor(Opcode::kSub, true)) {
    if (!IsTried(c)) continue;
    kernel::Kernel wrong = c.kernel;
    for (kernel::Op& op : wrong.ops) {
      if (op.opcode == Opcode::kSub) op.opcode = Opcode::kMax;
    }
    module.kernels.push_back(std::move(wrong));
    cases.push_back(std::move(c));
  }
  Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, Device()->target());
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  for (size_t n = 0; n < cases.size(); n += 5) {
    EXPECT_EQ(Mismatches(cases[n], cases[n].kernel, image->kernels[n], {1, 1, 1}).size(), 1u)
        << cases[n].kernel.name;
  }
}

class VulkanGpuOps : public ::testing::TestWithParam<std::string> {};

// What only GPUs have, on the device's own subgroup size.
TEST_P(VulkanGpuOps, MatchInterpreter) {
  if (!Device()) GTEST_SKIP() << "no Vulkan device";
  const Target& target = Device()->target();
  const std::vector<GpuCase> cases = GpuCasesFor(GetParam(), target.gpu);
  if (cases.empty()) GTEST_SKIP() << target.name << " has no " << GetParam();
  kernel::Module module;
  for (const GpuCase& c : cases) module.kernels.push_back(c.c.kernel);
  Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Result<GpuImage> image = ReadGpuImage(*bytes);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  int failures = 0;
  for (size_t n = 0; n < cases.size() && failures < 12; ++n) {
    const GpuCase& c = cases[n];
    for (const std::string& mismatch :
         Mismatches(c.c, c.c.kernel, image->kernels[n], c.grid, c.elements)) {
      ADD_FAILURE() << mismatch;
      ++failures;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VulkanGpuOps, ::testing::ValuesIn(GpuCaseFamilies()),
                         [](const auto& info) { return info.param; });

std::vector<Opcode> OpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (info.transcendental || info.op_class == kernel::OpClass::kFragment) continue;
    if (opcode == Opcode::kSubgroupSize) continue;  // the interpreter's is 1
    if (!CasesFor(opcode, true).empty()) ops.push_back(opcode);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, VulkanOps, ::testing::ValuesIn(OpsToTest()), [](const auto& info) {
  return std::string(kernel::FormatOpcode(info.param));
});

}  // namespace
}  // namespace halyard::testing
