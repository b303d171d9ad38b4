// SPDX-License-Identifier: Apache-2.0
// Scheduler: decides when queued work of the CPU device runs and on which thread. It knows nothing
// of what the work does (drivers/cpu/device.cc executes it).
//
// Work waits in its semaphores until nothing holds it, then stands in its queue's lane. A lane runs
// one work at a time. Ready lanes are served by whoever has time: first the threads that wait for
// this device, then background threads, which are started when there is nobody else and sleep
// otherwise. So nothing that is not ready ever occupies a thread, and a caller who submits and
// waits runs its work itself and wakes nobody.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "drivers/cpu/delay.h"
#include "drivers/cpu/executor.h"
#include "drivers/cpu/work.h"
#include "hal/point_wait.h"

namespace halyard::drivers::cpu {

struct SchedulerOptions {
  uint32_t lanes = 1;
  int max_running = 1 << 30;  // works at once; the test mode sets 1
  int max_background_threads = 1;
  uint64_t delay_seed = 0;    // not 0: start work late, in random order
  bool may_end_late = false;  // works may set `done_at`
};

class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  // Runs one work and returns its outcome. Does not throw.
  using Execute = Status (*)(Work& work, Executor& executor);

  Scheduler(const SchedulerOptions& options, std::unique_ptr<Executor> executor, Execute execute);
  ~Scheduler();

  // Work to fill in; goes back through Enqueue or Recycle.
  Work* Acquire();
  void Recycle(Work* work);
  // Registers with the waits and returns; the work runs when they are reached.
  void Enqueue(Work* work);

  // See hal::Device.
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index);
  void Flush();
  // Ends the background threads. No work is queued any more. May be called by one of them.
  void Stop();

  Executor& executor() { return *executor_; }
  // For tests: threads started and wake-ups sent so far.
  int background_thread_count() const;
  int64_t wake_count() const;

 private:
  struct Lane {
    Work* first = nullptr;
    Work* last = nullptr;
    Lane* next_ready = nullptr;
    bool is_ready = false;
    bool is_running = false;
  };

  static void OnWaitDone(hal::SemaphoreWaiter* waiter, const Status& status);
  void CancelWaits(Work* work);
  void DropPending(Work* work, bool is_enqueuing);
  void MakeReady(Work* work, bool wake);
  bool CanRunLocked() const { return first_ready_ && running_ < options_.max_running; }
  void PushReadyLocked(Lane* lane);
  void WakeLocked();
  bool RunOne();
  // Ends work that has been executed: frees its lane and tells those who wait.
  void Finish(Work* work);
  void Serve();
  void HandOver();

  const SchedulerOptions options_;
  std::unique_ptr<Executor> executor_;
  const Execute execute_;
  std::unique_ptr<DelayThread> start_delay_;
  std::unique_ptr<DelayThread> end_delay_;

  mutable std::mutex mutex_;         // everything below
  std::condition_variable arrived_;  // for background threads
  std::vector<Lane> lanes_;
  Lane* first_ready_ = nullptr;
  Lane* last_ready_ = nullptr;
  int ready_count_ = 0;
  int running_ = 0;
  hal::PointWait* parked_ = nullptr;  // waiting callers that may be woken to run work
  int idle_background_ = 0;
  int64_t wake_count_ = 0;
  std::minstd_rand random_;  // of start delays
  bool is_stopping_ = false;
  std::vector<std::thread> background_;
  Work* free_ = nullptr;
};

}  // namespace halyard::drivers::cpu
