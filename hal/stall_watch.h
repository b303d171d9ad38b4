// SPDX-License-Identifier: Apache-2.0
// StallWatch: tells a device that has stopped ending work from one that is merely slow or waits for
// somebody else. A driver asks it now and then; it has no thread of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace halyard::hal {

// One thread at a time.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit_s`: seconds without the end of a work after which a busy device has stalled; 0: never.
  explicit StallWatch(int64_t limit_s) : limit_(std::chrono::seconds(limit_s)) {}

  bool is_on() const { return limit_.count() > 0; }
  // How often to look.
  Clock::duration period() const { return limit_ / 8; }

  // `is_busy`: the device holds work that waits for nothing but the device. `ended`: how many works
  // have ended so far. True once it has been busy for the limit while that number stayed. Time in
  // which nobody looked, as while the process was stopped, does not count.
  bool Look(bool is_busy, uint64_t ended, Clock::time_point now = Clock::now()) {
    const Clock::duration passed = std::min<Clock::duration>(now - last_look_, 2 * period());
    last_look_ = now;
    if (!is_busy || !was_busy_ || ended != ended_) {
      was_busy_ = is_busy;
      ended_ = ended;
      stalled_ = {};
      return false;
    }
    stalled_ += passed;
    return is_on() && stalled_ >= limit_;
  }

 private:
  Clock::duration limit_;
  Clock::time_point last_look_{};
  Clock::duration stalled_{};
  bool was_busy_ = false;
  uint64_t ended_ = 0;
};

}  // namespace halyard::hal
