// SPDX-License-Identifier: Apache-2.0
// Scheduler: takes queued work of a CUDA device from its waits through a stream to its signals. It
// knows nothing of what the work does (drivers/cuda/launch.cc puts it into a stream).
//
// A wait for a point that work in some lane will reach is handed to the GPU. Any other wait stays
// with the semaphore, and the work goes into its queue's lane when the last of those is over. A
// lane is a stream: its works are launched in that order, and an event behind each tells when it is
// done. A work is launched after those that its handed-over waits name; these entered their lanes
// before it, so lanes cannot hold each other up in a circle. Callers who wait ask for the events
// themselves, also while what is queued here still waits for other devices; one thread per lane
// sleeps until the oldest event otherwise, and is started when there is first need of it. Host
// calls run on that thread, between the works before and behind them. No thread spins when nobody
// waits, and nothing is called from inside the CUDA driver.
//
// A device that has stopped ending work leaves those threads in the driver for ever. One more
// thread therefore looks now and then; after the limit the device is lost, what it may still touch
// stays alive (`abandoned`) and everybody is told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "drivers/cuda/options.h"
#include "drivers/cuda/work.h"
#include "hal/point_wait.h"
#include "hal/stall_watch.h"

namespace halyard::drivers::cuda {

// Thread-safe.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
 public:
  enum class Launched : uint8_t {
    kInFlight,  // work.event stands behind it
    kNothing,   // nothing of it reached the stream, or it is over already
    kSkipped,   // a point that it waits for will fail
    kLater,     // try again when a work has been launched or has ended
  };
  // Puts one work onto a stream. A failure goes into the work.
  using Launch = Launched (*)(Work& work, CUstream stream);

  static Result<std::shared_ptr<Scheduler>> Create(Ref<Context> context, uint32_t lanes,
                                                   const CudaOptions& options, Launch launch);
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
  // Ends the threads. No work is queued any more. May be called by one of them.
  void Stop();

 private:
  struct Lane {
    CUstream stream = nullptr;
    WorkList ready;      // all waits over, not launched
    WorkList in_flight;  // in the order of the stream
    WorkList abandoned;  // payloads of works that were in flight when the device stalled
    bool is_launching = false;
    bool is_pumped_again = false;  // somebody asked for launches while they were going on
    bool is_polling = false;
    bool is_calling = false;  // a host call of this lane runs
    bool is_armed = false;    // its thread is to see to the events
    std::condition_variable changed;
    std::thread thread;
  };

  Scheduler(Ref<Context> context, const CudaOptions& options, Launch launch)
      : context_(std::move(context)),
        poll_us_(options.poll_us),
        wait_limit_s_(options.wait_limit_s),
        launch_(launch),
        stall_watch_(options.wait_limit_s) {}

  static void OnWaitDone(hal::SemaphoreWaiter* waiter, const Status& status);
  void CancelWaits(Work* work);
  void DropPending(Work* work);
  void MakeReady(Work* work, bool arm);
  Status PromiseSignals(Work* work);
  bool PumpLane(Lane& lane);
  void Pump();
  bool Poll(Lane& lane);
  void Settle(Work* work);
  void Deliver(Work* work);
  void Drain();
  void ArmLocked(Lane& lane);
  void ArmAll();
  std::string DescribeInFlight();
  bool IsIdle();
  bool CanCallLocked(const Lane& lane) const;
  void Serve(Lane& lane);
  void LookForStall();
  void WatchForStall();
  void EndAbandoned(Work* work);

  const Ref<Context> context_;
  const int64_t poll_us_, wait_limit_s_;
  const Launch launch_;
  std::atomic<int64_t> queued_ = 0;  // works that were enqueued and have not ended

  std::mutex mutex_;  // everything below
  std::vector<std::unique_ptr<Lane>> lanes_;
  WorkList done_;
  bool is_delivering_ = false;
  bool is_stopping_ = false;
  uint64_t ended_count_ = 0;  // works that left their streams
  int64_t abandoned_count_ = 0;
  hal::StallWatch stall_watch_;
  std::thread stall_thread_;
  std::condition_variable stall_thread_ends_;
  Work* free_ = nullptr;
};

}  // namespace halyard::drivers::cuda
