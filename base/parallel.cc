// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"

namespace halyard {

size_t UsableProcessors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

Status ForEachInParallel(size_t count, const std::function<Status(size_t index)>& body) {
  std::vector<Status> results(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) results[i] = CatchAll([&] { return body(i); });
  };
  {
    std::vector<std::jthread> threads;  // joined on every way out
    try {
      for (size_t i = 1; i < std::min(count, UsableProcessors()); ++i) threads.emplace_back(work);
    } catch (...) {
      // Without more threads this one does all the work.
    }
    work();
  }
  for (const Status& result : results) HY_TRY(result);
  return OkStatus();
}

}  // namespace halyard
