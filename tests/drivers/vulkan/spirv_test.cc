// SPDX-License-Identifier: Apache-2.0
// The modules that the driver makes and changes, judged by the validator of SPIRV-Tools.
#include <gtest/gtest.h>

#include <algorithm>
#include <spirv-tools/libspirv.hpp>

#include "drivers/vulkan/copy_kernels.h"
#include "drivers/vulkan/spirv_builder.h"
#include "drivers/vulkan/spirv_module.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

// The validator's complaint; empty when there is none.
std::string Complaint(const std::vector<uint32_t>& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string text;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { text += message; });
  return tools.Validate(words) ? "" : text.empty() ? "invalid" : text;
}

std::vector<uint32_t> Assemble(const std::string& text) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string messages;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { messages += message; });
  std::vector<uint32_t> words;
  EXPECT_TRUE(tools.Assemble(text, &words)) << messages;
  return words;
}

SpirvModule Read(const std::vector<uint32_t>& words) {
  return Must(ReadSpirv({reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()}));
}

TEST(VulkanSpirv, EveryKernelIsValidWithItsArgumentsInEitherPlace) {
  std::vector<cts::SpirvKernel> kernels = cts::SpirvTestKernels();
  kernels.push_back({"copy", MakeCopyKernel(), 0, kCopyArguments - 2});
  kernels.push_back({"fill", MakeFillKernel(), 0, kFillArguments - 2});
  for (const cts::SpirvKernel& kernel : kernels) {
    EXPECT_EQ(Complaint(kernel.words), "") << kernel.name;
    uint32_t bytes = 8 * (kernel.binding_count + kernel.scalar_count + 2);
    std::vector<uint32_t> moved = Must(MoveArgumentsToBlock(Read(kernel.words), bytes));
    EXPECT_EQ(Complaint(moved), "") << kernel.name;
    EXPECT_NE(moved, kernel.words) << kernel.name;
    EXPECT_EQ(PushConstantBytes(Read(moved)), 8u) << kernel.name;
  }
}

// As a compiler may write it: a pointer argument, narrow members, the whole structure at once.
constexpr const char* kHeader = R"(
OpCapability Shader
OpCapability Int64
OpCapability PhysicalStorageBufferAddresses
OpMemoryModel PhysicalStorageBuffer64 GLSL450
OpEntryPoint GLCompute %main "main" %arguments
OpExecutionMode %main LocalSize 1 1 1
OpMemberDecorate %block 0 Offset 0
OpMemberDecorate %block 1 Offset 8
OpMemberDecorate %block 2 Offset 16
OpDecorate %block Block
%void = OpTypeVoid
%signature = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%u64 = OpTypeInt 64 0
%pair = OpTypeVector %u32 2
%zero = OpConstant %u32 0
%one = OpConstant %u32 1
%two = OpConstant %u32 2
%target = OpTypePointer PhysicalStorageBuffer %u64
%block = OpTypeStruct %target %pair %u32
%arguments_pointer = OpTypePointer PushConstant %block
%target_pointer = OpTypePointer PushConstant %target
%pair_pointer = OpTypePointer PushConstant %pair
%u32_pointer = OpTypePointer PushConstant %u32
%arguments = OpVariable %arguments_pointer PushConstant
%main = OpFunction %void None %signature
%start = OpLabel
)";

TEST(VulkanSpirv, CompilersHaveSeveralWaysToReadArguments) {
  const std::string body = R"(
%p = OpAccessChain %target_pointer %arguments %zero
%to = OpLoad %target %p
%q = OpInBoundsAccessChain %pair_pointer %arguments %one
%q1 = OpAccessChain %u32_pointer %q %one
%high = OpLoad %u32 %q1
%r = OpAccessChain %u32_pointer %arguments %two
%low = OpLoad %u32 %r Volatile
%all = OpLoad %block %arguments
%again = OpCompositeExtract %u32 %all 2
%sum = OpIAdd %u32 %high %low
%more = OpIAdd %u32 %sum %again
%wide = OpUConvert %u64 %more
OpStore %to %wide Aligned 8
OpReturn
OpFunctionEnd)";
  std::vector<uint32_t> words = Assemble(kHeader + body);
  ASSERT_EQ(Complaint(words), "");
  std::vector<uint32_t> moved = Must(MoveArgumentsToBlock(Read(words), 24));
  EXPECT_EQ(Complaint(moved), "");
  EXPECT_EQ(PushConstantBytes(Read(words)), 24u);
  EXPECT_EQ(PushConstantBytes(Read(moved)), 8u);
  EXPECT_FAILS(MoveArgumentsToBlock(Read(words), 16), kDataLoss,
               "an argument at byte 16; its entry takes 16");
}

TEST(VulkanSpirv, OtherUsesOfTheArgumentsAreRefused) {
  std::vector<uint32_t> words = Assemble(std::string(kHeader) + R"(
%p = OpAccessChain %u32_pointer %arguments %two
%same = OpCopyObject %u32_pointer %p
OpReturn
OpFunctionEnd)");
  EXPECT_FAILS(MoveArgumentsToBlock(Read(words), 24), kIncompatible, "address of its arguments");
  std::string logical = kHeader;
  logical.replace(logical.find("PhysicalStorageBuffer64"), 23, "Logical");
  words = Assemble(logical + "OpReturn\nOpFunctionEnd");
  EXPECT_FAILS(MoveArgumentsToBlock(Read(words), 24), kIncompatible, "physical addresses");
}

TEST(VulkanSpirv, ModulesThatAreCutOrChangedNeverCrashTheReader) {
  const std::vector<uint32_t> good = cts::SpirvTestKernels()[1].words;
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<uint32_t> words = good;
    for (uint32_t c = 0; c <= random() % 3; ++c) {
      uint32_t& word = words[random() % words.size()];
      word ^= 1u << random() % 32;
    }
    if (random() % 4 == 0) words.resize(random() % words.size());
    Result<SpirvModule> module =
        ReadSpirv({reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()});
    if (!module.ok()) {
      ++refused;
      continue;
    }
    MoveArgumentsToBlock(*module, 48).status().Ignore();
    (void)PushConstantBytes(*module);
  }
  EXPECT_GT(refused, 500);
}

TEST(VulkanCopyKernels, PatternsRepeat) {
  EXPECT_EQ(RepeatPattern(0x1122334455667788, 1), 0x8888888888888888u);
  EXPECT_EQ(RepeatPattern(0x1122334455667788, 2), 0x7788778877887788u);
  EXPECT_EQ(RepeatPattern(0x1122334455667788, 4), 0x5566778855667788u);
  EXPECT_EQ(RepeatPattern(0x1122334455667788, 8), 0x1122334455667788u);
}

TEST(VulkanCopyKernels, GridsCoverTheSizeAndFitEveryDevice) {
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{4097}, int64_t{1} << 27,
                       (int64_t{1} << 27) + 1, int64_t{1} << 40}) {
    CopyGrid grid = GridForBytes(size);
    int64_t covered = int64_t{grid.x} * grid.y * kCopyBytesPerWorkitem * kCopyWorkgroupSize;
    EXPECT_GE(covered, size);
    EXPECT_LE(covered, size + int64_t{32768} * kCopyBytesPerWorkitem * kCopyWorkgroupSize);
    EXPECT_LE(grid.x, 65535u);
    EXPECT_LE(grid.y, 65535u);
  }
}

}  // namespace
}  // namespace halyard::drivers::vulkan
