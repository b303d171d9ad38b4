// SPDX-License-Identifier: Apache-2.0
// Executor: runs one parallel loop over several threads. Two implementations, chosen at configure
// time: oneTBB (default) and std::thread (HALYARD_THREAD_EXECUTOR, because TSan cannot see through
// oneTBB).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::cpu {

// A function reference for a range of a parallel loop; never allocates, never throws.
struct RangeBody {
  void (*function)(void* context, int64_t begin, int64_t end) = nullptr;
  void* context = nullptr;
  void operator()(int64_t begin, int64_t end) const { function(context, begin, end); }
};

template <typename Body>
RangeBody MakeRangeBody(Body& body) {
  return {
      [](void* context, int64_t begin, int64_t end) { (*static_cast<Body*>(context))(begin, end); },
      &body};
}

// Something that other threads may join while the caller goes on.
class Invitation {
 public:
  virtual ~Invitation() = default;
  virtual void Accept() = 0;  // on a thread of the executor
  virtual void Return() = 0;  // once for each invitation: after Accept, or instead of it
};

// Thread-safe: several loops may run at once. Threads sleep when there is nothing to do.
class Executor {
 public:
  virtual ~Executor() = default;
  // Threads that one loop may use, the caller included.
  virtual int concurrency() const = 0;
  // Calls `body` for disjoint ranges that cover [0, count), each of at most `grain` elements or of
  // whatever size balances better, on this and other threads; returns when all are done. The body
  // must not block.
  virtual void ParallelFor(int64_t count, int64_t grain, RangeBody body) = 0;
  // Lets `count` of the executor's own threads accept, each when it gets to it, if ever; does not
  // wait.
  virtual void Invite(const std::shared_ptr<Invitation>& invitation, int count) = 0;
};

// `pinned_cpus`: CPUs that the executor's own threads stay on; empty: anywhere.
Result<std::unique_ptr<Executor>> MakeExecutor(int concurrency,
                                               const std::vector<int>& pinned_cpus);

}  // namespace halyard::drivers::cpu
