// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/busy_threads.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace halyard::drivers::vulkan {
namespace {

constexpr std::chrono::seconds kMostAtExit{2};

// Never destroyed: threads may outlive every static object.
struct Count {
  std::mutex mutex;
  std::condition_variable changed;
  int busy = 0;
};

Count& TheCount();

void WaitAtExit() {
  Count& count = TheCount();
  std::unique_lock lock(count.mutex);
  count.changed.wait_for(lock, kMostAtExit, [&] { return count.busy == 0; });
}

// Made by the first thread, so after the loader was opened: exit runs the handler before the
// loader's own.
Count& TheCount() {
  static Count* count = [] {
    std::atexit(WaitAtExit);
    return new Count;
  }();
  return *count;
}

void Add(int change) {
  Count& count = TheCount();
  std::lock_guard lock(count.mutex);
  count.busy += change;
  if (count.busy == 0) count.changed.notify_all();
}

}  // namespace

BusyThread::BusyThread() { Add(1); }
BusyThread::~BusyThread() { Add(-1); }
void BusyThread::Rest() { Add(-1); }
void BusyThread::Resume() { Add(1); }

}  // namespace halyard::drivers::vulkan
