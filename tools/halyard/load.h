// SPDX-License-Identifier: Apache-2.0
// Runs of several sessions at once, each by a thread of its own: one after the other, as clients
// that wait for their answer (a closed loop), or when they are due, whatever the device does (an
// open loop).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace halyard::tools {

struct Load {
  std::vector<double> latencies;  // seconds, of the runs that ended
  double runs_per_s = 0;          // that ended
  // Of an open loop:
  int64_t arrivals = 0;
  int64_t waited = 0;  // found every session busy
  int64_t missed = 0;  // not begun when the time was over
};

// Runs once on session `i`, from the thread of that session. What it throws ends the load and is
// thrown again.
using RunOnce = std::function<void(size_t i)>;
using ShouldStop = std::function<bool()>;

// Each session runs again when it is done, until `seconds` are over and at least once. A latency is
// from the call of `run` to its return.
Load RunClosedLoop(size_t sessions, double seconds, const RunOnce& run,
                   const ShouldStop& should_stop);

// When runs are due: from 0, at random with a mean of `per_s` (a Poisson process, the same for the
// same `seed`), before `seconds`. At least one.
std::vector<double> ArrivalTimes(double per_s, double seconds, uint64_t seed = 1);

// A run for each arrival, in their order, begun when it is due and a session is free. A latency is
// from the time at which the run is due to its end, so that waiting for a session counts, and so
// does a thread that wakes late. After `seconds` nothing is begun. When `should_stop` is true, what
// has not begun is not counted at all.
Load RunOpenLoop(size_t sessions, const std::vector<double>& due_s, double seconds,
                 const RunOnce& run, const ShouldStop& should_stop);

}  // namespace halyard::tools
