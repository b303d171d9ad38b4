// SPDX-License-Identifier: Apache-2.0
// HostSemaphore: a timeline in host memory, for devices whose queues run on the host. No thread of
// its own.
#pragma once

#include <atomic>
#include <mutex>

#include "hal/semaphore.h"

namespace halyard::hal {

class HostSemaphore final : public Semaphore {
 public:
  explicit HostSemaphore(uint64_t initial_value) : value_(initial_value) {}
  ~HostSemaphore() override;

  uint64_t value() const override { return value_.load(std::memory_order_acquire); }
  Status status() const override;
  Status Signal(uint64_t value) override;
  void Fail(const Status& status) override;
  void AddWaiter(SemaphoreWaiter* waiter) override;
  bool RemoveWaiter(SemaphoreWaiter* waiter) override;

 private:
  void Unlink(SemaphoreWaiter* waiter);  // the lock is held

  mutable std::mutex mutex_;
  std::atomic<uint64_t> value_;
  std::atomic<bool> has_failed_{false};
  Status status_;                     // set once, before has_failed_
  SemaphoreWaiter* first_ = nullptr;  // in no particular order
};

}  // namespace halyard::hal
