// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/scheduler.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/thread_end.h"
#include "drivers/cpu/device.h"

namespace halyard::drivers::cpu {
namespace {

// The scheduler whose work this thread is running, null inside host calls: what such a thread makes
// ready it will find itself when its work is done.
thread_local Scheduler* t_runner = nullptr;

}  // namespace

void Work::ReleasePayload() {
  commands.reset();
  time.reset();
  bound.clear();
  slots.clear();
  addresses.clear();
  bytes.clear();
  if (call.release) call.release(call.context);
  call = {};
}

Scheduler::Scheduler(const SchedulerOptions& options, std::unique_ptr<Executor> executor,
                     Execute execute)
    : options_(options), executor_(std::move(executor)), execute_(execute), lanes_(options.lanes) {
  if (options_.delay_seed != 0) {
    random_.seed(static_cast<std::minstd_rand::result_type>(options.delay_seed));
    start_delay_ = std::make_unique<DelayThread>([this](Work* work) { MakeReady(work, true); });
  }
  if (options_.may_end_late) {
    end_delay_ = std::make_unique<DelayThread>([this](Work* work) {
      const auto self = shared_from_this();  // the work may hold the last device
      Finish(work);
    });
  }
}

Scheduler::~Scheduler() {
  while (free_) delete std::exchange(free_, free_->next);
}

Work* Scheduler::Acquire() {
  {
    std::lock_guard lock(mutex_);
    if (free_) return std::exchange(free_, free_->next);
  }
  return new Work;
}

void Scheduler::Recycle(Work* work) {
  work->ReleasePayload();
  work->waits.clear();
  work->signals.clear();
  work->wait_status = work->outcome = OkStatus();
  work->done_at = {};
  work->kind = WorkKind::kNothing;
  work->caller_waits = false;
  Ref<CpuDevice> device = std::move(work->device);
  std::lock_guard lock(mutex_);
  work->next = free_;
  free_ = work;
  // The lock is released before `device`, which may be the last reference.
}

void Scheduler::Enqueue(Work* work) {
  work->scheduler = this;
  work->error = {};
  work->pending.store(work->waits.size() + 1, std::memory_order_relaxed);
  for (Work::Wait& wait : work->waits) {
    wait.work = work;
    wait.notify = &Scheduler::OnWaitDone;
    wait.is_linked = false;
  }
  // Only now: the first notification may cancel all others.
  for (Work::Wait& wait : work->waits) wait.semaphore->AddWaiter(&wait);
  // A wait that failed meanwhile could not cancel those that were not registered yet.
  CancelWaits(work);
  DropPending(work, true);
}

void Scheduler::OnWaitDone(hal::SemaphoreWaiter* waiter, const Status& status) {
  Work* work = static_cast<Work::Wait*>(waiter)->work;
  Scheduler* self = work->scheduler;
  if (!status.ok()) {
    {
      std::lock_guard lock(work->mutex);
      if (work->wait_status.ok()) work->wait_status = status;
    }
    self->CancelWaits(work);
  }
  self->DropPending(work, false);
}

// After a failed wait the others do not matter. The caller holds a pending count of `work`.
void Scheduler::CancelWaits(Work* work) {
  {
    std::lock_guard lock(work->mutex);
    if (work->wait_status.ok()) return;
  }
  for (Work::Wait& wait : work->waits) {
    if (wait.semaphore->RemoveWaiter(&wait)) work->pending.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void Scheduler::DropPending(Work* work, bool is_enqueuing) {
  bool wake = !(is_enqueuing && work->caller_waits);
  if (work->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!start_delay_) return MakeReady(work, wake);
  constexpr int kMaxDelayUs = 300;
  std::uniform_int_distribution<int> delay_us(0, kMaxDelayUs);
  std::unique_lock lock(mutex_);
  const std::chrono::microseconds delay(delay_us(random_));
  lock.unlock();
  start_delay_->Add(work, std::chrono::steady_clock::now() + delay);
}

void Scheduler::PushReadyLocked(Lane* lane) {
  lane->is_ready = true;
  lane->next_ready = nullptr;
  if (last_ready_) {
    last_ready_->next_ready = lane;
  } else {
    first_ready_ = lane;
  }
  last_ready_ = lane;
  ++ready_count_;
}

void Scheduler::MakeReady(Work* work, bool wake) {
  std::lock_guard lock(mutex_);
  Lane& lane = lanes_[work->lane];
  work->next = nullptr;
  if (lane.last) {
    lane.last->next = work;
  } else {
    lane.first = work;
  }
  lane.last = work;
  if (lane.is_running) return;  // its runner finds it
  if (!lane.is_ready) PushReadyLocked(&lane);
  if (wake) WakeLocked();
}

void Scheduler::WakeLocked() {
  if (!CanRunLocked()) return;  // whoever ends a running work looks again
  if (t_runner == this && ready_count_ == 1) return;
  ++wake_count_;
  if (parked_) {
    hal::PointWait* waiter = parked_;
    parked_ = waiter->next_parked;
    waiter->is_parked = false;
    waiter->Poke();
    return;
  }
  if (idle_background_ > 0) return arrived_.notify_one();
  if (is_stopping_ || static_cast<int>(background_.size()) >= options_.max_background_threads)
    return;
  try {
    background_.emplace_back([self = shared_from_this()] { self->Serve(); });
  } catch (const std::system_error&) {
    // No thread to be had: the work runs when somebody waits for it.
  }
}

bool Scheduler::RunOne() {
  Lane* lane;
  Work* work;
  {
    std::lock_guard lock(mutex_);
    if (!CanRunLocked()) return false;
    lane = first_ready_;
    first_ready_ = lane->next_ready;
    if (!first_ready_) last_ready_ = nullptr;
    --ready_count_;
    lane->is_ready = false;
    lane->is_running = true;
    work = lane->first;
    lane->first = work->next;
    if (!lane->first) lane->last = nullptr;
    ++running_;
  }
  Scheduler* outer = std::exchange(t_runner, this);
  {
    std::lock_guard lock(work->mutex);
    work->outcome = work->wait_status;
  }
  if (work->outcome.ok()) {
    if (work->kind == WorkKind::kHostCall) t_runner = nullptr;
    work->outcome = execute_(*work, *executor_);
    t_runner = this;
  }
  // Before the signals: who is told that the work is done finds its buffers released.
  work->ReleasePayload();
  {
    std::lock_guard lock(mutex_);
    --running_;
  }
  if (end_delay_ && work->done_at > std::chrono::steady_clock::now()) {
    end_delay_->Add(work, work->done_at);  // its lane stays taken, this thread does not
    HandOver();
  } else {
    Finish(work);
  }
  t_runner = outer;
  return true;
}

void Scheduler::Finish(Work* work) {
  {
    // The lane first: a signalled caller that queues the next work must find it free.
    std::lock_guard lock(mutex_);
    Lane& lane = lanes_[work->lane];
    lane.is_running = false;
    if (lane.first) {
      PushReadyLocked(&lane);
      if (t_runner != this) WakeLocked();
    }
  }
  const Status& status = work->outcome;
  for (Work::Signal& signal : work->signals) {
    if (status.ok()) {
      // A value that does not grow has failed the semaphore, which tells everyone concerned.
      signal.semaphore->Signal(signal.value).Ignore();
    } else {
      signal.semaphore->Fail(status);
    }
  }
  Recycle(work);
}

// For a thread that stops serving: what is ready needs somebody else.
void Scheduler::HandOver() {
  std::lock_guard lock(mutex_);
  if (CanRunLocked()) WakeLocked();
}

void Scheduler::Serve() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (CanRunLocked()) {
      lock.unlock();
      RunOne();
      lock.lock();
      continue;
    }
    ++idle_background_;
    arrived_.wait(lock);
    --idle_background_;
  }
}

Status Scheduler::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                       int64_t timeout_ns, size_t* out_index) {
  Status status;
  if (points.empty() || hal::CheckPoints(points, mode, &status, out_index)) return status;
  if (timeout_ns <= 0) return DeadlineExceeded("The semaphores were not reached yet.");
  hal::Deadline deadline = hal::DeadlineAfter(timeout_ns);
  auto is_late = [&] {
    return deadline != hal::Deadline::max() && std::chrono::steady_clock::now() >= deadline;
  };
  while (!is_late() && RunOne()) {
    if (!hal::CheckPoints(points, mode, &status, out_index)) continue;
    HandOver();
    return status;
  }
  hal::PointWait wait(points, mode);
  while (!wait.is_done()) {
    bool is_parked = false;
    {
      std::lock_guard lock(mutex_);
      if (!CanRunLocked()) {
        wait.next_parked = parked_;
        wait.is_parked = is_parked = true;
        parked_ = &wait;
      }
    }
    bool in_time = true;
    if (is_parked) in_time = wait.Sleep(deadline);
    {
      std::lock_guard lock(mutex_);
      if (wait.is_parked) {
        hal::PointWait** link = &parked_;
        while (*link != &wait) link = &(*link)->next_parked;
        *link = wait.next_parked;
        wait.is_parked = false;
      }
    }
    while (!wait.is_done() && !is_late() && RunOne()) {
    }
    if (!wait.is_done() && (!in_time || is_late())) {
      HandOver();
      return DeadlineExceeded("The semaphores were not reached within {} ns.", timeout_ns);
    }
  }
  HandOver();
  return wait.Take(out_index);
}

void Scheduler::Flush() {
  std::lock_guard lock(mutex_);
  // One helper suffices to start; it hands over what it does not take itself.
  if (CanRunLocked()) WakeLocked();
}

void Scheduler::Stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    threads.swap(background_);
    arrived_.notify_all();
  }
  for (std::thread& thread : threads) JoinOrLeave(thread);
  start_delay_.reset();
  end_delay_.reset();
}

int Scheduler::background_thread_count() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(background_.size());
}

int64_t Scheduler::wake_count() const {
  std::lock_guard lock(mutex_);
  return wake_count_;
}

}  // namespace halyard::drivers::cpu
