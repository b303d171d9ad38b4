// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/memory.h"

#include <algorithm>

#include "base/check.h"
#include "drivers/vulkan/exit_guard.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr VkBufferUsageFlags kUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
    VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
// A window of the host into device memory that is smaller than this is left to others.
constexpr uint64_t kSmallWindowBytes = uint64_t{1} << 30;

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags kCoherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

// How well a type suits a use; negative: not at all.
int Score(MemoryUse use, VkMemoryPropertyFlags flags, uint64_t heap_bytes, bool is_unified) {
  bool is_local = flags & kLocal, is_visible = flags & kVisible;
  bool is_coherent = flags & kCoherent, is_cached = flags & kCached;
  if (flags & (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
               VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD)) {
    return -1;
  }
  switch (use) {
    case MemoryUse::kDevice:
      // With one memory for both, the host may as well address it.
      return 8 * is_local + (is_visible == is_unified ? 4 : 0) + is_cached;
    case MemoryUse::kHost:
      if (!is_visible) return -1;
      return 8 * is_cached + 4 * is_coherent + (is_local == is_unified ? 2 : 0);
    case MemoryUse::kUpload:
      if (!is_visible || !is_coherent) return -1;
      return (is_local && heap_bytes > kSmallWindowBytes ? 8 : 0) + (is_local ? 0 : 4);
  }
  return -1;
}

}  // namespace

Result<std::unique_ptr<MemoryPools>> MemoryPools::Make(std::shared_ptr<DeviceHandle> device,
                                                       int64_t fail_allocation) {
  std::unique_ptr<MemoryPools> pools(new MemoryPools(std::move(device), fail_allocation));
  HY_TRY(pools->ChooseTypes());
  return pools;
}

MemoryPools::~MemoryPools() {
  for (auto& blocks : blocks_) {
    for (auto& block : blocks) Destroy(block.get());
  }
}

// Both families use a buffer without handing it over to each other.
VkBufferCreateInfo MemoryPools::BufferInfo(uint64_t size_bytes) const {
  auto info = Typed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = size_bytes;
  info.usage = kUsage;
  info.sharingMode =
      families_[0] == families_[1] ? VK_SHARING_MODE_EXCLUSIVE : VK_SHARING_MODE_CONCURRENT;
  info.queueFamilyIndexCount = 2;
  info.pQueueFamilyIndices = families_;
  return info;
}

Status MemoryPools::ChooseTypes() {
  families_[0] = device_->compute_family;
  families_[1] = device_->transfer_family;
  VkBufferCreateInfo info = BufferInfo(RangeAllocator::kGrain);
  VkBuffer buffer = VK_NULL_HANDLE;
  HY_TRY(StatusFromVk(device_->vk.vkCreateBuffer(device_->device, &info, nullptr, &buffer),
                      "vkCreateBuffer"));
  VkMemoryRequirements needs = {};
  device_->vk.vkGetBufferMemoryRequirements(device_->device, buffer, &needs);
  device_->vk.vkDestroyBuffer(device_->device, buffer, nullptr);
  const VkPhysicalDeviceMemoryProperties& memory = device_->physical->memory;
  for (int use = 0; use < kMemoryUses; ++use) {
    int best = -1;
    for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
      if (!(needs.memoryTypeBits >> type & 1)) continue;
      int score = Score(static_cast<MemoryUse>(use), memory.memoryTypes[type].propertyFlags,
                        memory.memoryHeaps[HeapOf(type)].size, device_->physical->is_unified());
      if (score > best) {
        best = score;
        types_[use] = type;
      }
    }
    if (best < 0) {
      return Incompatible("'{}' has no memory that the host can write and buffers can live in.",
                          device_->physical->name());
    }
  }
  for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
    uint64_t part = memory.memoryHeaps[HeapOf(type)].size / 64;
    block_bytes_[type] = std::clamp<uint64_t>(part, uint64_t{1} << 20, uint64_t{64} << 20) /
                         RangeAllocator::kGrain * RangeAllocator::kGrain;
  }
  return OkStatus();
}

uint32_t MemoryPools::HeapOf(uint32_t type) const {
  return device_->physical->memory.memoryTypes[type].heapIndex;
}

VkMemoryPropertyFlags MemoryPools::flags(uint32_t type) const {
  return device_->physical->memory.memoryTypes[type].propertyFlags;
}

