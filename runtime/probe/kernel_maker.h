// SPDX-License-Identifier: Apache-2.0
// KernelMaker: compiles the kernels of a probe, on threads of its own before they are asked for
// where the device is no processor, whose timing that would disturb.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compiler/abi.h"
#include "runtime/cache.h"
#include "runtime/device_turn.h"
#include "runtime/probe/kernel_run.h"

namespace halyard::runtime {

struct KernelJob {
  std::string what;                    // names it among those of a probe
  std::function<std::string()> graph;  // its text; called on the thread that compiles
  bool use_matrix_units = true;        // false: the code is made for a device without them
  bool tune = false;                   // race a few schedules and keep the best
  bool vendor_libraries = true;        // they take part in races
};

// One thread at a time. Races take the turn of the device; what the caller times must hold it too.
class KernelMaker {
 public:
  // `cache` of winners; may be null.
  KernelMaker(Ref<hal::Device> device, std::shared_ptr<Cache> cache);
  ~KernelMaker();  // stops what is under way

  // Compiling on the caller's thread ends when this says true, on whatever thread; may be empty.
  void EndWhen(std::function<bool()> is_late) { is_late_ = std::move(is_late); }
  // Begins to compile them, in their order, on so many threads. Once. Who waits for them asks
  // `is_over`, on its own thread, and waits no longer when it says true; may be empty.
  void Begin(std::vector<KernelJob> jobs, size_t threads, std::function<bool()> is_over);
  // Until all of them are compiled and every thread rests.
  void AwaitAll();
  // Compiles the job, unless that was begun, and puts its operands into the device's memory. Each
  // job once. Fails as compiling and KernelRun::Make do; DEADLINE_EXCEEDED when the time is over.
  // Not to be called by who holds the turn.
  Result<std::unique_ptr<KernelRun>> Make(const KernelJob& job);

  const std::shared_ptr<DeviceTurn>& turn() const { return turn_; }
  // The caller's seconds in Make and AwaitAll up to now: compiling, or waiting for it, and loading.
  double seconds() const { return seconds_; }

 private:
  struct Compiled {
    KernelJob job;
    bool is_done = false;
    Result<CompileResult> result = Aborted("Nothing has compiled it.");
  };
  // `is_late` ends it; may be empty.
  Result<CompileResult> Compile(const KernelJob& job, const std::function<bool()>& is_late);
  void Serve();
  // Whether `is_there` came true before the wait was over. It is called under the lock.
  bool Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& is_there);

  const Ref<hal::Device> device_;
  const std::shared_ptr<Cache> cache_;
  const std::shared_ptr<DeviceTurn> turn_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Compiled> begun_;  // its length is set by Begin; under mutex_, as what follows
  size_t next_ = 0, done_ = 0;
  std::function<bool()> is_over_, is_late_;
  std::atomic<bool> is_stopped_ = false;
  double seconds_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace halyard::runtime
