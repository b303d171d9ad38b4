// SPDX-License-Identifier: Apache-2.0
// Memory: device memory in blocks, each under one VkBuffer, and the ranges that are handed out of
// them. It counts nothing for users; drivers/vulkan/device.h does.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/range_allocator.h"

namespace halyard::drivers::vulkan {

enum class MemoryUse : uint8_t {
  kDevice,  // fastest for the device
  kHost,    // the host reads it fast
  kUpload,  // small things that the host writes and the device reads: coherent, never flushed
};
inline constexpr int kMemoryUses = 3;

struct MemoryBlock {
  explicit MemoryBlock(uint64_t size) : ranges(size) {}
  uint32_t type = 0;
  uint64_t size_bytes = 0;
  bool is_shared = false;  // holds more than one range
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceAddress address = 0;
  uint8_t* mapped = nullptr;  // null when the host cannot address it
  RangeAllocator ranges;
};

// A range of a block. Plain data; goes back through MemoryPools::Free.
struct Allocation {
  MemoryBlock* block = nullptr;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;

  VkBuffer buffer() const { return block->buffer; }
  VkDeviceAddress address() const { return block->address + offset; }
  uint8_t* mapped() const { return block->mapped ? block->mapped + offset : nullptr; }
};

// Thread-safe.
class MemoryPools {
 public:
  // `fail_allocation`: see VulkanOptions.
  static Result<std::unique_ptr<MemoryPools>> Make(std::shared_ptr<DeviceHandle> device,
                                                   int64_t fail_allocation = 0);
  ~MemoryPools();

  // At a multiple of RangeAllocator::kGrain; size 0 still has an address of its own. OUT_OF_MEMORY
  // or DEVICE_LOST says what the API answered or which limit was met.
  Result<Allocation> Allocate(MemoryUse use, int64_t size_bytes);
  // Host memory in place; `address` and `size_bytes` are multiples of the device's alignment for
  // it. INCOMPATIBLE when the device refuses.
  Result<Allocation> Import(void* address, uint64_t size_bytes);
  void Free(const Allocation& allocation);

  // What this process may still allocate for that use, by the driver's budget where it tells.
  int64_t BytesLeft(MemoryUse use) const;
  bool is_mappable(MemoryUse use) const;
  bool is_coherent(MemoryUse use) const;
  VkMemoryPropertyFlags flags(uint32_t type) const;
  uint64_t heap_bytes(MemoryUse use) const;

 private:
  MemoryPools(std::shared_ptr<DeviceHandle> device, int64_t fail_allocation)
      : device_(std::move(device)), fail_allocation_(fail_allocation) {}
  Status ChooseTypes();
  VkBufferCreateInfo BufferInfo(uint64_t size_bytes) const;
  Result<std::unique_ptr<MemoryBlock>> MakeBlock(uint32_t type, uint64_t size_bytes,
                                                 void* imported);
  void Destroy(MemoryBlock* block);
  uint32_t HeapOf(uint32_t type) const;

  std::shared_ptr<DeviceHandle> device_;
  const int64_t fail_allocation_;
  uint32_t families_[2] = {0, 0};
  uint32_t types_[kMemoryUses] = {};
  uint64_t block_bytes_[VK_MAX_MEMORY_TYPES] = {};
  mutable std::mutex mutex_;
  int64_t allocation_count_ = 0;
  uint64_t heap_used_[VK_MAX_MEMORY_HEAPS] = {};
  std::vector<std::unique_ptr<MemoryBlock>> blocks_[VK_MAX_MEMORY_TYPES];
};

}  // namespace halyard::drivers::vulkan
