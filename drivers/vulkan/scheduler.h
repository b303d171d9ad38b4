// SPDX-License-Identifier: Apache-2.0
// Scheduler: decides when queued work of a Vulkan device goes to which hardware queue, and notices
// when it is done. It knows nothing of what the work does.
//
// Work waits in its semaphores until nothing holds it. A wait for a value that is already on its
// way through a hardware queue of this device holds nothing: the hardware waits for it. Then the
// work stands in its queue's lane, which keeps host calls and native work of one queue apart, and
// is submitted. Every hardware queue has one timeline; a work is done when its value is reached.
// Whoever waits for this device looks at the timelines; when nobody does, a thread per hardware
// queue sleeps in the driver until the next value. HAL semaphores are signalled on the host, after
// the error records have been read. Those threads also notice when the device has stopped ending
// work: after the limit it is lost, and what it may still touch stays alive (`abandoned`).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/ended_points.h"
#include "drivers/vulkan/work.h"
#include "hal/point_wait.h"
#include "hal/stall_watch.h"

namespace halyard::drivers::vulkan {

struct SchedulerOptions {
  std::string path;  // of the device, for messages
  uint32_t lanes = 1;
  int64_t spin_us = 0;
  // See VulkanOptions.
  int64_t wait_limit_s = 0;
  int64_t lose_at = 0;
  int64_t hang_at = 0;
};

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  static Result<std::shared_ptr<Scheduler>> Make(std::shared_ptr<DeviceHandle> handle,
                                                 const SchedulerOptions& options);
  ~Scheduler();

  // Work to fill in; goes back through Enqueue or Recycle.
  Work* Acquire();
  void Recycle(Work* work);
  // Registers with the waits and returns; the work starts when they are reached.
  void Enqueue(Work* work);

  // See hal::Device.
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index);
  void Flush();
  Status health() const;
  // What the device said of its fault when it was lost (device_fault.h); empty until then.
  std::string fault() const;
  // Identifies the semaphores whose queue points are this scheduler's.
  uint64_t id() const { return id_; }
  // Ends the threads and gives up the VkDevice. No work is queued any more. May be called by one of
  // the threads, and again.
  void Stop();
  // For the end of the process (exit_guard.h): lets work in flight end until `work_end`, then
  // declares the device lost and waits for the threads to end until `thread_end`, except for the
  // caller's. Destroys nothing of `handle`, the scheduler's own.
  void Abandon(const DeviceHandle& handle, hal::Deadline work_end, hal::Deadline thread_end);
  // After that, once nothing calls the driver any more: fails what is still in flight, and gives up
  // what a device that stalled kept.
  void EndAbandoned();

 private:
  static constexpr uint32_t kMaxQueues = 17;  // for computing, and one for transfers
  struct HardwareQueue {
    VkQueue handle = VK_NULL_HANDLE;
    VkSemaphore timeline = VK_NULL_HANDLE;
    uint64_t submitted = 0;
    uint64_t completed = 0;  // as last seen
    uint32_t in_flight = 0;
    WorkList abandoned;       // payloads of works that were in flight when the device stalled
    bool is_watched = false;  // the thread is to notice the end of what is in flight
    bool is_idle = false;     // the thread sleeps
    std::condition_variable changed;
    std::thread watcher;
  };
  struct Lane {
    WorkList ready;
    uint32_t queue = 0;      // hardware queue for kernels
    QueuePoint last;         // of the last native work
    uint32_t in_flight = 0;  // native works
    bool is_host_call_running = false;
  };
  // What a call gives rise to, gathered under the lock and carried out without it.
  struct Effects {
    QueueWaiter* released = nullptr;
    WorkList done;
  };
  // What a thread still has to start. It keeps notifications from nesting.
  struct Activity {
    Scheduler* scheduler;
    Activity* outer;
    WorkList ready;
  };

  struct RunningThread;  // lives in a thread of the scheduler

  Scheduler(std::shared_ptr<DeviceHandle> handle, const SchedulerOptions& options);
  Status MakeQueues();

  static void OnWaitDone(hal::SemaphoreWaiter* waiter, const Status& status);
  void CancelWaits(Work* work);
  void DropPending(Work* work);
  void Start(Work* work);
  void Drain(Activity& activity);
  void CarryOut(Effects& effects);
  void PumpLocked(Lane& lane, Effects* effects);
  void SubmitLocked(Lane& lane, Work* work, Effects* effects);
  void PollLocked();
  // `may_ask`: the device itself answered that it is lost, so that it can be asked why.
  void LoseLocked(const Status& status, bool may_ask);
  bool LookForStall();
  void AbandonPayloadLocked(Work* work);
  std::string DescribeInFlightLocked() const;
  bool Retire();
  void End(Work* work);
  bool WatchLocked(uint32_t queue);
  bool WatchAllLocked();
  void RunWatcher(uint32_t queue);
  void RunHostCalls();
  void StopThreadsLocked();
  void JoinThreads();

  static thread_local Activity* t_activity_;
  static thread_local const Scheduler* t_owner_;  // of the thread

  const uint64_t id_;
  const SchedulerOptions options_;
  std::shared_ptr<DeviceHandle> handle_;
  uint32_t transfer_queue_ = 0;
  uint32_t queue_count_ = 0;

  mutable std::mutex mutex_;  // everything below
  HardwareQueue queues_[kMaxQueues];
  std::vector<Lane> lanes_;
  WorkList in_flight_;  // native works of all queues, in the order of submission
  std::atomic<uint32_t> in_flight_count_{0};
  bool is_retiring_ = false;
  int sleepers_ = 0;
  int64_t submission_count_ = 0;
  Status lost_;
  std::string fault_;  // why, where the device tells
  std::atomic<bool> is_lost_{false};
  bool is_stalled_ = false;  // lost, and may still touch what it was given
  hal::StallWatch stall_watch_;
  VkSemaphore never_ = VK_NULL_HANDLE;  // of hang_at
  bool is_stopping_ = false;
  WorkList host_calls_;
  std::condition_variable host_call_arrived_;
  std::thread host_thread_;
  int running_threads_ = 0;
  std::condition_variable thread_ended_;
  Work* free_ = nullptr;
};

}  // namespace halyard::drivers::vulkan
