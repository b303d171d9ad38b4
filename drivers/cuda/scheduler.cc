// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/scheduler.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/thread_end.h"
#include "drivers/cuda/device.h"

namespace halyard::drivers::cuda {
namespace {

// Works of one lane in its stream at once. CUDA blocks the caller when about 1000 launches wait in
// a stream, and a queue call must not block.
constexpr int64_t kMostInFlight = 64;

// How often a sleeping caller looks whether the device was lost.
constexpr int64_t kLookNs = 100'000'000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Whether the GPU waits for a point that has not come to its end: then it is another work, perhaps
// of another device, that holds this one up.
bool IsHeldUp(const Work& work) {
  return std::any_of(work.waits.begin(), work.waits.end(), [](const Work::Wait& wait) {
    return wait.promise && wait.semaphore->value() < wait.value && wait.semaphore->status().ok();
  });
}

}  // namespace

Result<std::shared_ptr<Scheduler>> Scheduler::Create(Ref<Context> context, uint32_t lanes,
                                                     const CudaOptions& options, Launch launch) {
  std::shared_ptr<Scheduler> scheduler(new Scheduler(context, options, launch));
  Context::Current current(*context);
  HY_TRY(current.status());
  for (uint32_t i = 0; i < lanes; ++i) {
    auto lane = std::make_unique<Lane>();
    HY_CUDA_TRY(context->api(), cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING);
    scheduler->lanes_.push_back(std::move(lane));
  }
  context->SetDescription([weak = scheduler->weak_from_this()] {
    auto strong = weak.lock();
    return strong ? strong->DescribeInFlight() : std::string();
  });
  return scheduler;
}

Scheduler::~Scheduler() {
  while (free_) delete std::exchange(free_, free_->next);
  Context::Current current(*context_);
  for (const auto& lane : lanes_) context_->api().cuStreamDestroy_v2(lane->stream);
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
  work->status = OkStatus();
  work->kind = WorkKind::kNothing;
  work->caller_waits = false;
  work->is_launched = false;
  work->event.reset();
  Ref<CudaDevice> device = std::move(work->device);
  std::lock_guard lock(mutex_);
  work->next = free_;
  free_ = work;
  // The lock is released before `device`, which may be the last reference.
}

void Scheduler::Enqueue(Work* work) {
  auto self = shared_from_this();
  work->scheduler = this;
  queued_.fetch_add(1, std::memory_order_relaxed);
  size_t on_host = 0;
  for (Work::Wait& wait : work->waits) {
    wait.work = work;
    wait.notify = &Scheduler::OnWaitDone;
    wait.is_linked = false;
    if (work->kind != WorkKind::kHostCall && wait.semaphore->value() < wait.value) {
      auto* semaphore = dynamic_cast<CudaSemaphore*>(wait.semaphore.get());
      if (semaphore) wait.promise = semaphore->FindPromise(wait.value);
    }
    on_host += !wait.promise;
  }
  work->pending.store(on_host + 1, std::memory_order_relaxed);
  // Only now: the first notification may cancel all others.
  for (Work::Wait& wait : work->waits) {
    if (!wait.promise) wait.semaphore->AddWaiter(&wait);
  }
  // A wait that failed meanwhile could not cancel those that were not registered yet.
  CancelWaits(work);
  const bool arm = !work->caller_waits;
  if (work->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) MakeReady(work, arm);
  Drain();
}

void Scheduler::OnWaitDone(hal::SemaphoreWaiter* waiter, const Status& status) {
  Work* work = static_cast<Work::Wait*>(waiter)->work;
  auto self = work->scheduler->shared_from_this();
  if (!status.ok()) {
    work->SetFailure(status);
    self->CancelWaits(work);
  }
  self->DropPending(work);
  self->Drain();
}

// After a failed wait the others do not matter. The caller holds a pending count of `work`.
void Scheduler::CancelWaits(Work* work) {
  {
    std::lock_guard lock(work->mutex);
    if (work->status.ok()) return;
  }
  for (Work::Wait& wait : work->waits) {
    if (wait.semaphore->RemoveWaiter(&wait)) work->pending.fetch_sub(1, std::memory_order_acq_rel);
  }
}

void Scheduler::DropPending(Work* work) {
  if (work->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!work->is_launched) return MakeReady(work, true);
  std::lock_guard lock(mutex_);
  done_.Push(work);
}

void Scheduler::MakeReady(Work* work, bool arm) {
  bool is_failed;
  {
    std::lock_guard lock(work->mutex);
    is_failed = !work->status.ok();
  }
  const bool is_empty =
      work->kind == WorkKind::kNothing &&
      std::none_of(work->waits.begin(), work->waits.end(),
                   [](const Work::Wait& wait) { return static_cast<bool>(wait.promise); });
  if (!is_failed && !is_empty && work->kind != WorkKind::kHostCall) {
    Status status = PromiseSignals(work);
    if (!status.ok()) work->SetFailure(status);
    is_failed = !status.ok();
  }
  Lane& lane = *lanes_[work->lane];
  {
    std::lock_guard lock(mutex_);
    if (is_failed || is_empty) {
      done_.Push(work);
      return;
    }
    lane.ready.Push(work);
    if (arm || work->kind == WorkKind::kHostCall) ArmLocked(lane);
  }
  Pump();
}

Status Scheduler::PromiseSignals(Work* work) {
  HY_ASSIGN(work->event, context_->AcquireEvent());
  for (const Work::Signal& signal : work->signals) {
    auto* semaphore = dynamic_cast<CudaSemaphore*>(signal.semaphore.get());
    if (semaphore) semaphore->Promise(signal.value, work->event);
  }
  return OkStatus();
}

bool Scheduler::CanCallLocked(const Lane& lane) const {
  return !lane.ready.empty() && lane.ready.front()->kind == WorkKind::kHostCall &&
         lane.in_flight.empty() && !lane.is_launching && !lane.is_calling;
}

// Launches what stands at the front of the lane. Whoever comes while another thread does so leaves
// it to that one. True when something left the lane, for which other lanes may have waited.
bool Scheduler::PumpLane(Lane& lane) {
  std::unique_lock lock(mutex_);
  if (lane.ready.empty()) return false;
  lane.is_pumped_again = lane.is_launching;
  if (lane.is_launching) return false;
  lane.is_launching = true;
  bool has_launched = false;
  WorkList skipped;
  while (!lane.ready.empty() && !lane.is_calling && lane.in_flight.size() < kMostInFlight) {
    Work* work = lane.ready.front();
    if (work->kind == WorkKind::kHostCall) break;
    lock.unlock();
    Launched launched = Launched::kNothing;
    Status lost = context_->health();
    if (lost.ok()) {
      launched = launch_(*work, lane.stream);
    } else {
      work->SetFailure(lost);
    }
    if (launched != Launched::kLater) {
      work->event->is_settled.store(true, std::memory_order_release);
    }
    lock.lock();
    if (launched == Launched::kLater) {
      if (!std::exchange(lane.is_pumped_again, false)) break;
      continue;
    }
    has_launched = true;
    lane.ready.Pop();
    if (launched == Launched::kInFlight) {
      lane.in_flight.Push(work);
      if (lane.is_armed) lane.changed.notify_one();
    } else if (launched == Launched::kSkipped) {
      skipped.Push(work);
    } else {
      done_.Push(work);
    }
  }
  lane.is_launching = false;
  if (CanCallLocked(lane)) ArmLocked(lane);
  lock.unlock();
  while (Work* work = skipped.Pop()) Settle(work);
  return has_launched;
}

void Scheduler::Pump() {
  bool has_launched = true;
  while (has_launched) {
    has_launched = false;
    for (const auto& lane : lanes_) has_launched |= PumpLane(*lane);
  }
}

// Takes what has ended out of the stream. False when nothing is in flight.
bool Scheduler::Poll(Lane& lane) {
  const CudaApi& api = context_->api();
  WorkList ended;
  bool is_busy;
  {
    std::unique_lock lock(mutex_);
    if (lane.is_polling) return true;
    if (lane.in_flight.empty()) return false;
    lane.is_polling = true;
    lock.unlock();
    {
      Context::Current current(*context_);
      if (!current.status().ok()) context_->Lose(current.status(), "a look at its events").Ignore();
      lock.lock();
      while (Work* work = lane.in_flight.front()) {
        lock.unlock();
        Status failure = context_->health();
        if (failure.ok()) {
          CUresult result = api.cuEventQuery(work->event->handle());
          if (result == CUDA_ERROR_NOT_READY) {
            lock.lock();
            break;
          }
          if (result != CUDA_SUCCESS) {
            failure = context_->Lose(api.Check(result, "cuEventQuery"), "");
          }
        }
        Work* abandoned = nullptr;
        if (!failure.ok()) {
          // Whatever still runs must end before its buffers go.
          if (context_->is_stalled()) {
            abandoned = Acquire();
            work->MovePayloadTo(*abandoned);
          } else {
            api.cuStreamSynchronize(lane.stream);
          }
          work->SetFailure(failure);
        }
        lock.lock();
        if (abandoned) {
          lane.abandoned.Push(abandoned);
          ++abandoned_count_;
          ArmLocked(lane);
        }
        ++ended_count_;
        ended.Push(lane.in_flight.Pop());
      }
      lock.unlock();
    }
    lock.lock();
    lane.is_polling = false;
    is_busy = !lane.in_flight.empty();
    if (!is_busy && lane.ready.empty()) lane.is_armed = false;
  }
  if (ended.empty()) return is_busy;
  while (Work* work = ended.Pop()) Settle(work);
  if (context_->is_lost()) ArmAll();
  Pump();
  return true;
}

// The GPU is through with the work: what did the kernels and the points say that it waited for?
void Scheduler::Settle(Work* work) {
  if (work->replay) {
    Status failure = work->replay->TakeFailure();
    if (!failure.ok()) work->SetFailure(failure);
    work->commands->ReleaseReplay(std::exchange(work->replay, nullptr));
  }
  if (work->time_end && !work->HasFailed() && !context_->is_lost()) {
    Result<int64_t> taken = context_->NanosecondsBetween(*work->time_start, *work->time_end);
    if (taken.ok()) {
      work->time->Add(*taken);
    } else {
      work->SetFailure(taken.status());
    }
  }
  work->is_launched = true;
  size_t promised = 0;
  for (const Work::Wait& wait : work->waits) promised += static_cast<bool>(wait.promise);
  work->pending.store(promised + 1, std::memory_order_relaxed);
  for (Work::Wait& wait : work->waits) {
    if (wait.promise) wait.semaphore->AddWaiter(&wait);
  }
  CancelWaits(work);
  DropPending(work);
}

void Scheduler::Deliver(Work* work) {
  Status status;
  {
    std::lock_guard lock(work->mutex);
    status = work->status;
  }
  for (Work::Signal& signal : work->signals) {
    auto* semaphore = dynamic_cast<CudaSemaphore*>(signal.semaphore.get());
    if (semaphore && work->event) semaphore->Withdraw(signal.value, work->event.get());
  }
  // Before the signals: who is told that the work is done finds its buffers released.
  work->ReleasePayload();
  queued_.fetch_sub(1, std::memory_order_relaxed);
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

// Signals run other works' notifications, which may end works in turn: one thread at a time takes
// them from a list, so that no chain of works becomes a chain of calls.
void Scheduler::Drain() {
  std::unique_lock lock(mutex_);
  if (is_delivering_) return;
  is_delivering_ = true;
  while (Work* work = done_.Pop()) {
    lock.unlock();
    Deliver(work);
    lock.lock();
  }
  is_delivering_ = false;
}

void Scheduler::ArmLocked(Lane& lane) {
  lane.is_armed = true;
  if (stall_watch_.is_on() && !stall_thread_.joinable() && !is_stopping_) {
    try {
      stall_thread_ = std::thread([self = shared_from_this()] { self->WatchForStall(); });
    } catch (const std::system_error&) {
      // Whoever waits looks for a stall.
    }
  }
  if (lane.thread.joinable()) return lane.changed.notify_one();
  if (is_stopping_) return;
  try {
    lane.thread = std::thread([self = shared_from_this(), &lane] { self->Serve(lane); });
  } catch (const std::system_error&) {
    // No thread to be had: whoever waits looks at the events.
  }
}

void Scheduler::ArmAll() {
  std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    if (!lane->in_flight.empty() || !lane->ready.empty()) ArmLocked(*lane);
  }
}

// A fault may come from any of them.
std::string Scheduler::DescribeInFlight() {
  constexpr int kMostNamed = 4;
  std::string text;
  int named = 0;
  int64_t others = 0;
  std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    for (const Work* work = lane->in_flight.front(); work; work = work->next) {
      if (work->commands && named++ < kMostNamed) {
        text += text.empty() ? "" : "; ";
        text += work->commands->Describe();
      } else {
        ++others;
      }
    }
  }
  if (others > 0) text += fmt::format("{}{} other works", text.empty() ? "" : "; ", others);
  return text.empty() ? text : text + ".";
}

