// SPDX-License-Identifier: Apache-2.0
// PointWait: lets a host thread sleep until semaphore points are reached. The building block of
// Device::Wait; it runs no work itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.h"
#include "hal/semaphore.h"

namespace halyard::hal {

using Deadline = std::chrono::steady_clock::time_point;

// `timeout_ns` from now; Deadline::max() for kInfiniteTimeout and whatever would overflow.
Deadline DeadlineAfter(int64_t timeout_ns);

// What the points say right now, without registering anything. True: decided, `out_status` (and the
// index for kAny) hold the answer of Device::Wait.
bool CheckPoints(std::span<const SemaphorePoint> points, WaitMode mode, Status* out_status,
                 size_t* out_index);

// Device::Wait for devices whose queues need no help from the waiting thread.
Status WaitAsleep(std::span<const SemaphorePoint> points, WaitMode mode, int64_t timeout_ns,
                  size_t* out_index);

// Registered with its points from construction to destruction. One thread owns and sleeps in it;
// Poke and the notifications come from any thread. The points and semaphores outlive it.
class PointWait {
 public:
  PointWait(std::span<const SemaphorePoint> points, WaitMode mode);
  ~PointWait();
  PointWait(const PointWait&) = delete;
  PointWait& operator=(const PointWait&) = delete;

  bool is_done() const { return is_done_.load(std::memory_order_acquire); }
  // After is_done: the answer of Device::Wait.
  Status Take(size_t* out_index);

  // Sleeps until done, poked or past the deadline. Consumes one poke. Returns false past the
  // deadline.
  bool Sleep(Deadline deadline);
  // Wakes the sleeper, or makes its next Sleep return at once.
  void Poke();

  PointWait* next_parked = nullptr;  // for the list of whoever pokes
  bool is_parked = false;

 private:
  struct Slot : SemaphoreWaiter {
    PointWait* owner = nullptr;
    size_t index = 0;
    bool is_notified = false;  // under mutex_
  };
  static void Notify(SemaphoreWaiter* waiter, const Status& status);

  static constexpr size_t kInlineSlots = 4;
  std::span<const SemaphorePoint> points_;
  WaitMode mode_;
  Slot inline_slots_[kInlineSlots];
  std::unique_ptr<Slot[]> more_slots_;
  Slot* slots_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_done_{false};
  bool is_poked_ = false;
  size_t notified_ = 0;
  size_t decided_index_ = 0;
  Status status_;
};

}  // namespace halyard::hal
