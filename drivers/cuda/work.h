// SPDX-License-Identifier: Apache-2.0
// Work: one queued operation of a CUDA device, from the call that queued it to its signals.
// Recycled with its vectors, so that a steady stream of submissions allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "drivers/cuda/command_buffer.h"
#include "drivers/cuda/replay.h"
#include "drivers/cuda/semaphore.h"
#include "hal/device.h"

namespace halyard::drivers::cuda {

class Scheduler;

enum class WorkKind : uint8_t { kNothing, kCommands, kCopy, kFill, kUpdate, kHostCall };

struct Work {
  struct Wait : hal::SemaphoreWaiter {
    Work* work = nullptr;
    Ref<hal::Semaphore> semaphore;
    // Set when the GPU itself waits for the point: the event that stands for it. The host then asks
    // how the point ended only after the work is done.
    Ref<Event> promise;
  };
  struct Signal {
    Ref<hal::Semaphore> semaphore;
    uint64_t value = 0;
  };
  // A range of a buffer; `address` is where it starts.
  struct Bound {
    Ref<hal::Buffer> buffer;
    CUdeviceptr address = 0;
    int64_t size_bytes = 0;
  };

  WorkKind kind = WorkKind::kNothing;
  uint32_t lane = 0;
  bool caller_waits = false;
  Ref<CudaDevice> device;  // alive while the work is queued
  Scheduler* scheduler = nullptr;
  std::vector<Wait> waits;  // in place from the first AddWaiter on
  std::vector<Signal> signals;

  // What must still happen before the next step: waits, and the end of the call that registers
  // them. The steps are launching, and after that delivering.
  std::atomic<size_t> pending{0};
  bool is_launched = false;
  std::mutex mutex;
  Status status;  // the first failure; under mutex while waits are registered

  Ref<CudaCommandBuffer> commands;  // kCommands
  Replay* replay = nullptr;
  std::vector<Bound> bound;        // slots; or source and target; or target
  std::vector<CUdeviceptr> slots;  // addresses of `bound`
  uint64_t pattern = 0;            // kFill
  uint32_t pattern_bytes = 0;
  PinnedBlock bytes;   // kUpdate
  hal::HostCall call;  // kHostCall
  Ref<Event> event;    // recorded behind everything else of the work; set when it enters its lane
  Ref<hal::CommandTime> time;  // kCommands, when somebody asks; then these stand around them
  Ref<Event> time_start, time_end;

  Work* next = nullptr;  // of whichever list holds it

  void SetFailure(const Status& failure) {
    std::lock_guard lock(mutex);
    if (status.ok()) status = failure;
  }
  bool HasFailed() {
    std::lock_guard lock(mutex);
    return !status.ok();
  }
  // Leaves `other`, fresh, with what a device that stalled may still touch, and the event behind
  // it.
  void MovePayloadTo(Work& other);
  // Gives up what the operation itself used; the signals stay.
  void ReleasePayload();
};

// A first-in first-out list of works through Work::next.
class WorkList {
 public:
  Work* front() const { return first_; }
  bool empty() const { return first_ == nullptr; }
  int64_t size() const { return size_; }
  void Push(Work* work);
  Work* Pop();

 private:
  Work* first_ = nullptr;
  Work* last_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace halyard::drivers::cuda