void Scheduler::Serve(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (CanCallLocked(lane)) {
      Work* work = lane.ready.Pop();
      lane.is_calling = true;
      lock.unlock();
      Status status = CatchAll([&] { return work->call.function(work->call.context); });
      if (!status.ok()) work->SetFailure(status);
      lock.lock();
      lane.is_calling = false;
      done_.Push(work);
    } else if (lane.is_armed && !lane.in_flight.empty()) {
      Ref<Event> event = lane.in_flight.front()->event;
      lock.unlock();
      {
        Context::Current current(*context_);
        // Its failure is found, and put with a name, by the look at the event that follows.
        context_->api().cuEventSynchronize(event->handle());
      }
      event.reset();
      if (Poll(lane)) std::this_thread::yield();
      lock.lock();
      if (done_.empty()) continue;
    } else if (Work* abandoned = lane.abandoned.front()) {
      Ref<Event> event = Ref<Event>::Share(abandoned->event.get());
      lock.unlock();
      {
        Context::Current current(*context_);
        context_->api().cuEventSynchronize(event->handle());
      }
      event.reset();
      lock.lock();
      lane.abandoned.Pop();
      lock.unlock();
      EndAbandoned(abandoned);
      lock.lock();
      continue;
    } else {
      if (lane.in_flight.empty() && lane.ready.empty()) lane.is_armed = false;
      lane.changed.wait(lock);
      continue;
    }
    lock.unlock();
    Drain();
    Pump();
    Drain();
    lock.lock();
  }
}

