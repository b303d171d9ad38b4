// SPDX-License-Identifier: Apache-2.0
// The std::thread executor: small and transparent to TSan; it does not steal work or nest well, so
// oneTBB is what ships.
#if defined(HALYARD_THREAD_EXECUTOR)

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "drivers/cpu/executor.h"

namespace halyard::drivers::cpu {
namespace {

// One running loop, on the stack of its caller.
struct Loop {
  std::atomic<int64_t> next{0};
  int64_t count = 0;
  int64_t grain = 1;
  RangeBody body;
  int helpers = 0;  // threads inside, without the caller; under the mutex
  Loop* next_loop = nullptr;

  bool has_more() const { return next.load(std::memory_order_relaxed) < count; }
  void Work() {
    for (;;) {
      int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      body(begin, std::min(count, begin + grain));
    }
  }
};

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(int concurrency, const std::vector<int>& pinned_cpus) : concurrency_(concurrency) {
    for (int i = 1; i < concurrency; ++i) {
      threads_.emplace_back([this] { Serve(); });
      Pin(threads_.back(), pinned_cpus);
    }
  }
  ~ThreadExecutor() override {
    {
      std::lock_guard lock(mutex_);
      is_stopping_ = true;
      arrived_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    for (const std::shared_ptr<Invitation>& invitation : invitations_) invitation->Return();
  }

  int concurrency() const override { return concurrency_; }

  void ParallelFor(int64_t count, int64_t grain, RangeBody body) override {
    if (count <= 0) return;
    Loop loop;
    loop.count = count;
    loop.grain = std::max<int64_t>(grain, 1);
    loop.body = body;
    if (threads_.empty() || count <= loop.grain) return loop.Work();
    {
      std::lock_guard lock(mutex_);
      loop.next_loop = first_;
      first_ = &loop;
      arrived_.notify_all();
    }
    loop.Work();
    std::unique_lock lock(mutex_);
    Loop** link = &first_;
    while (*link != &loop) link = &(*link)->next_loop;
    *link = loop.next_loop;
    left_.wait(lock, [&] { return loop.helpers == 0; });
  }

  void Invite(const std::shared_ptr<Invitation>& invitation, int count) override {
    std::lock_guard lock(mutex_);
    for (int i = 0; i < count; ++i) {
      try {
        invitations_.push_back(invitation);
      } catch (...) {  // no memory: one helper less
        invitation->Return();
      }
    }
    arrived_.notify_all();
  }

 private:
  static void Pin(std::thread& thread, const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    int limit = *std::max_element(cpus.begin(), cpus.end()) + 1;
    cpu_set_t* set = CPU_ALLOC(limit);
    if (!set) return;
    size_t bytes = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(bytes, set);
    for (int cpu : cpus) CPU_SET_S(cpu, bytes, set);
    // A failure costs speed only.
    (void)pthread_setaffinity_np(thread.native_handle(), bytes, set);
    CPU_FREE(set);
  }

  void Serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      Loop* loop = first_;
      while (loop && !loop->has_more()) loop = loop->next_loop;
      if (!loop) {
        if (is_stopping_) return;
        if (!invitations_.empty()) {
          const std::shared_ptr<Invitation> invitation = std::move(invitations_.back());
          invitations_.pop_back();
          lock.unlock();
          invitation->Accept();
          invitation->Return();
          lock.lock();
          continue;
        }
        arrived_.wait(lock);
        continue;
      }
      ++loop->helpers;
      lock.unlock();
      loop->Work();
      lock.lock();
      if (--loop->helpers == 0) left_.notify_all();
    }
  }

  int concurrency_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable left_;
  Loop* first_ = nullptr;
  std::vector<std::shared_ptr<Invitation>> invitations_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Executor>> MakeExecutor(int concurrency,
                                               const std::vector<int>& pinned_cpus) {
  using R = Result<std::unique_ptr<Executor>>;
  return CatchAll(
      [&]() -> R { return R(std::make_unique<ThreadExecutor>(concurrency, pinned_cpus)); });
}

}  // namespace halyard::drivers::cpu

#endif  // HALYARD_THREAD_EXECUTOR
