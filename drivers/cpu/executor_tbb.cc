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
#include <unistd.h>

#include <atomic>

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

// Counts the tasks of one arena that are not over, and the executor itself, so that its end can
// wait for them: oneTBB keeps the tasks of an arena that is gone until the process ends.
struct Outstanding {
  std::atomic<int64_t> count{1};
  tbb::task_handle end;  // the last one gives it up, and so ends a wait for its group

  void Add() { count.fetch_add(1, std::memory_order_relaxed); }
  void Remove() {
    if (count.fetch_sub(1, std::memory_order_acq_rel) == 1) end = {};
  }
};

// One invitation on its way: returned also where TBB drops it.
class Envelope {
 public:
  Envelope(std::shared_ptr<Invitation> invitation, std::shared_ptr<Outstanding> outstanding)
      : invitation_(std::move(invitation)), outstanding_(std::move(outstanding)) {
    outstanding_->Add();
  }
  Envelope(Envelope&&) = default;
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;
  Envelope& operator=(Envelope&&) = delete;
  ~Envelope() {
    if (!invitation_) return;
    invitation_->Return();
    invitation_.reset();
    outstanding_->Remove();
  }
  void operator()() const { invitation_->Accept(); }

 private:
  std::shared_ptr<Invitation> invitation_;
  std::shared_ptr<Outstanding> outstanding_;
};

class TbbExecutor final : public Executor {
 public:
  TbbExecutor(int concurrency, const std::vector<int>& pinned_cpus)
      : concurrency_(concurrency), arena_(concurrency, 1) {
    if (!pinned_cpus.empty()) observer_ = std::make_unique<PinObserver>(arena_, pinned_cpus);
  }

  // Takes back the invitations that no worker took: this thread runs what is queued in the arena,
  // which is over at once, because the work of every invitation has ended. A forked child would
  // wait for workers that only its parent has.
  ~TbbExecutor() override {
    if (getpid() != process_) return;
    // Nothing ever ran here. To start the arena now takes memory, without which oneTBB waits forever.
    if (!arena_.is_active()) return;
    try {
      arena_.execute([this] {
        tbb::task_group group;
        outstanding_->end = group.defer([] {});
        outstanding_->Remove();
        group.wait();
      });
    } catch (...) {  // no memory: they stay with oneTBB
    }
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

  void Invite(const std::shared_ptr<Invitation>& invitation, int count) override {
    for (int i = 0; i < count; ++i) {
      try {
        arena_.enqueue(Envelope(invitation, outstanding_));
      } catch (...) {  // no memory: one helper less, and the envelope has returned the invitation
      }
    }
  }

 private:
  int concurrency_;
  const pid_t process_ = getpid();
  tbb::task_arena arena_;
  const std::shared_ptr<Outstanding> outstanding_ = std::make_shared<Outstanding>();
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
