// SPDX-License-Identifier: Apache-2.0
// Work: one queued operation of the CPU device, from the call that queued it to its signals.
// Recycled with its vectors, so that a steady stream of submissions allocates nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/error_record.h"
#include "drivers/cpu/buffer.h"
#include "drivers/cpu/command_buffer.h"
#include "hal/device.h"

namespace halyard::drivers::cpu {

class Scheduler;

enum class WorkKind : uint8_t { kNothing, kCommands, kCopy, kFill, kUpdate, kHostCall };

struct Work {
  struct Wait : hal::SemaphoreWaiter {
    Work* work = nullptr;
    Ref<hal::Semaphore> semaphore;
  };
  struct Signal {
    Ref<hal::Semaphore> semaphore;
    uint64_t value = 0;
  };
  // A range of a buffer; `address` is where it starts.
  struct Bound {
    Ref<hal::Buffer> buffer;
    uint8_t* address = nullptr;
    int64_t size_bytes = 0;
  };

  WorkKind kind = WorkKind::kNothing;
  uint32_t lane = 0;
  bool caller_waits = false;
  Ref<CpuDevice> device;  // alive while the work is queued
  Scheduler* scheduler = nullptr;
  std::vector<Wait> waits;  // in place from the first AddWaiter on
  std::vector<Signal> signals;

  // What must still happen before the work may run: its waits, and the end of the call that queues
  // it.
  std::atomic<size_t> pending{0};
  std::mutex mutex;
  Status wait_status;  // of the first wait that failed; under mutex

  Ref<CpuCommandBuffer> commands;  // kCommands
  std::vector<Bound> bound;        // slots; or source and target; or target
  std::vector<uint8_t*> slots;     // addresses of `bound`
  std::vector<void*> addresses;    // of the recording's ranges
  ErrorRecord error = {};
  uint64_t pattern = 0;  // kFill
  uint32_t pattern_bytes = 0;
  std::vector<uint8_t> bytes;  // kUpdate
  hal::HostCall call;          // kHostCall
  Ref<hal::CommandTime> time;  // kCommands, when somebody asks

  Status outcome;  // once it has been executed
  // When a slower device would be done; set by the execution, the signals wait for it.
  std::chrono::steady_clock::time_point done_at{};

  Work* next = nullptr;  // of a lane, or of the free list

  // Gives up what the operation itself used; the signals stay.
  void ReleasePayload();
};

}  // namespace halyard::drivers::cpu
