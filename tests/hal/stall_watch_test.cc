// SPDX-License-Identifier: Apache-2.0
#include "hal/stall_watch.h"

#include <gtest/gtest.h>

namespace halyard::hal {
namespace {

using std::chrono::seconds;

// Looks once a second of its own time.
class StallWatchTest : public ::testing::Test {
 protected:
  bool Look(bool is_busy, uint64_t ended, int64_t after_s = 1) {
    now_ += seconds(after_s);
    return watch_.Look(is_busy, ended, now_);
  }

  StallWatch watch_{8};
  StallWatch::Clock::time_point now_ = StallWatch::Clock::now();
};

TEST_F(StallWatchTest, BusyWithoutAnEndForTheLimit) {
  EXPECT_EQ(watch_.period(), seconds(1));
  EXPECT_FALSE(Look(true, 0));
  for (int second = 1; second < 8; ++second) EXPECT_FALSE(Look(true, 0)) << second;
  EXPECT_TRUE(Look(true, 0));
}

TEST_F(StallWatchTest, AnEndStartsAnew) {
  for (uint64_t ended = 0; ended < 5; ++ended) {
    for (int second = 0; second < 8; ++second) EXPECT_FALSE(Look(true, ended)) << second;
  }
}

// What waits for the host, or for another device, is not busy.
TEST_F(StallWatchTest, IdleTimeDoesNotCount) {
  for (int second = 0; second < 100; ++second) EXPECT_FALSE(Look(false, 3));
  for (int second = 0; second < 8; ++second) EXPECT_FALSE(Look(true, 3)) << second;
  EXPECT_TRUE(Look(true, 3));
}

TEST_F(StallWatchTest, TimeWithoutALookDoesNotCount) {
  EXPECT_FALSE(Look(true, 0));
  EXPECT_FALSE(Look(true, 0, 3600));
  EXPECT_FALSE(Look(true, 0, 3600));
}

TEST_F(StallWatchTest, NoLimitIsNever) {
  watch_ = StallWatch(0);
  EXPECT_FALSE(watch_.is_on());
  for (int second = 0; second < 100; ++second) EXPECT_FALSE(Look(true, 0));
}

}  // namespace
}  // namespace halyard::hal
