// SPDX-License-Identifier: Apache-2.0
// Work: one queued operation of a Vulkan device, from the call that queued it to its signals.
// Recycled with its vectors and native command buffers, so that a steady stream of submissions
// allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "drivers/vulkan/command_buffer.h"
#include "drivers/vulkan/semaphore.h"
#include "drivers/vulkan/timer.h"
#include "hal/device.h"

namespace halyard::drivers::vulkan {

class Scheduler;

enum class WorkKind : uint8_t {
  kNothing,   // only waits and signals
  kCommands,  // a recording
  kOwn,       // a copy, fill or update, recorded into the work itself
  kHostCall,
};

struct Work {
  struct Wait : QueueWaiter {
    Work* work = nullptr;
    Ref<hal::Semaphore> semaphore;
  };
  struct Signal {
    Ref<hal::Semaphore> semaphore;
    uint64_t value = 0;
  };
  // A native command buffer of one family, made at the first use.
  struct OwnCommands {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer commands = VK_NULL_HANDLE;
  };

  WorkKind kind = WorkKind::kNothing;
  uint32_t lane = 0;
  bool caller_waits = false;
  Ref<VulkanDevice> device;  // alive while the work is queued
  Scheduler* scheduler = nullptr;
  std::vector<Wait> waits;  // in place from the first notification on
  std::vector<Signal> signals;

  // What must still happen before the work may start: its waits, and the end of the call that
  // queues it.
  std::atomic<size_t> pending{0};
  std::mutex mutex;
  Status wait_status;  // of the first wait that failed; under mutex

  Ref<VulkanCommandBuffer> commands;  // kCommands
  VulkanCommandBuffer::Instance* instance = nullptr;
  std::vector<Ref<hal::Buffer>> buffers;  // that the work uses
  OwnCommands own[2];                     // kOwn: for the compute family, for the transfer family
  bool is_transfer = false;               // kOwn: runs on the transfer queue
  Allocation staging;                     // kOwn: bytes of an update; small ones are kept
  hal::HostCall call;                     // kHostCall
  Ref<hal::CommandTime> time;             // kCommands, when somebody asks; measured by `timer`
  std::unique_ptr<Timer> timer;           // made at the first use and kept

  QueuePoint point;  // in flight: reached when the work is done
  Status outcome;    // before the signals

  Work* next = nullptr;  // of a lane, of the works in flight, of a list of done works, or free

  // Leaves `other`, fresh, with what a device that stalled may still touch.
  void MovePayloadTo(Work& other);

  VkCommandBuffer native() const {
    return kind == WorkKind::kCommands ? instance->commands : own[is_transfer].commands;
  }
};

// First in, first out.
struct WorkList {
  Work* first = nullptr;
  Work* last = nullptr;

  bool empty() const { return first == nullptr; }
  void Push(Work* work) {
    work->next = nullptr;
    (last ? last->next : first) = work;
    last = work;
  }
  Work* Pop() {
    Work* work = first;
    first = work->next;
    if (!first) last = nullptr;
    return work;
  }
};

}  // namespace halyard::drivers::vulkan
