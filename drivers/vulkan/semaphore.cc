// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/semaphore.h"

#include <algorithm>

namespace halyard::drivers::vulkan {

// A value that was reached before a failure stays reached.
void VulkanSemaphore::NotifyAll(hal::SemaphoreWaiter* waiter) {
  while (waiter) {
    hal::SemaphoreWaiter* next = waiter->next;
    waiter->notify(waiter, host_.value() >= waiter->value ? OkStatus() : host_.status());
    waiter = next;
  }
}

void VulkanSemaphore::Unlink(hal::SemaphoreWaiter* waiter) {
  if (waiter->previous) {
    waiter->previous->next = waiter->next;
  } else {
    first_ = waiter->next;
  }
  if (waiter->next) waiter->next->previous = waiter->previous;
  waiter->is_linked = false;
}

QueueWaiter* VulkanSemaphore::TakeQueueWaiters(uint64_t up_to) {
  hal::SemaphoreWaiter* taken = nullptr;
  for (hal::SemaphoreWaiter *waiter = first_, *next; waiter; waiter = next) {
    next = waiter->next;
    if (waiter->value > up_to) continue;
    Unlink(waiter);
    waiter->next = taken;
    taken = waiter;
  }
  return static_cast<QueueWaiter*>(taken);
}

Status VulkanSemaphore::Signal(uint64_t value) {
  Status status = host_.Signal(value);
  hal::SemaphoreWaiter* released = nullptr;
  {
    std::lock_guard lock(mutex_);
    const uint64_t reached = host_.value();
    // A signal that does not grow has failed the semaphore.
    released = TakeQueueWaiters(host_.status().ok() ? reached : UINT64_MAX);
    std::erase_if(scheduled_, [reached](const Scheduled& s) { return s.value <= reached; });
  }
  NotifyAll(released);
  return status;
}

void VulkanSemaphore::Fail(const Status& status) {
  host_.Fail(status);
  hal::SemaphoreWaiter* released = nullptr;
  {
    std::lock_guard lock(mutex_);
    released = TakeQueueWaiters(UINT64_MAX);
    scheduled_.clear();
  }
  NotifyAll(released);
}

bool VulkanSemaphore::RemoveWaiter(hal::SemaphoreWaiter* waiter) {
  {
    std::lock_guard lock(mutex_);
    // A waiter of the other list is never here.
    for (hal::SemaphoreWaiter* other = first_; other; other = other->next) {
      if (other != waiter) continue;
      Unlink(waiter);
      return true;
    }
  }
  return host_.RemoveWaiter(waiter);
}

void VulkanSemaphore::AddQueueWaiter(QueueWaiter* waiter) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    waiter->point = {};
    if (host_.value() < waiter->value) {
      status = host_.status();
      // Reached just before it failed: that counts.
      if (!status.ok() && host_.value() >= waiter->value) status = OkStatus();
      const Scheduled* found = nullptr;
      for (const Scheduled& s : scheduled_) {
        if (s.value >= waiter->value && (!found || s.value < found->value)) found = &s;
      }
      if (status.ok() && host_.value() < waiter->value) {
        if (!found) {
          waiter->previous = nullptr;
          waiter->next = first_;
          if (first_) first_->previous = waiter;
          first_ = waiter;
          waiter->is_linked = true;
          return;
        }
        waiter->point = found->point;
      }
    }
  }
  waiter->notify(waiter, status);
}

QueueWaiter* VulkanSemaphore::Schedule(uint64_t value, QueuePoint point) {
  std::lock_guard lock(mutex_);
  if (host_.value() >= value || !host_.status().ok()) return nullptr;
  scheduled_.push_back({value, point});
  QueueWaiter* released = TakeQueueWaiters(value);
  for (QueueWaiter* waiter = released; waiter; waiter = static_cast<QueueWaiter*>(waiter->next)) {
    waiter->point = point;
  }
  return released;
}

}  // namespace halyard::drivers::vulkan
