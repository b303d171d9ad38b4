// SPDX-License-Identifier: Apache-2.0
// EndedPoints: which works of one look at the hardware are over, so that none is before one that it
// waited for. A look at several queues is not one moment: a work may be seen to have ended whose
// own queue was looked at last, and what it waited for not, on a queue that was looked at first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "drivers/vulkan/semaphore.h"

namespace halyard::drivers::vulkan {

class EndedPoints {
 public:
  // Per queue the value that its timeline was seen at; borrowed, and lowered by works that stay.
  explicit EndedPoints(std::span<uint64_t> completed) : completed_(completed) {}

  // Asked in the order of submission. `own`: behind the work; `waits`: ranges of what has the
  // `point` that the hardware waited for, of value 0 where it waited for none. Works that follow
  // one that is not over, on its queue or by a wait, are not over either.
  template <typename Waits>
  bool Take(const QueuePoint& own, const Waits& waits) {
    const auto is_over = [this](const QueuePoint& point) {
      return point.value <= completed_[point.queue];
    };
    if (is_over(own) && std::all_of(waits.begin(), waits.end(),
                                    [&](const auto& wait) { return is_over(wait.point); })) {
      return true;
    }
    if (own.value > 0) completed_[own.queue] = std::min(completed_[own.queue], own.value - 1);
    return false;
  }

 private:
  const std::span<uint64_t> completed_;
};

}  // namespace halyard::drivers::vulkan
