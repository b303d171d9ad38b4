// SPDX-License-Identifier: Apache-2.0
#include "hal/host_semaphore.h"

#include "base/check.h"

namespace halyard::hal {
namespace {

// Waiters that left the list, linked through `next`. A notification may free its waiter.
void NotifyAll(SemaphoreWaiter* waiter, const Status& status) {
  while (waiter) {
    SemaphoreWaiter* next = waiter->next;
    waiter->notify(waiter, status);
    waiter = next;
  }
}

}  // namespace

HostSemaphore::~HostSemaphore() { HY_DCHECK(!first_, "a semaphore died with waiters"); }

Status HostSemaphore::status() const {
  if (!has_failed_.load(std::memory_order_acquire)) return OkStatus();
  std::lock_guard lock(mutex_);
  return status_;
}

void HostSemaphore::Unlink(SemaphoreWaiter* waiter) {
  if (waiter->previous) {
    waiter->previous->next = waiter->next;
  } else {
    first_ = waiter->next;
  }
  if (waiter->next) waiter->next->previous = waiter->previous;
  waiter->is_linked = false;
}

Status HostSemaphore::Signal(uint64_t value) {
  SemaphoreWaiter* reached = nullptr;
  uint64_t present;
  {
    std::lock_guard lock(mutex_);
    if (has_failed_.load(std::memory_order_relaxed)) return OkStatus();
    present = value_.load(std::memory_order_relaxed);
    if (value > present) {
      value_.store(value, std::memory_order_release);
      for (SemaphoreWaiter *waiter = first_, *next; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->value > value) continue;
        Unlink(waiter);
        waiter->next = reached;
        reached = waiter;
      }
    }
  }
  if (value <= present) {
    Status status = InvalidArgument(
        "A semaphore at {} was signalled with {}; its value only grows.", present, value);
    Fail(status);
    return status;
  }
  NotifyAll(reached, OkStatus());
  return OkStatus();
}

void HostSemaphore::Fail(const Status& status) {
  HY_CHECK(!status.ok(), "a semaphore must fail with a failure");
  SemaphoreWaiter* failed = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (has_failed_.load(std::memory_order_relaxed)) return;
    status_ = status;
    has_failed_.store(true, std::memory_order_release);
    failed = std::exchange(first_, nullptr);
    for (SemaphoreWaiter* waiter = failed; waiter; waiter = waiter->next) waiter->is_linked = false;
  }
  NotifyAll(failed, status);
}

void HostSemaphore::AddWaiter(SemaphoreWaiter* waiter) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    if (value_.load(std::memory_order_relaxed) < waiter->value) {
      if (!has_failed_.load(std::memory_order_relaxed)) {
        waiter->previous = nullptr;
        waiter->next = first_;
        if (first_) first_->previous = waiter;
        first_ = waiter;
        waiter->is_linked = true;
        return;
      }
      status = status_;
    }
  }
  waiter->notify(waiter, status);
}

bool HostSemaphore::RemoveWaiter(SemaphoreWaiter* waiter) {
  std::lock_guard lock(mutex_);
  if (!waiter->is_linked) return false;
  Unlink(waiter);
  return true;
}

}  // namespace halyard::hal
