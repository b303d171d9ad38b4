// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace halyard::plan {
namespace {

constexpr PlanAlgorithm kAll[] = {PlanAlgorithm::kBest, PlanAlgorithm::kFirstFitByStart,
                                  PlanAlgorithm::kGreedyBySize, PlanAlgorithm::kBestFitBySize};

TEST(MemoryPlanTest, ChainReusesTwoSlots) {
  // Each value lives until the next step has read it: two are alive at a time.
  std::vector<LiveRange> ranges;
  for (int i = 0; i < 10; ++i) ranges.push_back({1000, i, i + 1});
  auto plan = PlanMemory(ranges, 64);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->arena_bytes, 2048);
  EXPECT_EQ(plan->lower_bound_bytes, 2048);
}

TEST(MemoryPlanTest, EmptyAndZeroSized) {
  EXPECT_EQ(PlanMemory({}, 64)->arena_bytes, 0);
  const LiveRange zero[] = {{0, 0, 5}, {0, 2, 3}};
  EXPECT_EQ(PlanMemory(zero, 64)->arena_bytes, 0);
}

TEST(MemoryPlanTest, RandomRangesNeverOverlapAndBestIsNeverWorse) {
  std::mt19937 random(7);
  double excess = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveRange> ranges;
    const int count = 1 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      const int64_t first = random() % 40;
      ranges.push_back({static_cast<int64_t>(random() % 5000), first,
                        first + static_cast<int64_t>(random() % 8)});
    }
    int64_t best = 0;
    for (PlanAlgorithm algorithm : kAll) {
      auto plan = PlanMemory(ranges, 64, algorithm);
      ASSERT_TRUE(plan.ok());
      EXPECT_TRUE(VerifyMemoryPlan(ranges, *plan).ok());
      EXPECT_GE(plan->arena_bytes, plan->lower_bound_bytes);
      if (algorithm == PlanAlgorithm::kBest) {
        best = plan->arena_bytes;
        excess += double(best) / double(std::max<int64_t>(plan->lower_bound_bytes, 1)) - 1;
      }
      EXPECT_LE(best, plan->arena_bytes);
    }
  }
  EXPECT_LT(excess / 200, 0.05);
}

TEST(MemoryPlanTest, TheCheckerFindsAnOverlap) {
  const LiveRange ranges[] = {{100, 0, 2}, {100, 1, 3}};
  MemoryPlan plan{{0, 64}, 164, 200};
  EXPECT_FALSE(VerifyMemoryPlan(ranges, plan).ok());
}

TEST(MemoryPlanTest, RefusesBadRangesAndOverflow) {
  const LiveRange negative[] = {{-1, 0, 1}};
  EXPECT_EQ(PlanMemory(negative, 64).status().code(), StatusCode::kInvalidArgument);
  const LiveRange reversed[] = {{1, 2, 1}};
  EXPECT_EQ(PlanMemory(reversed, 64).status().code(), StatusCode::kInvalidArgument);
  const LiveRange large[] = {{INT64_MAX / 2, 0, 1}, {INT64_MAX / 2, 0, 1}, {64, 0, 1}};
  EXPECT_EQ(PlanMemory(large, 64).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace halyard::plan
