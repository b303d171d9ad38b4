// SPDX-License-Identifier: Apache-2.0
// The checks of single commands and submissions that every driver makes, so that their failures
// read the same everywhere. What needs memory of earlier calls is the validation layer's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "hal/command_buffer.h"
#include "hal/device.h"

namespace halyard::hal {

// What the commands of a recording ask of one binding slot.
struct SlotNeed {
  bool is_used = false;
  bool is_dispatched = false;  // a kernel addresses it
  int64_t min_bytes = 0;       // the furthest byte used
};

// Grows by `range` when that names a slot.
void AddSlotNeed(const CommandRange& range, bool is_dispatched, std::vector<SlotNeed>* needs);

// `device`: the one whose objects the command must name. `alignment`: of binding starts, in bytes.
Status CheckDispatch(const DispatchCommand& command, const Device* device, int64_t alignment);
Status CheckCopy(const CommandRange& source, const CommandRange& target, const Device* device);
Status CheckFill(const CommandRange& target, uint32_t pattern_bytes, const Device* device);

// The workgroups of a grid; OUT_OF_RANGE when negative or beyond int64.
Result<int64_t> CountWorkgroups(const int64_t (&grid)[3]);

Status CheckQueue(uint32_t queue, uint32_t queue_count);
// No null semaphores.
Status CheckOrdering(const Ordering& ordering);
// The table entries against what the recording needs of them.
Status CheckBindings(std::span<const BufferRange> bindings, std::span<const SlotNeed> needs,
                     const Device* device, int64_t alignment);
// Ranges of the queue's own copies and fills.
// `can_reach`: whether the queue's device copies from and to buffers of that device.
Status CheckQueueCopy(const BufferRange& source, const BufferRange& target,
                      const std::function<bool(const Device*)>& can_reach);
Status CheckQueueFill(const BufferRange& target, uint32_t pattern_bytes, const Device* device);

}  // namespace halyard::hal