void Scheduler::EndAbandoned(Work* work) {
  const auto device = Ref<CudaDevice>::Share(work->device.get());
  Recycle(work);
  bool is_last;
  {
    std::lock_guard lock(mutex_);
    is_last = --abandoned_count_ == 0;
  }
  if (is_last) context_->EndStall();
}

void Scheduler::LookForStall() {
  for (const auto& lane : lanes_) Poll(*lane);
  if (!context_->is_lost() && stall_watch_.is_on()) {
    size_t queue = 0;
    bool is_stalled = false;
    {
      std::lock_guard lock(mutex_);
      const Work* work = nullptr;
      for (; queue < lanes_.size(); ++queue) {
        work = lanes_[queue]->in_flight.front();
        if (work && !IsHeldUp(*work)) break;
      }
      is_stalled = stall_watch_.Look(queue < lanes_.size(), ended_count_);
    }
    if (is_stalled) {
      const Status cause =
          DeviceLost("Queue {} ended no work for {} s, the limit of option 'wait_limit_s'.", queue,
                     wait_limit_s_);
      context_->LoseStalled(cause).Ignore();
      for (const auto& lane : lanes_) Poll(*lane);
    }
  }
  if (context_->is_lost()) Pump();
  Drain();
}

void Scheduler::WatchForStall() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    stall_thread_ends_.wait_for(lock, stall_watch_.period());
    if (is_stopping_) return;
    lock.unlock();
    LookForStall();
    lock.lock();
  }
}

