// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/sampler.h"

#include <chrono>

namespace halyard::runtime {

Result<Spread> Sample(const std::function<Result<double>()>& operation,
                      const SampleOptions& options) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  do {
    HY_TRY(operation());
  } while (passed() < options.warm_seconds);
  start = Clock::now();
  std::vector<double> samples;
  while (static_cast<int>(samples.size()) < options.max_count &&
         (static_cast<int>(samples.size()) < options.min_count || passed() < options.seconds)) {
    HY_ASSIGN(const double seconds, operation());
    samples.push_back(seconds);
  }
  return Summarize(std::move(samples));
}

}  // namespace halyard::runtime