bool MemoryPools::is_mappable(MemoryUse use) const {
  return (flags(types_[static_cast<int>(use)]) & kVisible) != 0;
}

bool MemoryPools::is_coherent(MemoryUse use) const {
  return (flags(types_[static_cast<int>(use)]) & kCoherent) != 0;
}

uint64_t MemoryPools::heap_bytes(MemoryUse use) const {
  return device_->physical->memory.memoryHeaps[HeapOf(types_[static_cast<int>(use)])].size;
}

int64_t MemoryPools::BytesLeft(MemoryUse use) const {
  uint32_t heap = HeapOf(types_[static_cast<int>(use)]);
  uint64_t limit = device_->physical->memory.memoryHeaps[heap].size, used = 0;
  if (device_->physical->Has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) && !AreDriversForgotten()) {
    auto budget = Typed<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    auto properties = Typed<VkPhysicalDeviceMemoryProperties2>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2);
    properties.pNext = &budget;
    vkGetPhysicalDeviceMemoryProperties2(device_->physical->handle, &properties);
    limit = budget.heapBudget[heap];
    used = budget.heapUsage[heap];
  } else {
    std::lock_guard lock(mutex_);
    used = heap_used_[heap];
  }
  return static_cast<int64_t>(limit > used ? limit - used : 0);
}

