// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/ended_points.h"

#include <gtest/gtest.h>

#include <vector>

namespace halyard::drivers::vulkan {
namespace {

struct Wait {
  QueuePoint point;
};

TEST(EndedPoints, WhatTheQueuesReachedIsOver) {
  uint64_t completed[2] = {3, 5};
  EndedPoints ended(completed);
  EXPECT_TRUE(ended.Take({0, 3}, std::vector<Wait>{{{1, 5}}, {}}));
  EXPECT_FALSE(ended.Take({0, 4}, std::vector<Wait>{}));
  EXPECT_FALSE(ended.Take({1, 5}, std::vector<Wait>{{{0, 4}}}));
}

// A kernel, a copy of its result, and a copy behind that: the queue of copies was looked at after
// that of kernels, and all three had ended in between.
TEST(EndedPoints, NothingIsOverBeforeWhatItWaitedFor) {
  uint64_t completed[2] = {6, 9};
  EndedPoints ended(completed);
  EXPECT_FALSE(ended.Take({0, 7}, std::vector<Wait>{}));
  EXPECT_FALSE(ended.Take({1, 8}, std::vector<Wait>{{{0, 7}}}));
  EXPECT_FALSE(ended.Take({1, 9}, std::vector<Wait>{{{1, 8}}}));
  // On a third queue, behind a copy.
  uint64_t again[3] = {7, 9, 1};
  EndedPoints later(again);
  EXPECT_TRUE(later.Take({0, 7}, std::vector<Wait>{}));
  EXPECT_TRUE(later.Take({1, 8}, std::vector<Wait>{{{0, 7}}}));
  EXPECT_TRUE(later.Take({1, 9}, std::vector<Wait>{{{1, 8}}}));
  EXPECT_TRUE(later.Take({2, 1}, std::vector<Wait>{{{1, 9}}}));
}

}  // namespace
}  // namespace halyard::drivers::vulkan
