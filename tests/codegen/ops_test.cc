// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype, number of lanes and forced instruction set: generated code against the
// interpreter, bit by bit, on random and special inputs, with poisoned outputs.
#include <gtest/gtest.h>

#include <bit>

#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/image_runner.h"
#include "tests/codegen/op_cases.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

bool IsOnCpu(Opcode opcode) {
  const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
  return info.op_class != kernel::OpClass::kFragment && info.op_class != kernel::OpClass::kGpu;
}

std::vector<Opcode> OpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const Opcode opcode = static_cast<Opcode>(i);
    if (IsOnCpu(opcode) && !kernel::InfoOf(opcode).transcendental) ops.push_back(opcode);
  }
  return ops;
}

TEST(Ops, EveryOpcodeHasCases) {
  for (Opcode opcode : OpsToTest()) {
    EXPECT_FALSE(CasesFor(opcode, true).empty()) << kernel::FormatOpcode(opcode);
  }
}

struct Buffers {
  std::vector<AlignedBytes> bytes;
  std::vector<void*> pointers;
  std::vector<kernel::BufferArgument> arguments;
};

Buffers MakeBuffers(const OpCase& c, uint64_t seed) {
  Buffers buffers;
  const int64_t elements = kCaseElements + kCaseSlack;
  std::mt19937_64 random(seed);
  buffers.bytes.reserve(c.kernel.buffers.size());
  for (const kernel::Buffer& b : c.kernel.buffers) {
    buffers.bytes.emplace_back(static_cast<size_t>(elements * BitWidth(b.dtype) / 8));
    uint8_t* data = buffers.bytes.back().data();
    if (b.access == kernel::Access::kRead)
      FillRandom(b.dtype, c.small_indices, elements, &random, data);
    if (b.access != kernel::Access::kRead && b.dtype == DType::kBool) {
      std::memset(data, 1, buffers.bytes.back().size());
    }
    buffers.pointers.push_back(data);
    buffers.arguments.push_back({data, elements, true});
  }
  return buffers;
}

class OpsOnTarget : public ::testing::TestWithParam<std::tuple<std::string, Opcode>> {};

TEST_P(OpsOnTarget, MatchInterpreter) {
  const auto& [target_name, opcode] = GetParam();
  Result<Target> target = ParseTarget(target_name);
  ASSERT_TRUE(target.ok());
  const std::vector<OpCase> cases = CasesFor(opcode, target_name != "cpu-sse4.2");
  kernel::Module module;
  for (const OpCase& c : cases) module.kernels.push_back(c.kernel);
  const Status verified = kernel::VerifyModule(module);
  ASSERT_TRUE(verified.ok()) << verified.ToString();
  const std::string text = kernel::FormatModule(module);
  Result<kernel::Module> parsed = kernel::ParseModule(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_EQ(kernel::FormatModule(*parsed), text);

  Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, *target);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  const ImageRunner runner(*image);
  const int64_t scalar_values[] = {1, -7};
  const int64_t grid[3] = {2, 3, 2};
  int failures = 0;
  for (const OpCase& c : cases) {
    const std::span<const int64_t> scalars(scalar_values, c.kernel.scalars.size());
    const bool ids = opcode == Opcode::kWorkgroupId;
    const int64_t shape[3] = {ids ? grid[0] : 1, ids ? grid[1] : 1, ids ? grid[2] : 1};
    Buffers expected = MakeBuffers(c, 17);
    Buffers actual = MakeBuffers(c, 17);
    ErrorRecord expected_error{};
    ErrorRecord actual_error{};
    const Status status =
        kernel::Interpret(c.kernel, expected.arguments, scalars, shape, &expected_error);
    ASSERT_TRUE(status.ok()) << status.ToString() << kernel::FormatKernel(c.kernel);
    runner.Run(c.kernel.name, actual.pointers, scalars, shape, &actual_error);
    EXPECT_EQ(std::memcmp(&expected_error, &actual_error, sizeof(ErrorRecord)), 0) << c.kernel.name;
    for (size_t i = 0; i < c.kernel.buffers.size(); ++i) {
      const DType dtype = c.kernel.buffers[i].dtype;
      const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
      for (size_t e = 0; e < expected.bytes[i].size() / size; ++e) {
        const uint8_t* want = expected.bytes[i].data() + e * size;
        const uint8_t* got = actual.bytes[i].data() + e * size;
        if (SameElement(dtype, want, got)) continue;
        uint64_t w = 0, g = 0;
        std::memcpy(&w, want, size);
        std::memcpy(&g, got, size);
        ADD_FAILURE() << c.kernel.name << " buffer " << c.kernel.buffers[i].name << "[" << e
                      << "]: expected 0x" << std::hex << w << ", got 0x" << g;
        if (++failures > 8) return;
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpsOnTarget,
                         ::testing::Combine(::testing::ValuesIn(RunnableTargets()),
                                            ::testing::ValuesIn(OpsToTest())),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" +
                               std::string(kernel::FormatOpcode(std::get<1>(info.param)));
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace halyard::testing
