// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype and number of lanes becomes a module that the validator of SPIR-V accepts for
// Vulkan 1.2, with every feature of a target and with fewer.
#include <gtest/gtest.h>

#include <spirv-tools/libspirv.hpp>

#include "base/check.h"
#include "base/gpu_image.h"
#include "compiler/codegen/spirv/emit.h"
#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/op_cases.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

Target TargetWithout(std::initializer_list<GpuFeature> features) {
  Result<Target> target = ParseTarget("vulkan-32");
  HY_CHECK(target.ok());
  for (GpuFeature feature : features) target->gpu.features &= ~static_cast<uint64_t>(feature);
  return *std::move(target);
}

// What the validator says of a kernel's module; empty when it is valid.
std::string Problems(const GpuKernel& kernel) {
  std::string problems;
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { problems += std::string(message) + "\n"; });
  std::vector<uint32_t> words(kernel.module.size() / 4);
  std::memcpy(words.data(), kernel.module.data(), kernel.module.size());
  spvtools::ValidatorOptions options;
  options.SetWorkgroupScalarBlockLayout(true);
  if (tools.Validate(words.data(), words.size(), options)) return "";
  std::string text;
  tools.Disassemble(words, &text);
  return problems + text;
}

class SpirvOps : public ::testing::TestWithParam<Opcode> {};

TEST_P(SpirvOps, AreValid) {
  const Target targets[] = {
      TargetWithout({}),
      TargetWithout({GpuFeature::kWorkgroupStorage8, GpuFeature::kWorkgroupStorage16,
                     GpuFeature::kFloatControls, GpuFeature::kDenormPreserve}),
  };
  kernel::Module module;
  for (const OpCase& c : CasesFor(GetParam(), true)) module.kernels.push_back(c.kernel);
  ASSERT_FALSE(module.kernels.empty());
  int failures = 0;
  for (const Target& target : targets) {
    Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    Result<GpuImage> image = ReadGpuImage(*bytes);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    ASSERT_EQ(image->kernels.size(), module.kernels.size());
    for (const GpuKernel& k : image->kernels) {
      const std::string problems = Problems(k);
      EXPECT_TRUE(problems.empty()) << k.name << ": " << problems;
      if (!problems.empty() && ++failures > 3) return;
    }
  }
}

std::vector<Opcode> OpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (info.transcendental || info.op_class == kernel::OpClass::kFragment) continue;
    if (!CasesFor(opcode, true).empty()) ops.push_back(opcode);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, SpirvOps, ::testing::ValuesIn(OpsToTest()), [](const auto& info) {
  return std::string(kernel::FormatOpcode(info.param));
});

}  // namespace
}  // namespace halyard::testing
