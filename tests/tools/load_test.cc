// SPDX-License-Identifier: Apache-2.0
// Runs of several sessions at once: which are counted as what. No test depends on how long
// something takes, but for what is blocked until something else has happened.
#include "tools/halyard/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace halyard::tools {
namespace {

bool Never() { return false; }

TEST(Load, ArrivalsAreAtRandomAndTheSameEachTime) {
  const std::vector<double> due = ArrivalTimes(1000, 10);
  EXPECT_EQ(due, ArrivalTimes(1000, 10));
  EXPECT_NE(due, ArrivalTimes(1000, 10, 2));
  EXPECT_EQ(due.front(), 0);
  EXPECT_LT(due.back(), 10);
  EXPECT_TRUE(std::is_sorted(due.begin(), due.end()));
  // 10000 are expected, 100 being the deviation; gaps of a Poisson process vary as much as they
  // are long.
  EXPECT_NEAR(static_cast<double>(due.size()), 10000, 400);
  std::vector<double> gaps(due.size());
  std::adjacent_difference(due.begin(), due.end(), gaps.begin());
  double squares = 0;
  for (const double gap : gaps) squares += (gap - 1e-3) * (gap - 1e-3);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(gaps.size())), 1e-3, 5e-5);
  EXPECT_EQ(ArrivalTimes(1e-9, 1).size(), 1u) << "at least one";
}

TEST(Load, AClosedLoopRunsEverySession) {
  std::vector<std::atomic<int>> runs(3);
  const Load load = RunClosedLoop(
      3, 0, [&](size_t i) { ++runs[i]; }, Never);
  for (const std::atomic<int>& of_session : runs) EXPECT_EQ(of_session, 1);
  EXPECT_EQ(load.latencies.size(), 3u);
  EXPECT_GT(load.runs_per_s, 0);
  // Each session until it is told to stop.
  std::atomic<int> all = 0;
  const Load stopped = RunClosedLoop(
      2, 1e5, [&](size_t) { ++all; }, [&] { return all >= 10; });
  EXPECT_GE(stopped.latencies.size(), 10u);
  EXPECT_EQ(stopped.latencies.size(), static_cast<size_t>(all));
}

TEST(Load, AnOpenLoopServesEachArrivalOnce) {
  const std::vector<double> due = {0, 1e-3, 2e-3, 2e-3, 5e-3};
  std::atomic<int> runs = 0;
  const Load load = RunOpenLoop(
      2, due, 1e5, [&](size_t) { ++runs; }, Never);
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(load.arrivals, 5);
  EXPECT_EQ(load.missed, 0);
  EXPECT_EQ(load.latencies.size(), 5u);
  for (const double latency : load.latencies) EXPECT_GE(latency, 0) << "nothing before it is due";
}

// The only session is busy until all others are due: they wait for it, and that is in their
// latency.
TEST(Load, WaitingForASessionCounts) {
  int runs = 0;
  const Load load = RunOpenLoop(
      1, {0, 1e-3, 2e-3, 3e-3}, 1e5,
      [&](size_t) {
        if (runs++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      },
      Never);
  EXPECT_EQ(load.arrivals, 4);
  EXPECT_EQ(load.waited, 3);
  EXPECT_EQ(load.missed, 0);
  for (const double latency : load.latencies) EXPECT_GE(latency, 45e-3);
}

// What has not begun when the time is over is missed, and has no latency.
TEST(Load, MissedArrivalsAreCounted) {
  const Load load = RunOpenLoop(
      1, {0, 1e-3, 2e-3, 3e-3}, 0.2,
      [](size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(250)); }, Never);
  EXPECT_EQ(load.arrivals, 4);
  EXPECT_EQ(load.latencies.size(), 1u);
  EXPECT_EQ(load.missed, 3);
}

TEST(Load, AnInterruptedOpenLoopDoesNotWaitForWhatIsDueLater) {
  std::atomic<bool> is_interrupted = false;
  const Load load = RunOpenLoop(
      2, {0, 1e4, 2e4}, 1e5, [&](size_t) { is_interrupted = true; },
      [&] { return is_interrupted.load(); });
  EXPECT_EQ(load.arrivals, 1);
  EXPECT_EQ(load.missed, 0);
}

TEST(Load, AFailureOfOneSessionEndsAll) {
  const auto fail = [](size_t i) {
    if (i == 1) throw std::runtime_error("device lost");
  };
  EXPECT_THROW(RunClosedLoop(2, 1e5, fail, Never), std::runtime_error);
  EXPECT_THROW(RunOpenLoop(
                   2, {0, 1e-3, 1e4}, 1e5, [](size_t) { throw std::runtime_error("x"); }, Never),
               std::runtime_error);
}

}  // namespace
}  // namespace halyard::tools
