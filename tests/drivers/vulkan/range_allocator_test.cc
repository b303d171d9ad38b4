// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/range_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace halyard::drivers::vulkan {
namespace {

constexpr uint64_t kGrain = RangeAllocator::kGrain;

TEST(VulkanRangeAllocator, RangesNeverOverlapAndJoinAgain) {
  constexpr uint64_t kSize = 1000 * kGrain;
  RangeAllocator ranges(kSize);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  std::vector<bool> is_used(kSize / kGrain, false);
  std::mt19937 random(3);
  uint64_t used = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 5 < 3) {
      uint64_t size = (1 + random() % 40) * kGrain;
      auto offset = ranges.Allocate(size);
      if (!offset) {
        // Only a lack of one long enough range is a reason.
        ASSERT_LT(ranges.largest_free(), size);
        continue;
      }
      ASSERT_EQ(*offset % kGrain, 0u);
      ASSERT_LE(*offset + size, kSize);
      for (uint64_t at = *offset / kGrain; at < (*offset + size) / kGrain; ++at) {
        ASSERT_FALSE(is_used[at]);
        is_used[at] = true;
      }
      live.push_back({*offset, size});
      used += size;
    } else if (!live.empty()) {
      size_t i = random() % live.size();
      auto [offset, size] = live[i];
      live[i] = live.back();
      live.pop_back();
      for (uint64_t at = offset / kGrain; at < (offset + size) / kGrain; ++at) is_used[at] = false;
      ranges.Free(offset, size);
      used -= size;
    }
    ASSERT_EQ(ranges.free_bytes(), kSize - used);
  }
  for (auto [offset, size] : live) ranges.Free(offset, size);
  EXPECT_TRUE(ranges.is_empty());
  EXPECT_EQ(ranges.largest_free(), kSize);
}

TEST(VulkanRangeAllocator, TheBestFitIsTaken) {
  RangeAllocator ranges(10 * kGrain);
  uint64_t a = *ranges.Allocate(3 * kGrain);
  ASSERT_TRUE(ranges.Allocate(1 * kGrain));
  uint64_t c = *ranges.Allocate(2 * kGrain);
  ASSERT_TRUE(ranges.Allocate(4 * kGrain));
  EXPECT_FALSE(ranges.Allocate(kGrain));
  ranges.Free(a, 3 * kGrain);
  ranges.Free(c, 2 * kGrain);
  EXPECT_EQ(*ranges.Allocate(2 * kGrain), c);
  EXPECT_EQ(*ranges.Allocate(3 * kGrain), a);
}

}  // namespace
}  // namespace halyard::drivers::vulkan
