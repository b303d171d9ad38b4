// SPDX-License-Identifier: Apache-2.0
// Progress: how far a compilation has come, for the caller that waits for it.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace halyard::pipeline {

// A compilation is a row of phases, each a share of the whole. Told on the thread that made this
// object, and never less than was told before: a phase that begins anew waits until it is ahead.
class Progress {
 public:
  using Tell = std::function<void(std::string_view phase, double fraction)>;
  // `tell` is borrowed and may be empty.
  explicit Progress(const Tell& tell) : tell_(tell) {}

  // The phase goes from the fraction `from` of the whole to the fraction `to`.
  void Begin(std::string_view phase, double from, double to) {
    phase_ = phase;
    from_ = from;
    to_ = to;
    TellOf(from);
  }
  // `share` of the phase is done, from 0 to 1. Any thread during a phase; others than the one that
  // made this object tell nothing.
  void Advance(double share) {
    if (std::this_thread::get_id() == owner_) TellOf(from_ + (to_ - from_) * share);
  }

 private:
  void TellOf(double fraction) {
    told_ = std::max(told_, fraction);
    if (tell_) tell_(phase_, told_);
  }

  const Tell& tell_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::string phase_;
  double from_ = 0, to_ = 0, told_ = 0;
};

}  // namespace halyard::pipeline
