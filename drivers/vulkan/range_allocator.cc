// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/range_allocator.h"

#include <iterator>

namespace halyard::drivers::vulkan {

RangeAllocator::RangeAllocator(uint64_t size) : size_(size / kGrain * kGrain) { Insert(0, size_); }

void RangeAllocator::Insert(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  by_offset_.emplace(offset, size);
  by_size_.emplace(size, offset);
  free_bytes_ += size;
}

void RangeAllocator::Erase(std::map<uint64_t, uint64_t>::iterator range) {
  free_bytes_ -= range->second;
  by_size_.erase({range->second, range->first});
  by_offset_.erase(range);
}

std::optional<uint64_t> RangeAllocator::Allocate(uint64_t size) {
  auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return std::nullopt;
  auto [have, offset] = *found;
  Erase(by_offset_.find(offset));
  Insert(offset + size, have - size);
  return offset;
}

void RangeAllocator::Free(uint64_t offset, uint64_t size) {
  auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      Erase(before);
    }
  }
  if (after != by_offset_.end() && offset + size == after->first) {
    size += after->second;
    Erase(after);
  }
  Insert(offset, size);
}

}  // namespace halyard::drivers::vulkan
