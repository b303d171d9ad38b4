// SPDX-License-Identifier: Apache-2.0
// DeviceTurn: what those who time work on one device share, so that no two do at once, and so that
// the device need not be woken by each of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "runtime/launch_time.h"

namespace halyard::runtime {

// Any thread may take it; what it holds is used by who has it.
class DeviceTurn {
 public:
  explicit DeviceTurn(Ref<hal::Device> device) : launch(std::move(device)) {}

  // The device is its holder's alone until it goes.
  class Hold {
   public:
    explicit Hold(DeviceTurn& turn) : turn_(turn) { Take(); }
    ~Hold() { Give(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Lets others have it for a while; the device does not work for this holder meanwhile.
    void Give() {
      turn_.rested_at_ = Clock::now();
      turn_.mutex_.unlock();
    }
    void Take() {
      turn_.mutex_.lock();
      const Clock::time_point now = Clock::now();
      if (now - turn_.rested_at_ > kSleep) turn_.awake_since_ = now;
    }
    // Of work that still wakes a clock which takes `seconds` of it to be up.
    double SecondsToWake(double seconds) const {
      const std::chrono::duration<double> awake = Clock::now() - turn_.awake_since_;
      return std::max(0.0, seconds - awake.count());
    }

   private:
    DeviceTurn& turn_;
  };

  LaunchTime launch;  // of the device

 private:
  using Clock = std::chrono::steady_clock;
  // A GPU's clock falls after seconds without work; half of one is safe.
  static constexpr std::chrono::milliseconds kSleep{500};
  std::mutex mutex_;
  Clock::time_point rested_at_{};    // when somebody last had it
  Clock::time_point awake_since_{};  // since when it had no longer pause
};

}  // namespace halyard::runtime