Result<std::unique_ptr<MemoryBlock>> MemoryPools::MakeBlock(uint32_t type, uint64_t size_bytes,
                                                            void* imported) {
  auto block = std::make_unique<MemoryBlock>(size_bytes);
  block->type = type;
  block->size_bytes = size_bytes;
  const DeviceFunctions& vk = device_->vk;
  VkDevice device = device_->device;
  auto make = [&]() -> Status {
    VkBufferCreateInfo info = BufferInfo(size_bytes);
    auto external = Typed<VkExternalMemoryBufferCreateInfo>(
        VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
    external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    if (imported) info.pNext = &external;
    HY_TRY(
        StatusFromVk(vk.vkCreateBuffer(device, &info, nullptr, &block->buffer), "vkCreateBuffer"));
    VkMemoryRequirements needs = {};
    vk.vkGetBufferMemoryRequirements(device, block->buffer, &needs);
    auto allocate = Typed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    allocate.allocationSize = imported ? size_bytes : needs.size;
    allocate.memoryTypeIndex = type;
    auto flags = Typed<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    Chain(&allocate, &flags);
    auto host = Typed<VkImportMemoryHostPointerInfoEXT>(
        VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
    host.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    host.pHostPointer = imported;
    if (imported) Chain(&allocate, &host);
    HY_TRY(StatusFromVk(vk.vkAllocateMemory(device, &allocate, nullptr, &block->memory),
                        "vkAllocateMemory"));
    HY_TRY(StatusFromVk(vk.vkBindBufferMemory(device, block->buffer, block->memory, 0),
                        "vkBindBufferMemory"));
    if (imported) {
      block->mapped = static_cast<uint8_t*>(imported);
    } else if (this->flags(type) & kVisible) {
      void* mapped = nullptr;
      HY_TRY(StatusFromVk(vk.vkMapMemory(device, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                          "vkMapMemory"));
      block->mapped = static_cast<uint8_t*>(mapped);
    }
    auto address = Typed<VkBufferDeviceAddressInfo>(VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO);
    address.buffer = block->buffer;
    block->address = vk.vkGetBufferDeviceAddress(device, &address);
    return OkStatus();
  };
  Status status = make();
  if (!status.ok()) {
    Destroy(block.get());
    return status;
  }
  return block;
}

void MemoryPools::Destroy(MemoryBlock* block) {
  device_->vk.vkDestroyBuffer(device_->device, block->buffer, nullptr);
  device_->vk.vkFreeMemory(device_->device, block->memory, nullptr);
}

Result<Allocation> MemoryPools::Allocate(MemoryUse use, int64_t size_bytes) {
  constexpr uint64_t kGrain = RangeAllocator::kGrain;
  if (size_bytes > INT64_MAX / 2) return OutOfMemory("The size is beyond every limit.");
  uint64_t size =
      std::max<uint64_t>((static_cast<uint64_t>(size_bytes) + kGrain - 1) / kGrain, 1) * kGrain;
  uint64_t limit = std::min<uint64_t>(device_->physical->v11.maxMemoryAllocationSize,
                                      device_->physical->max_buffer_bytes);
  if (size > limit) {
    return OutOfMemory("One allocation may have {} bytes at most.", limit);
  }
  uint32_t type = types_[static_cast<int>(use)], heap = HeapOf(type);
  std::lock_guard lock(mutex_);
  if (++allocation_count_ == fail_allocation_) {
    return OutOfMemory("The option 'fail_allocation' is {}.", fail_allocation_);
  }
  std::vector<std::unique_ptr<MemoryBlock>>& blocks = blocks_[type];
  bool is_shared = size <= block_bytes_[type] / 2;
  if (is_shared) {
    for (auto& block : blocks) {
      if (!block->is_shared) continue;
      if (auto offset = block->ranges.Allocate(size)) return Allocation{block.get(), *offset, size};
    }
  }
  uint64_t block_bytes = is_shared ? std::min(block_bytes_[type], limit) : size;
  uint64_t heap_bytes = device_->physical->memory.memoryHeaps[heap].size;
  // Some drivers promise more than there is and fail later.
  if (block_bytes > heap_bytes - std::min(heap_used_[heap], heap_bytes)) {
    block_bytes = size;
    is_shared = false;
    if (size > heap_bytes - std::min(heap_used_[heap], heap_bytes)) {
      return OutOfMemory("The heap has {} bytes.", heap_bytes);
    }
  }
  Result<std::unique_ptr<MemoryBlock>> made = MakeBlock(type, block_bytes, nullptr);
  if (!made.ok() && made.status().code() == StatusCode::kOutOfMemory && block_bytes > size) {
    block_bytes = size;
    is_shared = false;
    made = MakeBlock(type, size, nullptr);
  }
  HY_TRY(made);
  std::unique_ptr<MemoryBlock> block = std::move(made).value();
  block->is_shared = is_shared;
  heap_used_[heap] += block_bytes;
  auto offset = block->ranges.Allocate(size);
  HY_CHECK(offset.has_value(), "a new block of {} bytes has no room for {}", block_bytes, size);
  Allocation allocation{block.get(), *offset, size};
  blocks.push_back(std::move(block));
  return allocation;
}

Result<Allocation> MemoryPools::Import(void* address, uint64_t size_bytes) {
  auto properties =
      Typed<VkMemoryHostPointerPropertiesEXT>(VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT);
  VkResult result = device_->vk.vkGetMemoryHostPointerPropertiesEXT(
      device_->device, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, address,
      &properties);
  if (result != VK_SUCCESS || properties.memoryTypeBits == 0) {
    return Incompatible("'{}' cannot use host memory at {} in place.", device_->physical->name(),
                        address);
  }
  uint32_t type = types_[static_cast<int>(MemoryUse::kHost)];
  if (!(properties.memoryTypeBits >> type & 1)) {
    type = static_cast<uint32_t>(__builtin_ctz(properties.memoryTypeBits));
  }
  Result<std::unique_ptr<MemoryBlock>> made = MakeBlock(type, size_bytes, address);
  if (!made.ok()) {
    return Incompatible("'{}' cannot use host memory at {} in place: {}", device_->physical->name(),
                        address, made.status().message());
  }
  Allocation allocation{made->get(), 0, size_bytes};
  std::lock_guard lock(mutex_);
  blocks_[type].push_back(std::move(made).value());
  heap_used_[HeapOf(type)] += size_bytes;
  return allocation;
}

void MemoryPools::Free(const Allocation& allocation) {
  if (!allocation.block) return;
  std::unique_ptr<MemoryBlock> dying;
  {
    std::lock_guard lock(mutex_);
    MemoryBlock* block = allocation.block;
    std::vector<std::unique_ptr<MemoryBlock>>& blocks = blocks_[block->type];
    if (block->is_shared) {
      block->ranges.Free(allocation.offset, allocation.size_bytes);
      if (!block->ranges.is_empty()) return;
      // One empty block per type stays, for those who allocate and free in turn.
      bool has_other = std::any_of(blocks.begin(), blocks.end(), [block](const auto& other) {
        return other.get() != block && other->is_shared && other->ranges.is_empty();
      });
      if (!has_other) return;
    }
    auto place = std::find_if(blocks.begin(), blocks.end(),
                              [block](const auto& other) { return other.get() == block; });
    dying = std::move(*place);
    blocks.erase(place);
    heap_used_[HeapOf(dying->type)] -= dying->size_bytes;
  }
  Destroy(dying.get());
}

}  // namespace halyard::drivers::vulkan
