// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/spirv/spirv_val.h"

#include <cstring>
#include <spirv-tools/libspirv.hpp>
#include <spirv/unified1/spirv.hpp11>
#include <vector>

#include "base/gpu_image.h"
#include "compiler/codegen/spirv/khr_enums.h"
#include "tests/codegen/spirv/module_checker.h"

namespace halyard::testing {
namespace {

std::vector<uint32_t> WordsOf(std::span<const uint8_t> module) {
  std::vector<uint32_t> words(module.size() / 4);
  std::memcpy(words.data(), module.data(), words.size() * 4);
  return words;
}

}  // namespace

std::string ValidateSpirv(std::span<const uint8_t> module) {
  std::string problems;
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&,
                               const char* message) { problems += std::string(message) + "\n"; });
  const std::vector<uint32_t> words = WordsOf(module);
  spvtools::ValidatorOptions options;
  options.SetWorkgroupScalarBlockLayout(true);
  if (tools.Validate(words.data(), words.size(), options)) return "";
  std::string text;
  tools.Disassemble(words, &text);
  return problems + text;
}

bool HasCooperativeMatrices(std::span<const uint8_t> module) {
  constexpr size_t kHeaderWords = 5;
  const std::vector<uint32_t> words = WordsOf(module);
  // Capabilities come first.
  for (size_t at = kHeaderWords; at + 1 < words.size(); at += 2) {
    if ((words[at] & 0xffff) != static_cast<uint32_t>(spv::Op::OpCapability)) break;
    if (words[at + 1] == static_cast<uint32_t>(spirv::kCapabilityCooperativeMatrix)) return true;
  }
  return false;
}

std::string ValidateGpuImage(std::span<const uint8_t> code, size_t* matrix_modules) {
  const Result<GpuImage> image = ReadGpuImage(code);
  if (!image.ok()) return image.status().ToLine();
  if (image->kernels.empty()) return "The image has no kernel.";
  for (const GpuKernel& kernel : image->kernels) {
    const bool is_ours = HasCooperativeMatrices(kernel.module);
    if (is_ours && matrix_modules != nullptr) ++*matrix_modules;
    const std::string problems =
        is_ours ? CheckSpirvModule(WordsOf(kernel.module)) : ValidateSpirv(kernel.module);
    if (!problems.empty()) return "Kernel '" + std::string(kernel.name) + "': " + problems;
  }
  return "";
}

}  // namespace halyard::testing
