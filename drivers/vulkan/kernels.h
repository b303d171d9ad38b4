// SPDX-License-Identifier: Apache-2.0
// Making compute pipelines, and the driver's own ones for copies and fills.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/pipeline_cache.h"

namespace halyard::drivers::vulkan {

struct PipelineInfo {
  std::span<const uint32_t> words;
  std::string name;            // of the entry point
  uint32_t subgroup_size = 0;  // required; 0: any
  bool has_full_subgroups = false;
};

// Makes pipelines for one device; all of them have one layout of kMaxPushConstantBytes of push
// constants. Thread-safe.
class Kernels {
 public:
  static Result<std::unique_ptr<Kernels>> Make(std::shared_ptr<DeviceHandle> device);
  ~Kernels();

  Result<VkPipeline> MakePipeline(const PipelineInfo& info) const;
  void Destroy(VkPipeline pipeline) const;
  void SaveCache() { cache_.Save(); }

  VkPipelineLayout layout() const { return layout_; }
  // Arguments as push constants, or in a block whose address is the push constant.
  VkPipeline copy(bool is_block) const { return copy_[is_block]; }
  VkPipeline fill(bool is_block) const { return fill_[is_block]; }

 private:
  explicit Kernels(std::shared_ptr<DeviceHandle> device)
      : device_(std::move(device)), cache_(device_) {}
  Status MakeOwn();

  std::shared_ptr<DeviceHandle> device_;
  PipelineCache cache_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline copy_[2] = {VK_NULL_HANDLE, VK_NULL_HANDLE};
  VkPipeline fill_[2] = {VK_NULL_HANDLE, VK_NULL_HANDLE};
};

}  // namespace halyard::drivers::vulkan
