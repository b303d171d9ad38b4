// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_progress.h"

#include <algorithm>
#include <cmath>

namespace halyard::tools {
namespace {

constexpr double kShowEvery = 0.5;  // seconds

std::string FormatLeft(double seconds) {
  const double minutes = std::ceil(seconds / 60);
  return seconds > 120 ? std::to_string(static_cast<int64_t>(minutes)) + " min"
                       : std::to_string(static_cast<int64_t>(std::ceil(seconds))) + " s";
}

}  // namespace

BenchProgress::BenchProgress(size_t rows, double timed_s, std::function<double()> now,
                             std::function<void(const std::string&)> show)
    : rows_(rows), timed_s_(timed_s), now_(std::move(now)), show_(std::move(show)) {}

void BenchProgress::StartRow(const std::string& name) {
  name_ = name;
  ++row_;
  row_start_ = now_();
  phase_s_ = timed_done_s_ = 0;
}

void BenchProgress::StartPhase(const std::string& phase, double seconds) {
  timed_done_s_ += phase_s_;
  phase_ = phase;
  phase_s_ = seconds;
  phase_start_ = now_();
  Show();
}

void BenchProgress::Tick() {
  if (now_() < next_show_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(showing_, std::try_to_lock);
  if (lock.owns_lock()) Show();
}

void BenchProgress::EndRow() {
  ++ended_;
  ended_s_ += now_() - row_start_;
}

void BenchProgress::Show() {
  next_show_.store(now_() + kShowEvery, std::memory_order_relaxed);
  show_(Line());
}

std::string BenchProgress::Line() const {
  const double now = now_();
  const double in_phase = std::min(now - phase_start_, phase_s_);
  double left = std::max(0.0, timed_s_ - timed_done_s_ - in_phase);
  const auto later = static_cast<double>(rows_ - row_);
  const double each = ended_ > 0 ? ended_s_ / static_cast<double>(ended_) : timed_s_;
  if (ended_ > 0) left = std::max(left, each - (now - row_start_));
  left += later * each;
  return "[" + std::to_string(row_) + "/" + std::to_string(rows_) + "] " + name_ + ": " + phase_ +
         ", " + (ended_ > 0 ? "about " : "at least ") + FormatLeft(left) + " left";
}

}  // namespace halyard::tools
