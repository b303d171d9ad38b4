// SPDX-License-Identifier: Apache-2.0
#include "base/thread_end.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace halyard {
namespace {

constexpr std::chrono::seconds kMostAtExit{2};

// Never destroyed: threads may outlive every static object.
struct LeftThreads {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::thread> running;
  std::vector<std::thread> returned;
  bool is_exiting = false;  // nobody joins any more
};

LeftThreads& TheLeftThreads();

void JoinAtExit() {
  LeftThreads& left = TheLeftThreads();
  {
    std::unique_lock lock(left.mutex);
    left.is_exiting = true;
    // The thread that calls exit cannot wait for itself.
    left.changed.wait_for(lock, kMostAtExit, [&] {
      return std::all_of(left.running.begin(), left.running.end(), [](const std::thread& each) {
        return each.get_id() == std::this_thread::get_id();
      });
    });
  }
  JoinLeftThreads();
}

LeftThreads& TheLeftThreads() {
  static LeftThreads* left = [] {
    std::atexit(JoinAtExit);
    return new LeftThreads;
  }();
  return *left;
}

// Before any thread: what registers while the process exits may never be called.
[[maybe_unused]] const LeftThreads& g_left_threads = TheLeftThreads();

// Destroyed when the function of its thread has returned.
struct Farewell {
  bool is_left = false;

  ~Farewell() {
    if (!is_left) return;
    LeftThreads& left = TheLeftThreads();
    std::lock_guard lock(left.mutex);
    auto self = std::find_if(left.running.begin(), left.running.end(), [](const auto& each) {
      return each.get_id() == std::this_thread::get_id();
    });
    if (self == left.running.end()) return;
    left.returned.push_back(std::move(*self));
    left.running.erase(self);
    left.changed.notify_all();
  }
};

thread_local Farewell t_farewell;

}  // namespace

void JoinOrLeave(std::thread& thread) {
  if (!thread.joinable()) return;
  if (thread.get_id() != std::this_thread::get_id()) {
    thread.join();
    JoinLeftThreads();
    return;
  }
  LeftThreads& left = TheLeftThreads();
  std::lock_guard lock(left.mutex);
  if (left.is_exiting) return thread.detach();
  t_farewell.is_left = true;
  left.running.push_back(std::move(thread));
}

size_t JoinLeftThreads() {
  LeftThreads& left = TheLeftThreads();
  std::vector<std::thread> returned;
  size_t running = 0;
  {
    std::lock_guard lock(left.mutex);
    returned.swap(left.returned);
    running = left.running.size();
  }
  for (std::thread& thread : returned) thread.join();
  return running;
}

}  // namespace halyard
