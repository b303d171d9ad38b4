// SPDX-License-Identifier: Apache-2.0
// Sampler: repeats one operation until its median is known well enough for the time it may take.
#pragma once

#include <functional>
#include <limits>

#include "runtime/probe/reading.h"

namespace halyard::runtime {

struct SampleOptions {
  int min_count = 5;
  int max_count = 200;
  double seconds = 0.05;    // ends sampling once the minimum is there
  double warm_seconds = 0;  // the operation runs as long before it counts; at least once
  // Ends sampling, once the minimum and 9 are there and a tenth of the seconds is over, where the
  // median is known that well: half of its 95 % interval, by ranks, over it.
  // 0: nothing ends it so.
  double precision = 0;
  // No operation begins that would not end by then, if it takes as long as the one before: the
  // minimum is not reached then, and DEADLINE_EXCEEDED says that nothing was.
  double seconds_left = std::numeric_limits<double>::infinity();
  std::function<double()> now;  // in seconds; empty: the steady clock
};

// `operation` returns the seconds that it took.
Result<Spread> Sample(const std::function<Result<double>()>& operation,
                      const SampleOptions& options);

}  // namespace halyard::runtime
