// SPDX-License-Identifier: Apache-2.0
// RangeAllocator: hands out ranges of one block, best fit first, and joins what is given back. It
// touches no memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace halyard::drivers::vulkan {

// Sizes are multiples of kGrain and not 0; so are the offsets. Not thread-safe.
class RangeAllocator {
 public:
  static constexpr uint64_t kGrain = 256;

  explicit RangeAllocator(uint64_t size);
  // Nothing when no free range is long enough.
  std::optional<uint64_t> Allocate(uint64_t size);
  // A range that Allocate gave, whole.
  void Free(uint64_t offset, uint64_t size);
  bool is_empty() const { return free_bytes_ == size_; }
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest_free() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  void Insert(uint64_t offset, uint64_t size);
  void Erase(std::map<uint64_t, uint64_t>::iterator range);

  const uint64_t size_;
  uint64_t free_bytes_ = 0;
  std::map<uint64_t, uint64_t> by_offset_;           // free ranges: offset, size
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // the same: size, offset
};

}  // namespace halyard::drivers::vulkan
