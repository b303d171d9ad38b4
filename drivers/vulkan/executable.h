// SPDX-License-Identifier: Apache-2.0
// VulkanExecutable: the kernels of one GPU image as pipelines, numbered as the caller asked.
#pragma once

#include <vector>

#include "base/gpu_image.h"
#include "drivers/vulkan/vulkan_api.h"
#include "hal/executable.h"

namespace halyard::drivers::vulkan {

class VulkanDevice;

inline constexpr std::string_view kSpirvImageFormat = "spirv-image";

class VulkanExecutable final : public hal::Executable {
 public:
  // Compiles in parallel. See hal::Device::LoadExecutable.
  static Result<Ref<VulkanExecutable>> Load(Ref<VulkanDevice> device,
                                            const hal::ExecutableSource& source);
  explicit VulkanExecutable(Ref<VulkanDevice> device);
  ~VulkanExecutable() override;

  hal::Device* device() const override;
  std::span<const hal::ExecutableEntry> entries() const override { return entries_; }
  // Takes the address of its argument block as push constant.
  VkPipeline pipeline(uint32_t entry) const { return pipelines_[entry]; }

 private:
  Status Compile(const GpuImage& image, std::span<const size_t> kernels);

  Ref<VulkanDevice> device_;
  std::vector<hal::ExecutableEntry> entries_;
  std::vector<VkPipeline> pipelines_;  // parallel to entries_
};

}  // namespace halyard::drivers::vulkan
