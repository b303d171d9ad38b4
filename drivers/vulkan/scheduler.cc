// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/scheduler.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_end.h"
#include "drivers/vulkan/busy_threads.h"
#include "drivers/vulkan/device.h"
#include "drivers/vulkan/device_fault.h"

namespace halyard::drivers::vulkan {
namespace {

std::atomic<uint64_t> g_next_id{1};

// False when the system has no thread to give.
template <typename Body>
bool StartThread(std::thread* thread, Body body) {
  try {
    // What a notification of a stranger throws must not end the process.
    *thread = std::thread([body]() mutable {
      const BusyThread busy;
      auto run = [own = std::move(body)]() -> Status {
        own();
        return OkStatus();
      };
      Status status = CatchAll(run);
      if (!status.ok()) HY_LOG(kError, "A thread of the Vulkan driver ended: {}", status.ToLine());
    });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

VkResult WaitForValue(const DeviceHandle& device, VkSemaphore timeline, uint64_t value,
                      std::chrono::nanoseconds patience) {
  auto info = Typed<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline;
  info.pValues = &value;
  return device.vk.vkWaitSemaphores(device.device, &info, static_cast<uint64_t>(patience.count()));
}

}  // namespace

void Work::MovePayloadTo(Work& other) {
  other.device = Ref<VulkanDevice>::Share(device.get());
  other.commands = std::move(commands);
  other.instance = std::exchange(instance, nullptr);
  other.buffers = std::move(buffers);
  std::swap(other.own, own);
  std::swap(other.staging, staging);
  other.timer.swap(timer);
  other.point = point;
}

thread_local Scheduler::Activity* Scheduler::t_activity_ = nullptr;
thread_local const Scheduler* Scheduler::t_owner_ = nullptr;

// Counts the thread out when it ends, however it does. The lock is not held.
struct Scheduler::RunningThread {
  Scheduler* scheduler;

  explicit RunningThread(Scheduler* owner) : scheduler(owner) { t_owner_ = owner; }
  ~RunningThread() {
    std::lock_guard lock(scheduler->mutex_);
    --scheduler->running_threads_;
    scheduler->thread_ended_.notify_all();
  }
};

Scheduler::Scheduler(std::shared_ptr<DeviceHandle> handle, const SchedulerOptions& options)
    : id_(g_next_id.fetch_add(1, std::memory_order_relaxed)),
      options_(options),
      handle_(std::move(handle)),
      lanes_(options.lanes),
      stall_watch_(options.wait_limit_s) {}

Scheduler::~Scheduler() { Stop(); }

Result<std::shared_ptr<Scheduler>> Scheduler::Make(std::shared_ptr<DeviceHandle> handle,
                                                   const SchedulerOptions& options) {
  std::shared_ptr<Scheduler> made(new Scheduler(std::move(handle), options));
  HY_TRY(made->MakeQueues());
  return made;
}

Status Scheduler::MakeQueues() {
  const DeviceHandle& device = *handle_;
  uint32_t compute = std::min(device.compute_queues, kMaxQueues - 1);
  bool has_transfer = device.transfer_family != device.compute_family;
  queue_count_ = compute + has_transfer;
  transfer_queue_ = has_transfer ? compute : UINT32_MAX;
  auto type = Typed<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto info = Typed<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  info.pNext = &type;
  const auto make = [&](VkSemaphore* timeline) {
    return StatusFromVk(device.vk.vkCreateSemaphore(device.device, &info, nullptr, timeline),
                        "vkCreateSemaphore");
  };
  for (uint32_t q = 0; q < queue_count_; ++q) {
    if (q == transfer_queue_) {
      device.vk.vkGetDeviceQueue(device.device, device.transfer_family, 0, &queues_[q].handle);
    } else {
      device.vk.vkGetDeviceQueue(device.device, device.compute_family, q, &queues_[q].handle);
    }
    HY_TRY(make(&queues_[q].timeline));
  }
  if (options_.hang_at > 0) HY_TRY(make(&never_));
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].queue = static_cast<uint32_t>(i) % compute;
  return OkStatus();
}

Work* Scheduler::Acquire() {
  {
    std::lock_guard lock(mutex_);
    if (free_) return std::exchange(free_, free_->next);
  }
  return new Work;
}

void Scheduler::Recycle(Work* work) {
  work->device->ReleasePayload(work);
  work->waits.clear();
  work->signals.clear();
  work->wait_status = work->outcome = OkStatus();
  work->kind = WorkKind::kNothing;
  work->caller_waits = work->is_transfer = false;
  work->point = {};
  Ref<VulkanDevice> device = std::move(work->device);
  std::lock_guard lock(mutex_);
  work->next = free_;
  free_ = work;
  // The lock is released before `device`, which may be the last reference.
}

void Scheduler::Enqueue(Work* work) {
  work->scheduler = this;
  work->pending.store(work->waits.size() + 1, std::memory_order_relaxed);
  for (Work::Wait& wait : work->waits) {
    wait.work = work;
    wait.notify = &Scheduler::OnWaitDone;
    wait.is_linked = false;
    wait.point = {};
  }
  // Only native work can be held by the hardware.
  bool is_native = work->kind == WorkKind::kCommands || work->kind == WorkKind::kOwn;
  for (Work::Wait& wait : work->waits) {
    auto* own = dynamic_cast<VulkanSemaphore*>(wait.semaphore.get());
    if (is_native && own && own->device_id() == id_) {
      own->AddQueueWaiter(&wait);
    } else {
      wait.semaphore->AddWaiter(&wait);
    }
  }
  // A wait that failed meanwhile could not cancel those that were not registered yet.
  CancelWaits(work);
  DropPending(work);
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
  self->DropPending(work);
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

void Scheduler::DropPending(Work* work) {
  if (work->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) Start(work);
}

void Scheduler::Start(Work* work) {
  if (t_activity_ && t_activity_->scheduler == this) return t_activity_->ready.Push(work);
  // The work may hold the last reference to the device, and that to this.
  std::shared_ptr<Scheduler> self = shared_from_this();
  Activity activity{this, t_activity_, {}};
  t_activity_ = &activity;
  activity.ready.Push(work);
  Drain(activity);
  t_activity_ = activity.outer;
}

void Scheduler::Drain(Activity& activity) {
  while (!activity.ready.empty()) {
    Effects effects;
    {
      std::lock_guard lock(mutex_);
      while (!activity.ready.empty()) {
        Work* work = activity.ready.Pop();
        Lane& lane = lanes_[work->lane];
        lane.ready.Push(work);
        PumpLocked(lane, &effects);
      }
    }
    CarryOut(effects);
  }
}

void Scheduler::CarryOut(Effects& effects) {
  for (hal::SemaphoreWaiter* waiter = effects.released; waiter;) {
    hal::SemaphoreWaiter* next = waiter->next;
    waiter->notify(waiter, OkStatus());
    waiter = next;
  }
  while (!effects.done.empty()) End(effects.done.Pop());
}

void Scheduler::PumpLocked(Lane& lane, Effects* effects) {
  while (!lane.ready.empty()) {
    Work* work = lane.ready.first;
    {
      std::lock_guard lock(work->mutex);
      work->outcome = work->wait_status;
    }
    if (work->outcome.ok()) work->outcome = lost_;
    if (!work->outcome.ok() || work->kind == WorkKind::kNothing) {
      effects->done.Push(lane.ready.Pop());
      continue;
    }
    if (lane.is_host_call_running) return;
    if (work->kind == WorkKind::kHostCall) {
      if (lane.in_flight > 0) {
        // Its end must be noticed even if nobody waits for it.
        WatchAllLocked();
        return;
      }
      lane.ready.Pop();
      if (!host_thread_.joinable()) {
        if (!StartThread(&host_thread_, [self = shared_from_this()] { self->RunHostCalls(); })) {
          work->outcome =
              OutOfMemory("The system gives no thread for the host calls of '{}'.", options_.path);
          effects->done.Push(work);
          continue;
        }
        ++running_threads_;
      }
      lane.is_host_call_running = true;
      host_calls_.Push(work);
      host_call_arrived_.notify_one();
      return;
    }
    SubmitLocked(lane, lane.ready.Pop(), effects);
  }
}

void Scheduler::SubmitLocked(Lane& lane, Work* work, Effects* effects) {
  const uint32_t q =
      work->is_transfer && transfer_queue_ != UINT32_MAX ? transfer_queue_ : lane.queue;
  HardwareQueue& queue = queues_[q];
  // One value per other queue; on the same one the recording's first barrier does it.
  uint64_t values[kMaxQueues] = {};
  auto wait_for = [&](const QueuePoint& point) {
    if (point.value > queues_[point.queue].completed && point.queue != q) {
      values[point.queue] = std::max(values[point.queue], point.value);
    }
  };
  for (const Work::Wait& wait : work->waits) wait_for(wait.point);
  wait_for(lane.last);
  VkSemaphore semaphores[kMaxQueues];
  VkPipelineStageFlags stages[kMaxQueues];
  uint32_t wait_count = 0;
  for (uint32_t other = 0; other < queue_count_; ++other) {
    if (values[other] == 0) continue;
    semaphores[wait_count] = queues_[other].timeline;
    stages[wait_count] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    values[wait_count++] = values[other];
  }
  ++submission_count_;
  if (submission_count_ == options_.hang_at) {
    semaphores[wait_count] = never_;
    stages[wait_count] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    values[wait_count++] = 1;
  }
  const uint64_t signal = queue.submitted + 1;
  auto timeline =
      Typed<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  timeline.waitSemaphoreValueCount = wait_count;
  timeline.pWaitSemaphoreValues = values;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &signal;
  auto info = Typed<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  info.pNext = &timeline;
  info.waitSemaphoreCount = wait_count;
  info.pWaitSemaphores = semaphores;
  info.pWaitDstStageMask = stages;
  VkCommandBuffer commands[3];
  if (work->time) commands[info.commandBufferCount++] = work->timer->start();
  commands[info.commandBufferCount++] = work->native();
  if (work->time) commands[info.commandBufferCount++] = work->timer->end();
  info.pCommandBuffers = commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &queue.timeline;
  VkResult result = submission_count_ == options_.lose_at
                        ? VK_ERROR_DEVICE_LOST
                        : handle_->vk.vkQueueSubmit(queue.handle, 1, &info, VK_NULL_HANDLE);
  if (result != VK_SUCCESS) {
    work->outcome = StatusFromVk(result, "vkQueueSubmit");
    if (result == VK_ERROR_DEVICE_LOST) {
      LoseLocked(
          DeviceLost("'{}' was lost at its submission {}.", options_.path, submission_count_),
          submission_count_ != options_.lose_at);
      work->outcome = lost_;
      // Whoever retires next ends what was in flight.
      WatchAllLocked();
    }
    effects->done.Push(work);
    return;
  }
  queue.submitted = signal;
  ++queue.in_flight;
  work->point = lane.last = {q, signal};
  ++lane.in_flight;
  for (Work::Signal& s : work->signals) {
    auto* own = dynamic_cast<VulkanSemaphore*>(s.semaphore.get());
    if (!own || own->device_id() != id_) continue;
    QueueWaiter* released = own->Schedule(s.value, work->point);
    while (released) {
      auto* next = static_cast<QueueWaiter*>(released->next);
      released->next = effects->released;
      effects->released = released;
      released = next;
    }
  }
  in_flight_.Push(work);
  in_flight_count_.fetch_add(1, std::memory_order_relaxed);
  if (!work->caller_waits || sleepers_ > 0) WatchLocked(q);
}

void Scheduler::PollLocked() {
  for (uint32_t q = 0; q < queue_count_; ++q) {
    HardwareQueue& queue = queues_[q];
    if (queue.in_flight == 0 || !lost_.ok()) continue;
    uint64_t value = 0;
    VkResult result =
        handle_->vk.vkGetSemaphoreCounterValue(handle_->device, queue.timeline, &value);
    // A lost device may answer anything.
    if (result != VK_SUCCESS || value > queue.submitted) {
      LoseLocked(DeviceLost("'{}' was lost while submission {} ran: {}.", options_.path,
                            queue.completed + 1, FormatVkResult(result)),
                 result == VK_ERROR_DEVICE_LOST);
      return;
    }
    queue.completed = std::max(queue.completed, value);
  }
}

void Scheduler::LoseLocked(const Status& status, bool may_ask) {
  if (!lost_.ok()) return;
  lost_ = status;
  if (may_ask) fault_ = DescribeFault(*handle_);
  if (!fault_.empty()) lost_ = DeviceLost("{} Its driver reports: {}.", status.message(), fault_);
  is_lost_.store(true, std::memory_order_release);
  // Returns at once when the device is really gone; what it used may then be taken back.
  if (!is_stalled_) (void)handle_->vk.vkDeviceWaitIdle(handle_->device);
}

// True when the device is lost from here on.
bool Scheduler::LookForStall() {
  std::lock_guard lock(mutex_);
  if (!stall_watch_.is_on() || !lost_.ok()) return false;
  PollLocked();
  uint64_t ended = 0;
  uint32_t busy = queue_count_;
  for (uint32_t q = 0; q < queue_count_; ++q) {
    ended += queues_[q].completed;
    if (queues_[q].submitted > queues_[q].completed) busy = std::min(busy, q);
  }
  if (!stall_watch_.Look(busy < queue_count_, ended) || !lost_.ok()) return false;
  is_stalled_ = true;
  LoseLocked(DeviceLost("'{}' is lost for this process: Hardware queue {} ended no work for {} s, "
                        "the limit of option 'wait_limit_s'. In flight: {}.",
                        options_.path, busy, options_.wait_limit_s, DescribeInFlightLocked()),
             false);
  return true;
}

std::string Scheduler::DescribeInFlightLocked() const {
  constexpr int kMostNamed = 4;
  std::string text;
  int named = 0, others = 0;
  for (const Work* work = in_flight_.first; work; work = work->next) {
    if (!work->commands || named == kMostNamed) {
      ++others;
      continue;
    }
    text += fmt::format("{}{}", named++ == 0 ? "" : "; ", work->commands->Describe());
  }
  if (others > 0) text += fmt::format("{}{} other works", text.empty() ? "" : "; ", others);
  return text;
}

void Scheduler::AbandonPayloadLocked(Work* work) {
  Work* payload = free_ ? std::exchange(free_, free_->next) : new Work;
  work->MovePayloadTo(*payload);
  queues_[payload->point.queue].abandoned.Push(payload);
  WatchLocked(payload->point.queue);
  queues_[payload->point.queue].changed.notify_one();
}

// Ends all works that the hardware has done, in the order of submission. One thread at a time;
// false when another one is at it or nothing was done.
bool Scheduler::Retire() {
  std::shared_ptr<Scheduler> self = shared_from_this();
  bool has_retired = false;
  for (;;) {
    Effects effects;
    {
      std::lock_guard lock(mutex_);
      if (!has_retired && is_retiring_) return false;
      if (in_flight_.empty()) {
        is_retiring_ = false;
        return has_retired;
      }
      PollLocked();
      WorkList left, collected;
      uint64_t completed[kMaxQueues] = {};
      for (uint32_t q = 0; q < queue_count_; ++q) completed[q] = queues_[q].completed;
      EndedPoints ended(completed);
      while (!in_flight_.empty()) {
        Work* work = in_flight_.Pop();
        // What it waited for in hardware must have been seen too, so that ends come in order.
        const bool is_over = !lost_.ok() || ended.Take(work->point, work->waits);
        (is_over ? collected : left).Push(work);
      }
      in_flight_ = left;
      if (collected.empty()) {
        is_retiring_ = false;
        return has_retired;
      }
      is_retiring_ = has_retired = true;
      for (Work* work = collected.first; work; work = work->next) {
        --queues_[work->point.queue].in_flight;
        --lanes_[work->lane].in_flight;
        in_flight_count_.fetch_sub(1, std::memory_order_relaxed);
        if (work->outcome.ok()) work->outcome = lost_;
        if (is_stalled_) AbandonPayloadLocked(work);
      }
      effects.done = collected;
      // Host calls may have waited for the lane.
      for (Lane& lane : lanes_) {
        if (lane.in_flight == 0 && !lane.ready.empty()) PumpLocked(lane, &effects);
      }
    }
    Activity activity{this, t_activity_, {}};
    t_activity_ = &activity;
    CarryOut(effects);
    Drain(activity);
    t_activity_ = activity.outer;
  }
}

// Gives the outcome of `work` to its signals. No lock is held.
void Scheduler::End(Work* work) {
  Status status = work->outcome;
  if (status.ok() && work->point.value != 0) {
    // Waits that the hardware did for us may turn out to have failed.
    for (const Work::Wait& wait : work->waits) {
      if (wait.point.value == 0 || wait.semaphore->value() >= wait.value) continue;
      Status failure = wait.semaphore->status();
      if (!failure.ok() && wait.semaphore->value() < wait.value) {
        status = failure;
        break;
      }
    }
    if (status.ok() && work->kind == WorkKind::kCommands) {
      auto read = [work] { return work->commands->FailureOf(*work->instance); };
      status = CatchAll(read);
    }
    if (status.ok() && work->time) {
      Result<int64_t> taken = work->timer->ReadNanoseconds();
      if (taken.ok()) work->time->Add(*taken);
      status = taken.status();
    }
  }
  // Before the signals: who is told that the work is done finds its buffers released.
  work->device->ReleasePayload(work);
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

// False when the system has no thread to give: the work is noticed when somebody waits for it.
bool Scheduler::WatchLocked(uint32_t q) {
  HardwareQueue& queue = queues_[q];
  if (is_stopping_) return false;
  bool was_watched = std::exchange(queue.is_watched, true);
  if (!queue.watcher.joinable()) {
    auto watch = [self = shared_from_this(), q] { self->RunWatcher(q); };
    const bool is_started = StartThread(&queue.watcher, std::move(watch));
    running_threads_ += is_started;
    return is_started;
  }
  if (!was_watched && queue.is_idle) queue.changed.notify_one();
  return true;
}

bool Scheduler::WatchAllLocked() {
  bool is_watched = true;
  for (uint32_t q = 0; q < queue_count_; ++q) {
    if (queues_[q].in_flight > 0) is_watched &= WatchLocked(q);
  }
  return is_watched;
}

void Scheduler::RunWatcher(uint32_t q) {
  HardwareQueue& queue = queues_[q];
  const RunningThread running(this);
  std::unique_lock lock(mutex_);
  // Long enough to cost nothing, short enough to notice a device that was lost elsewhere.
  std::chrono::nanoseconds patience = std::chrono::milliseconds(500);
  if (stall_watch_.is_on()) patience = std::min(patience, stall_watch_.period());
  while (!is_stopping_) {
    if (queue.in_flight == 0 && !queue.abandoned.empty()) {
      const uint64_t value = queue.abandoned.first->point.value;
      lock.unlock();
      const bool is_over = WaitForValue(*handle_, queue.timeline, value, patience) != VK_TIMEOUT;
      lock.lock();
      Work* ended = is_over ? queue.abandoned.Pop() : nullptr;
      lock.unlock();
      if (ended) Recycle(ended);
      lock.lock();
      continue;
    }
    if (queue.in_flight == 0 || !queue.is_watched) {
      queue.is_watched = false;
      queue.is_idle = true;
      BusyThread::Rest();
      queue.changed.wait(lock);
      BusyThread::Resume();
      queue.is_idle = false;
      continue;
    }
    const uint64_t value = queue.completed + 1;
    bool is_sound = lost_.ok() && queue.submitted >= value;
    lock.unlock();
    VkResult result =
        is_sound ? WaitForValue(*handle_, queue.timeline, value, patience) : VK_SUCCESS;
    if (result == VK_TIMEOUT && LookForStall()) result = VK_SUCCESS;
    if (result < VK_SUCCESS) {
      std::lock_guard relock(mutex_);
      LoseLocked(DeviceLost("'{}' was lost while submission {} ran: {}.", options_.path, value,
                            FormatVkResult(result)),
                 result == VK_ERROR_DEVICE_LOST);
    }
    // Another thread may be at it; it will come to what this one saw.
    if (result != VK_TIMEOUT && !Retire()) std::this_thread::yield();
    lock.lock();
  }
}

void Scheduler::RunHostCalls() {
  const RunningThread running(this);
  std::unique_lock lock(mutex_);
  for (;;) {
    BusyThread::Rest();
    host_call_arrived_.wait(lock, [this] { return is_stopping_ || !host_calls_.empty(); });
    BusyThread::Resume();
    if (host_calls_.empty()) return;
    Work* work = host_calls_.Pop();
    lock.unlock();
    auto call = [work] { return work->call.function(work->call.context); };
    work->outcome = CatchAll(call);
    Effects effects;
    {
      std::lock_guard relock(mutex_);
      Lane& lane = lanes_[work->lane];
      lane.is_host_call_running = false;
      effects.done.Push(work);
      PumpLocked(lane, &effects);
    }
    Activity activity{this, t_activity_, {}};
    t_activity_ = &activity;
    CarryOut(effects);
    Drain(activity);
    t_activity_ = activity.outer;
    lock.lock();
  }
}

Status Scheduler::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                       int64_t timeout_ns, size_t* out_index) {
  Status status;
  if (points.empty() || hal::CheckPoints(points, mode, &status, out_index)) return status;
  Retire();
  if (hal::CheckPoints(points, mode, &status, out_index)) return status;
  if (timeout_ns <= 0) return DeadlineExceeded("The semaphores were not reached yet.");
  hal::Deadline deadline = hal::DeadlineAfter(timeout_ns);
  if (options_.spin_us > 0 && in_flight_count_.load(std::memory_order_relaxed) > 0) {
    hal::Deadline end = std::min(deadline, hal::DeadlineAfter(options_.spin_us * 1000));
    while (in_flight_count_.load(std::memory_order_relaxed) > 0 &&
           std::chrono::steady_clock::now() < end) {
      if (!Retire()) Pause();
      if (hal::CheckPoints(points, mode, &status, out_index)) return status;
    }
  }
  bool is_watched;
  {
    std::lock_guard lock(mutex_);
    ++sleepers_;
    is_watched = WatchAllLocked();
  }
  hal::PointWait wait(points, mode);
  bool in_time = true;
  while (in_time && !wait.is_done()) {
    constexpr int64_t kLookNs = 200'000;
    if (is_watched) {
      in_time = wait.Sleep(deadline);
    } else {
      (void)wait.Sleep(std::min(deadline, hal::DeadlineAfter(kLookNs)));
      LookForStall();
      Retire();
      in_time = std::chrono::steady_clock::now() < deadline;
    }
  }
  {
    std::lock_guard lock(mutex_);
    --sleepers_;
  }
  if (wait.is_done()) return wait.Take(out_index);
  return DeadlineExceeded("The semaphores were not reached within {} ns.", timeout_ns);
}

void Scheduler::Flush() {
  std::lock_guard lock(mutex_);
  WatchAllLocked();
}

Status Scheduler::health() const {
  if (!is_lost_.load(std::memory_order_acquire)) return OkStatus();
  std::lock_guard lock(mutex_);
  return lost_;
}

std::string Scheduler::fault() const {
  std::lock_guard lock(mutex_);
  return fault_;
}

void Scheduler::StopThreadsLocked() {
  is_stopping_ = true;
  host_call_arrived_.notify_all();
  for (HardwareQueue& queue : queues_) queue.changed.notify_all();
}

// Each thread by one caller.
void Scheduler::JoinThreads() {
  auto join = [this](std::thread& thread) {
    std::thread taken;
    {
      std::lock_guard lock(mutex_);
      taken = std::move(thread);
    }
    JoinOrLeave(taken);
  };
  join(host_thread_);
  for (HardwareQueue& queue : queues_) join(queue.watcher);
}

void Scheduler::Abandon(const DeviceHandle& handle, hal::Deadline work_end,
                        hal::Deadline thread_end) {
  VkSemaphore timelines[kMaxQueues];
  uint64_t values[kMaxQueues];
  auto info = Typed<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.pSemaphores = timelines;
  info.pValues = values;
  Ref<VulkanDevice> device;  // keeps the timelines
  {
    std::lock_guard lock(mutex_);
    for (uint32_t q = 0; q < queue_count_ && lost_.ok(); ++q) {
      if (queues_[q].in_flight == 0) continue;
      timelines[info.semaphoreCount] = queues_[q].timeline;
      values[info.semaphoreCount++] = queues_[q].submitted;
    }
    if (!in_flight_.empty()) device = in_flight_.first->device;
  }
  if (device && info.semaphoreCount > 0) {
    const auto left = std::chrono::nanoseconds(work_end - std::chrono::steady_clock::now());
    const auto patience_ns = static_cast<uint64_t>(std::max<int64_t>(left.count(), 0));
    // What it does not reach is failed by EndAbandoned.
    (void)handle.vk.vkWaitSemaphores(handle.device, &info, patience_ns);
    Retire();
  }
  {
    std::unique_lock lock(mutex_);
    if (lost_.ok()) lost_ = DeviceLost("'{}' is lost: the process exits.", options_.path);
    is_lost_.store(true, std::memory_order_release);
    StopThreadsLocked();
    const int own = t_owner_ == this;
    // A host call may last as long as it likes.
    if (!thread_ended_.wait_until(lock, thread_end, [&] { return running_threads_ <= own; })) {
      return;
    }
  }
  JoinThreads();
}

void Scheduler::EndAbandoned() {
  Retire();
  WorkList kept;
  {
    std::lock_guard lock(mutex_);
    for (HardwareQueue& queue : queues_) {
      while (!queue.abandoned.empty()) kept.Push(queue.abandoned.Pop());
    }
  }
  while (!kept.empty()) Recycle(kept.Pop());
}

void Scheduler::Stop() {
  if (!handle_) return;
  {
    std::lock_guard lock(mutex_);
    StopThreadsLocked();
  }
  JoinThreads();
  const DeviceHandle& device = *handle_;
  for (uint32_t q = 0; q < queue_count_; ++q) {
    device.vk.vkDestroySemaphore(device.device, queues_[q].timeline, nullptr);
  }
  device.vk.vkDestroySemaphore(device.device, never_, nullptr);
  while (free_) {
    Work* work = std::exchange(free_, free_->next);
    for (Work::OwnCommands& own : work->own) {
      device.vk.vkDestroyCommandPool(device.device, own.pool, nullptr);
    }
    delete work;
  }
  handle_.reset();
}

}  // namespace halyard::drivers::vulkan
