// SPDX-License-Identifier: Apache-2.0
#include "hal/point_wait.h"

namespace halyard::hal {

Deadline DeadlineAfter(int64_t timeout_ns) {
  Deadline now = std::chrono::steady_clock::now();
  if (timeout_ns >= (Deadline::max() - now) / std::chrono::nanoseconds(1)) return Deadline::max();
  return now + std::chrono::nanoseconds(timeout_ns < 0 ? 0 : timeout_ns);
}

bool CheckPoints(std::span<const SemaphorePoint> points, WaitMode mode, Status* out_status,
                 size_t* out_index) {
  bool are_all_reached = true;
  for (size_t i = 0; i < points.size(); ++i) {
    bool is_reached = points[i].semaphore->value() >= points[i].value;
    if (!is_reached) {
      Status status = points[i].semaphore->status();
      // The value may have been reached between the two looks; it counts then.
      is_reached = points[i].semaphore->value() >= points[i].value;
      if (!status.ok() && !is_reached) {
        *out_status = status;
        if (out_index) *out_index = i;
        return true;
      }
    }
    if (is_reached && mode == WaitMode::kAny) {
      *out_status = OkStatus();
      if (out_index) *out_index = i;
      return true;
    }
    are_all_reached &= is_reached;
  }
  if (!are_all_reached) return false;
  *out_status = OkStatus();
  return true;
}

Status WaitAsleep(std::span<const SemaphorePoint> points, WaitMode mode, int64_t timeout_ns,
                  size_t* out_index) {
  Status status;
  if (points.empty() || CheckPoints(points, mode, &status, out_index)) return status;
  Deadline deadline = DeadlineAfter(timeout_ns);
  PointWait wait(points, mode);
  while (!wait.is_done()) {
    if (!wait.Sleep(deadline) && !wait.is_done()) {
      return DeadlineExceeded("The semaphores were not reached within {} ns.", timeout_ns);
    }
  }
  return wait.Take(out_index);
}

PointWait::PointWait(std::span<const SemaphorePoint> points, WaitMode mode)
    : points_(points), mode_(mode), slots_(inline_slots_) {
  if (points.size() > kInlineSlots) {
    more_slots_ = std::make_unique<Slot[]>(points.size());
    slots_ = more_slots_.get();
  }
  if (points.empty()) is_done_.store(true, std::memory_order_release);
  for (size_t i = 0; i < points.size(); ++i) {
    slots_[i].value = points[i].value;
    slots_[i].notify = &PointWait::Notify;
    slots_[i].owner = this;
    slots_[i].index = i;
    points[i].semaphore->AddWaiter(&slots_[i]);
  }
}

PointWait::~PointWait() {
  for (size_t i = 0; i < points_.size(); ++i) {
    if (points_[i].semaphore->RemoveWaiter(&slots_[i])) continue;
    // Its notification has run or is running: wait for the end of the running one.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slots_[i].is_notified; });
  }
}

void PointWait::Notify(SemaphoreWaiter* waiter, const Status& status) {
  Slot* slot = static_cast<Slot*>(waiter);
  PointWait* self = slot->owner;
  // Everything happens under the lock, so that the destructor cannot pass before this is over.
  std::lock_guard lock(self->mutex_);
  slot->is_notified = true;
  ++self->notified_;
  if (!self->is_done_.load(std::memory_order_relaxed)) {
    bool is_last = self->notified_ == self->points_.size();
    if (!status.ok() || is_last || self->mode_ == WaitMode::kAny) {
      self->status_ = status;
      self->decided_index_ = slot->index;
      self->is_done_.store(true, std::memory_order_release);
    }
  }
  self->changed_.notify_all();
}

Status PointWait::Take(size_t* out_index) {
  std::lock_guard lock(mutex_);
  if (out_index) *out_index = decided_index_;
  return status_;
}

bool PointWait::Sleep(Deadline deadline) {
  std::unique_lock lock(mutex_);
  auto is_awake = [&] { return is_poked_ || is_done_.load(std::memory_order_relaxed); };
  bool in_time = true;
  if (deadline == Deadline::max()) {
    changed_.wait(lock, is_awake);
  } else {
    in_time = changed_.wait_until(lock, deadline, is_awake);
  }
  is_poked_ = false;
  return in_time;
}

void PointWait::Poke() {
  std::lock_guard lock(mutex_);
  is_poked_ = true;
  changed_.notify_all();
}

}  // namespace halyard::hal
