// SPDX-License-Identifier: Apache-2.0
// PipelineCache: the vendor's cache of compiled kernels, kept in a file of the cache folder between
// processes. The file belongs to one device under one driver version; anything else in it is
// ignored. Losing it costs time only, so nothing here fails.
#pragma once

#include <memory>
#include <string>

#include "drivers/vulkan/device_handle.h"

namespace halyard::drivers::vulkan {

class PipelineCache {
 public:
  // Starts with what the file holds, when it fits the device.
  explicit PipelineCache(std::shared_ptr<DeviceHandle> device);
  ~PipelineCache();  // saves

  // May be VK_NULL_HANDLE, which every call that takes a cache accepts. Thread-safe.
  VkPipelineCache handle() const { return handle_; }
  // Writes the file when the cache has grown. Not thread-safe.
  void Save();

 private:
  std::shared_ptr<DeviceHandle> device_;
  VkPipelineCache handle_ = VK_NULL_HANDLE;
  std::string path_;  // empty: no file
  size_t saved_bytes_ = 0;
};

}  // namespace halyard::drivers::vulkan
