// SPDX-License-Identifier: Apache-2.0
// The oneTBB executor; the only file that includes oneTBB. A plain arena without constraints: those
// load libtbbbind with RTLD_DEEPBIND, which ends processes that run under a sanitizer.
#if !defined(HALYARD_THREAD_EXECUTOR)

#include <sched.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

#include "base/check.h"
#include "drivers/cpu/executor.h"

namespace halyard::drivers::cpu {
namespace {

// Binds workers, and only workers, while they are in the arena.
class PinObserver final : public tbb::task_scheduler_observer {
 public:
  PinObserver(tbb::task_arena& arena, const std::vector<int>& cpus)
      : tbb::task_scheduler_observer(arena), cpus_(cpus) {
    observe(true);
  }
  ~PinObserver() override { observe(false); }

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    int limit = 0;
    for (int cpu : cpus_) limit = cpu >= limit ? cpu + 1 : limit;
    cpu_set_t* set = CPU_ALLOC(limit);
    if (!set) return;
    size_t bytes = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(bytes, set);
    for (int cpu : cpus_) CPU_SET_S(cpu, bytes, set);
    // A failure costs speed only.
    (void)sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
  }

 private:
  std::vector<int> cpus_;
};

class TbbExecutor final : public Executor {
 public:
  TbbExecutor(int concurrency, const std::vector<int>& pinned_cpus)
      : concurrency_(concurrency), arena_(concurrency, 1) {
    if (!pinned_cpus.empty()) observer_ = std::make_unique<PinObserver>(arena_, pinned_cpus);
  }

  int concurrency() const override { return concurrency_; }

  void ParallelFor(int64_t count, int64_t grain, RangeBody body) override {
    if (count <= 0) return;
    arena_.execute([&] {
      // Isolated: a thread that waits for the rest of this loop must not start another submission.
      tbb::this_task_arena::isolate([&] {
        tbb::parallel_for(
            tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain < 1 ? 1 : grain)),
            [&](const tbb::blocked_range<int64_t>& range) { body(range.begin(), range.end()); },
            tbb::auto_partitioner());
      });
    });
  }

 private:
  int concurrency_;
  tbb::task_arena arena_;
  std::unique_ptr<PinObserver> observer_;
};

}  // namespace

Result<std::unique_ptr<Executor>> MakeExecutor(int concurrency,
                                               const std::vector<int>& pinned_cpus) {
  using R = Result<std::unique_ptr<Executor>>;
  return CatchAll(
      [&]() -> R { return R(std::make_unique<TbbExecutor>(concurrency, pinned_cpus)); });
}

}  // namespace halyard::drivers::cpu

#endif  // !HALYARD_THREAD_EXECUTOR
