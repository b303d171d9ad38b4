// SPDX-License-Identifier: Apache-2.0
// VulkanSemaphore: a HAL timeline on the host that also knows which of its future values are
// already on their way through a hardware queue, so that work can wait for them there.
#pragma once

#include <mutex>
#include <vector>

#include "hal/host_semaphore.h"

namespace halyard::drivers::vulkan {

// A value of the timeline of one hardware queue. `value` 0: nothing to wait for.
struct QueuePoint {
  uint32_t queue = 0;
  uint64_t value = 0;
};

// A wait of queued work. Notified like any other, but also when the value is merely on its way;
// then `point` says where.
struct QueueWaiter : hal::SemaphoreWaiter {
  QueuePoint point;
};

class VulkanSemaphore final : public hal::Semaphore {
 public:
  // `device_id`: of the device whose queues the points belong to.
  VulkanSemaphore(uint64_t device_id, uint64_t initial_value)
      : device_id_(device_id), host_(initial_value) {}

  uint64_t device_id() const { return device_id_; }
  uint64_t value() const override { return host_.value(); }
  Status status() const override { return host_.status(); }
  Status Signal(uint64_t value) override;
  void Fail(const Status& status) override;
  void AddWaiter(hal::SemaphoreWaiter* waiter) override { host_.AddWaiter(waiter); }
  bool RemoveWaiter(hal::SemaphoreWaiter* waiter) override;

  // Like AddWaiter, for work of the device itself.
  void AddQueueWaiter(QueueWaiter* waiter);
  // `value` will be reached when `point` is. Returns the queue waiters that this releases, linked
  // through `next`, for the caller to notify with OK once it holds no lock.
  QueueWaiter* Schedule(uint64_t value, QueuePoint point);

 private:
  struct Scheduled {
    uint64_t value;
    QueuePoint point;
  };
  QueueWaiter* TakeQueueWaiters(uint64_t up_to);  // the lock is held
  void Unlink(hal::SemaphoreWaiter* waiter);      // the lock is held
  void NotifyAll(hal::SemaphoreWaiter* waiter);   // under no lock

  const uint64_t device_id_;
  hal::HostSemaphore host_;
  std::mutex mutex_;                       // of the following
  std::vector<Scheduled> scheduled_;       // not yet reached, in no order
  hal::SemaphoreWaiter* first_ = nullptr;  // queue waiters, in no order
};

}  // namespace halyard::drivers::vulkan