Status Scheduler::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                       int64_t timeout_ns, size_t* out_index) {
  Status status;
  // Who is told of a failure may not wait for what else it submitted.
  const auto decided = [&] {
    if (!hal::CheckPoints(points, mode, &status, out_index)) return false;
    if (!status.ok()) ArmAll();
    return true;
  };
  if (points.empty() || decided()) return status;
  const hal::Deadline deadline = hal::DeadlineAfter(timeout_ns);
  const hal::Deadline poll_end = std::min(deadline, hal::DeadlineAfter(poll_us_ * 1000));
  do {
    for (const auto& lane : lanes_) Poll(*lane);
    Drain();
    if (decided()) return status;
    // What is queued may be about to start: it waits for a step of the host that takes less than
    // a thread needs to wake up.
    if (queued_.load(std::memory_order_relaxed) == 0) break;
    Pause();
  } while (std::chrono::steady_clock::now() < poll_end);

  ArmAll();
  hal::PointWait wait(points, mode);
  while (!wait.is_done()) {
    // Nobody may be left to signal what a lost device was to reach.
    if (context_->is_lost() && IsIdle()) {
      return decided() ? status : context_->health();
    }
    const hal::Deadline look = std::min(deadline, hal::DeadlineAfter(kLookNs));
    if (!wait.Sleep(look) && !wait.is_done() && look == deadline) {
      return DeadlineExceeded("The semaphores were not reached within {} ns.", timeout_ns);
    }
    if (!wait.is_done()) LookForStall();
  }
  return wait.Take(out_index);
}

void Scheduler::Flush() { ArmAll(); }

bool Scheduler::IsIdle() {
  std::lock_guard lock(mutex_);
  return !is_delivering_ && done_.empty() &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
           return lane->ready.empty() && lane->in_flight.empty() && !lane->is_polling;
         });
}

void Scheduler::Stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (const auto& lane : lanes_) {
      if (lane->thread.joinable()) threads.push_back(std::move(lane->thread));
      lane->changed.notify_all();
    }
    if (stall_thread_.joinable()) threads.push_back(std::move(stall_thread_));
    stall_thread_ends_.notify_all();
  }
  for (std::thread& thread : threads) JoinOrLeave(thread);
}

}  // namespace halyard::drivers::cuda
