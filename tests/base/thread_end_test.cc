// SPDX-License-Identifier: Apache-2.0
#include "base/thread_end.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>

namespace halyard {
namespace {

TEST(ThreadEnd, JoinsAnotherThread) {
  bool ran = false;
  std::thread thread([&] { ran = true; });
  JoinOrLeave(thread);
  EXPECT_TRUE(ran);
  EXPECT_FALSE(thread.joinable());
  JoinOrLeave(thread);  // no thread: nothing to do
}

TEST(ThreadEnd, AThreadThatEndsItselfIsJoinedAfterItHasReturned) {
  ASSERT_EQ(JoinLeftThreads(), 0u);
  std::thread thread;
  std::promise<void> started, left, gate;
  thread = std::thread([&] {
    started.get_future().wait();  // `thread` has its value
    JoinOrLeave(thread);
    left.set_value();
    gate.get_future().wait();
  });
  started.set_value();
  left.get_future().wait();
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(JoinLeftThreads(), 1u);  // it still runs, and nobody waits for it
  gate.set_value();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (JoinLeftThreads() > 0 && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(JoinLeftThreads(), 0u);
}

[[noreturn]] void ExitBeforeTheThreadReturns() {
  static std::thread thread;
  static std::promise<void> started, left;
  thread = std::thread([] {
    started.get_future().wait();
    JoinOrLeave(thread);
    left.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::fputs("The thread returned.\n", stderr);
  });
  started.set_value();
  left.get_future().wait();
  std::exit(0);
}

// What LeakSanitizer and an unloaded library need: exit leaves no such thread running.
TEST(ThreadEndDeathTest, ExitWaitsForAThreadThatEndsItself) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ExitBeforeTheThreadReturns(), testing::ExitedWithCode(0), "The thread returned");
}

}  // namespace
}  // namespace halyard
