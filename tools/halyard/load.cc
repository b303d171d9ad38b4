// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

namespace halyard::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Long sleeps are cut, so that Ctrl-C is seen.
constexpr std::chrono::milliseconds kLongestSleep(50);

// Calls `work(i)` on a thread for each session and waits for all; throws what the first threw.
void OnThreads(size_t sessions, std::atomic<bool>* is_over,
               const std::function<void(size_t)>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        is_over->store(true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

double SecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Load Collect(const std::vector<Load>& parts) {
  Load out;
  for (const Load& part : parts) {
    out.latencies.insert(out.latencies.end(), part.latencies.begin(), part.latencies.end());
    out.runs_per_s += part.runs_per_s;
    out.arrivals += part.arrivals;
    out.waited += part.waited;
    out.missed += part.missed;
  }
  return out;
}

}  // namespace

Load RunClosedLoop(size_t sessions, double seconds, const RunOnce& run,
                   const ShouldStop& should_stop) {
  std::vector<Load> parts(sessions);
  std::atomic<bool> is_over = false;
  OnThreads(sessions, &is_over, [&](size_t i) {
    Load part;  // apart from those of the other threads
    const Clock::time_point start = Clock::now();
    Clock::time_point last = start;
    do {
      run(i);
      const Clock::time_point end = Clock::now();
      part.latencies.push_back(SecondsBetween(last, end));
      last = end;
    } while (SecondsBetween(start, last) < seconds && !is_over && !should_stop());
    // Each by its own time, which ends with a run.
    part.runs_per_s = static_cast<double>(part.latencies.size()) / SecondsBetween(start, last);
    parts[i] = std::move(part);
  });
  return Collect(parts);
}

std::vector<double> ArrivalTimes(double per_s, double seconds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> due;
  // From the bits of the generator alone: the distributions of the library differ between systems.
  for (double at = 0; at < seconds;) {
    due.push_back(at);
    const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    at -= std::log(uniform) / per_s;
  }
  return due;
}

Load RunOpenLoop(size_t sessions, const std::vector<double>& due_s, double seconds,
                 const RunOnce& run, const ShouldStop& should_stop) {
  std::vector<Load> parts(sessions);
  std::vector<double> ended_s(sessions);
  std::atomic<bool> is_over = false;
  std::atomic<size_t> next = 0;
  const Clock::time_point start = Clock::now();
  const auto at = [&](double s) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  OnThreads(sessions, &is_over, [&](size_t i) {
    prctl(PR_SET_TIMERSLACK, 1UL);  // else a thread may wake 50 us late
    Load part;
    bool has_run = false;
    for (size_t arrival = next++; arrival < due_s.size(); arrival = next++) {
      const Clock::time_point due = at(due_s[arrival]);
      // A session that is free has the next arrival in hand before it is due.
      const bool is_late = has_run && Clock::now() >= due;
      while (!is_over && !should_stop() && Clock::now() < due) {
        std::this_thread::sleep_until(std::min(due, Clock::now() + kLongestSleep));
      }
      if (is_over || should_stop()) break;
      ++part.arrivals;
      if (is_late) ++part.waited;
      if (Clock::now() >= at(seconds)) {
        ++part.missed;
        continue;
      }
      run(i);
      has_run = true;
      const Clock::time_point end = Clock::now();
      ended_s[i] = SecondsBetween(start, end);
      part.latencies.push_back(SecondsBetween(due, end));
    }
    parts[i] = std::move(part);
  });
  Load load = Collect(parts);
  const double last_s = *std::max_element(ended_s.begin(), ended_s.end());
  if (last_s > 0) load.runs_per_s = static_cast<double>(load.latencies.size()) / last_s;
  return load;
}

}  // namespace halyard::tools
