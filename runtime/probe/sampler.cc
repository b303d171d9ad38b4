// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace halyard::runtime {
namespace {

constexpr size_t kLeastForSpread = 9;
constexpr double kLeastPart = 0.1;  // of the seconds, so that no moment decides

// Half of the 95 % interval of the median over it, by the ranks that hold it (the binomial
// distribution of how many samples are below it): two kinds of samples do not look like one.
double HalfInterval(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto count = static_cast<double>(samples.size());
  const double reach = 1.96 * std::sqrt(count);
  const auto low = static_cast<size_t>((count - reach) / 2);
  const size_t high = samples.size() - 1 - low;
  const double median = samples[samples.size() / 2];
  return median > 0 ? (samples[high] - samples[low]) / (2 * median) : HUGE_VAL;
}

}  // namespace

Result<Spread> Sample(const std::function<Result<double>()>& operation,
                      const SampleOptions& options) {
  const auto now = [&] {
    if (options.now) return options.now();
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const double begin = now();
  double start = begin, last = 0;  // how long the operation before took
  const auto operate = [&]() -> Result<double> {
    const double before = now();
    HY_ASSIGN(const double seconds, operation());
    last = now() - before;
    return seconds;
  };
  const auto is_over = [&] { return now() - begin + last > options.seconds_left; };
  const auto passed = [&] { return now() - start; };
  do {
    HY_TRY(operate());
  } while (passed() < options.warm_seconds && !is_over());
  start = now();
  std::vector<double> samples;
  size_t judged = kLeastForSpread;  // with so many, next
  while (static_cast<int>(samples.size()) < options.max_count &&
         (static_cast<int>(samples.size()) < options.min_count || passed() < options.seconds)) {
    if (is_over()) break;
    HY_ASSIGN(const double seconds, operate());
    samples.push_back(seconds);
    if (options.precision <= 0 || samples.size() < judged ||
        static_cast<int>(samples.size()) < options.min_count ||
        passed() < kLeastPart * options.seconds) {
      continue;
    }
    if (HalfInterval(samples) <= options.precision) break;
    judged = samples.size() + samples.size() / 4 + 1;
  }
  if (samples.empty()) {
    return DeadlineExceeded("One operation takes {:.3g} s; the time that is left is less.", last);
  }
  return Summarize(std::move(samples));
}

}  // namespace halyard::runtime
