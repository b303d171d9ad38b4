// SPDX-License-Identifier: Apache-2.0
// Sampler: repeats one operation until its median is known well enough for the time it may take.
#pragma once

#include <functional>

#include "runtime/probe/reading.h"

namespace halyard::runtime {

struct SampleOptions {
  int min_count = 5;
  int max_count = 200;
  double seconds = 0.05;    // ends sampling once the minimum is there
  double warm_seconds = 0;  // the operation runs as long before it counts; at least once
};

// `operation` returns the seconds that it took.
Result<Spread> Sample(const std::function<Result<double>()>& operation,
                      const SampleOptions& options);

}  // namespace halyard::runtime
