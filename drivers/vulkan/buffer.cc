// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/buffer.h"

#include <algorithm>

#include "drivers/vulkan/device.h"

namespace halyard::drivers::vulkan {

VulkanBuffer::VulkanBuffer(Ref<VulkanDevice> device, hal::MemoryKind kind,
                           const Allocation& allocation, int64_t start, int64_t size_bytes,
                           int64_t charged_bytes, std::function<void()> release)
    : device_(std::move(device)),
      kind_(kind),
      allocation_(allocation),
      start_(static_cast<uint64_t>(start)),
      size_bytes_(size_bytes),
      charged_bytes_(charged_bytes),
      release_(std::move(release)) {}

VulkanBuffer::~VulkanBuffer() {
  device_->memory().Free(allocation_);
  if (release_) release_();
  device_->ReturnMemory(charged_bytes_);
}

hal::Device* VulkanBuffer::device() const { return device_.get(); }

Result<uint8_t*> VulkanBuffer::Map(int64_t offset, int64_t size_bytes) {
  HY_TRY(hal::CheckRange("A mapping", offset, size_bytes, size_bytes_));
  if (!allocation_.mapped()) {
    return Incompatible("The host cannot address {} memory of '{}'.", hal::FormatMemoryKind(kind_),
                        device_->path());
  }
  return allocation_.mapped() + start_ + offset;
}

bool VulkanBuffer::MappedRange(int64_t offset, int64_t size_bytes,
                               VkMappedMemoryRange* range) const {
  VkMemoryPropertyFlags flags = device_->memory().flags(allocation_.block->type);
  if (!allocation_.mapped() || (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) || size_bytes == 0) {
    return false;
  }
  const uint64_t atom = device_->handle().physical->properties.limits.nonCoherentAtomSize;
  uint64_t begin = buffer_offset() + static_cast<uint64_t>(offset);
  uint64_t end = begin + static_cast<uint64_t>(size_bytes);
  *range = Typed<VkMappedMemoryRange>(VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE);
  range->memory = allocation_.block->memory;
  range->offset = begin / atom * atom;
  end = (end + atom - 1) / atom * atom;
  range->size = end >= allocation_.block->size_bytes ? VK_WHOLE_SIZE : end - range->offset;
  return true;
}

Status VulkanBuffer::FlushMapped(int64_t offset, int64_t size_bytes) {
  HY_TRY(hal::CheckRange("A flush", offset, size_bytes, size_bytes_));
  VkMappedMemoryRange range;
  if (!MappedRange(offset, size_bytes, &range)) return OkStatus();
  const DeviceHandle& handle = device_->handle();
  return StatusFromVk(handle.vk.vkFlushMappedMemoryRanges(handle.device, 1, &range),
                      "vkFlushMappedMemoryRanges");
}

Status VulkanBuffer::InvalidateMapped(int64_t offset, int64_t size_bytes) {
  HY_TRY(hal::CheckRange("An invalidation", offset, size_bytes, size_bytes_));
  VkMappedMemoryRange range;
  if (!MappedRange(offset, size_bytes, &range)) return OkStatus();
  const DeviceHandle& handle = device_->handle();
  return StatusFromVk(handle.vk.vkInvalidateMappedMemoryRanges(handle.device, 1, &range),
                      "vkInvalidateMappedMemoryRanges");
}

}  // namespace halyard::drivers::vulkan
