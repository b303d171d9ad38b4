// SPDX-License-Identifier: Apache-2.0
// VulkanBuffer: a range of device memory under the HAL's rules. Every buffer has a device address.
#pragma once

#include <functional>

#include "drivers/vulkan/memory.h"
#include "hal/buffer.h"

namespace halyard::drivers::vulkan {

class VulkanDevice;

class VulkanBuffer final : public hal::Buffer {
 public:
  static constexpr int64_t kAlignment = 64;

  // Adopts the allocation. `start`: where the buffer begins in it. `charged_bytes` are given back
  // to the device, and `release` (may be empty) is called, at the end.
  VulkanBuffer(Ref<VulkanDevice> device, hal::MemoryKind kind, const Allocation& allocation,
               int64_t start, int64_t size_bytes, int64_t charged_bytes,
               std::function<void()> release);
  ~VulkanBuffer() override;

  hal::Device* device() const override;
  hal::MemoryKind kind() const override { return kind_; }
  int64_t size_bytes() const override { return size_bytes_; }
  Result<uint8_t*> Map(int64_t offset, int64_t size_bytes) override;
  Status FlushMapped(int64_t offset, int64_t size_bytes) override;
  Status InvalidateMapped(int64_t offset, int64_t size_bytes) override;

  VkDeviceAddress address() const { return allocation_.address() + start_; }
  VkBuffer buffer() const { return allocation_.buffer(); }
  // Of the buffer's first byte in buffer().
  uint64_t buffer_offset() const { return allocation_.offset + start_; }

 private:
  // The range for vkFlush... and vkInvalidate..., null type when the memory is coherent.
  bool MappedRange(int64_t offset, int64_t size_bytes, VkMappedMemoryRange* range) const;

  Ref<VulkanDevice> device_;
  hal::MemoryKind kind_;
  Allocation allocation_;
  uint64_t start_;
  int64_t size_bytes_;
  int64_t charged_bytes_;
  std::function<void()> release_;
};

}  // namespace halyard::drivers::vulkan
