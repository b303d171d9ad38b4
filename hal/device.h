// SPDX-License-Identifier: Apache-2.0
// Device: memory, executables, recordings and queues of one piece of hardware under one driver.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gpu_library_call.h"
#include "base/status.h"
#include "hal/buffer.h"
#include "hal/capabilities.h"
#include "hal/command_buffer.h"
#include "hal/executable.h"
#include "hal/ref.h"
#include "hal/semaphore.h"

namespace halyard::hal {

// When queued work may start and what it tells when it is done. Points may belong to any device.
struct Ordering {
  std::span<const SemaphorePoint> waits;    // all must be reached
  std::span<const SemaphorePoint> signals;  // reached, or failed, when the work is done
  // A hint: the caller waits for this work at once, so nobody else need be woken to run it. The
  // work may then not start before someone calls Wait or Flush on the device.
  bool caller_waits = false;
};

// How long commands took, by the clock of the device that ran them. Thread-safe.
class CommandTime final : public RefCounted {
 public:
  // From the start of a submission's first command to the end of its last one, the submissions
  // that name this object added up. -1 until the first of them has reached its signals, and where
  // the device has no clock.
  int64_t nanoseconds() const { return nanoseconds_.load(std::memory_order_acquire); }
  // For drivers: before the signals of a submission, unless it failed.
  void Add(int64_t nanoseconds) {
    int64_t before = nanoseconds_.load(std::memory_order_relaxed);
    while (
        !nanoseconds_.compare_exchange_weak(before, std::max<int64_t>(before, 0) + nanoseconds)) {
    }
  }

 private:
  std::atomic<int64_t> nanoseconds_{-1};
};

struct SubmitInfo {
  Ordering ordering;
  CommandBuffer* commands = nullptr;      // finished; null: only waits and signals
  std::span<const BufferRange> bindings;  // what slot i of the recording stands for this time
  CommandTime* time = nullptr;            // receives what the commands took; null: nobody asks
};

// A function that the queue runs on a thread of the device once the waits are reached. It must not
// wait for work of any queue. A failure fails the signals.
struct HostCall {
  Status (*function)(void* context) = nullptr;
  void* context = nullptr;
  // Called once after the function ran or was skipped because a wait failed, before the signals;
  // may be null. Not called when the queue call itself fails.
  void (*release)(void* context) = nullptr;
};

// Host memory that becomes a buffer without a copy.
struct HostMemory {
  void* address = nullptr;
  int64_t size_bytes = 0;
  bool is_read_only = false;      // such as a mapped file; writing to it is the caller's fault
  std::function<void()> release;  // called once when the buffer dies; may be empty
};

enum class LinkKind : uint8_t { kNone, kSameMemory, kHostStaged, kPcie, kNvlink };
std::string_view FormatLinkKind(LinkKind kind);

// How bytes get from this device to another one.
struct LinkInfo {
  LinkKind kind = LinkKind::kHostStaged;
  bool can_access_peer = false;    // kernels here may address the other's buffers
  bool can_copy_direct = false;    // QueueCopy here takes the other's buffers
  Field<bool> has_native_atomics;  // across the link
  Field<int64_t> rank;             // among the driver's own links, 0 the fastest
  Field<std::string> nearest;      // what the two have in common: "same board", "PCIe switch", ...
};

struct MemoryStatistics {
  int64_t live_bytes = 0;  // allocated and not yet freed, all kinds
  int64_t peak_bytes = 0;
  int64_t limit_bytes = INT64_MAX;  // allocations beyond this get OUT_OF_MEMORY
};

// Thread-safe. Everything made by a device keeps it alive. Queue calls return at once, whatever
// they wait for; they retain what they name until the work is done. The only order between queued
// works, on one queue or several, is that of semaphores: a work may wait for a point that a later
// call signals. Works of one queue do not overlap; those of different queues may. A wait that fails
// fails the signals of its work with the same Status, and touches nothing else. A kernel that
// reports through its ErrorRecord fails the signals of its submission; the buffers it writes are
// then undefined. A semaphore that nobody will ever signal must be failed, or the work that waits
// for it stays.
class Device : public RefCounted {
 public:
  virtual std::string_view path() const = 0;  // "cpu:0": driver and ordinal
  virtual const Capabilities& capabilities() const = 0;
  virtual uint32_t queue_count() const = 0;  // at least 1
  virtual int64_t buffer_alignment() const = 0;
  // OK, or DEVICE_LOST with the submission that lost it. A lost device answers every call with
  // that.
  virtual Status health() const = 0;
  // Clocks, load and power as they are now; what the machine does not tell stays unknown.
  virtual DeviceState ReadState() const { return {}; }

  // Any size from 0. OUT_OF_MEMORY names the size and what is left.
  virtual Result<Ref<Buffer>> AllocateBuffer(MemoryKind kind, int64_t size_bytes) = 0;
  // INCOMPATIBLE when the device cannot address it in place or it is not aligned; then the caller
  // copies, and `release` is not called.
  virtual Result<Ref<Buffer>> ImportHostMemory(HostMemory memory) = 0;
  virtual MemoryStatistics memory_statistics() const = 0;

  virtual Result<Ref<Semaphore>> CreateSemaphore(uint64_t initial_value) = 0;
  // INCOMPATIBLE: a format or an instruction set that the device lacks; DATA_LOSS: the code is
  // malformed; NOT_FOUND: an entry is missing.
  virtual Result<Ref<Executable>> LoadExecutable(const ExecutableSource& source) = 0;
  virtual Result<Ref<CommandBuffer>> CreateCommandBuffer() = 0;

  // A returned failure means that nothing was queued and the signals are untouched.
  virtual Status Submit(uint32_t queue, const SubmitInfo& info) = 0;
  virtual Status QueueCopy(uint32_t queue, const Ordering& ordering, const BufferRange& source,
                           const BufferRange& target) = 0;
  virtual Status QueueFill(uint32_t queue, const Ordering& ordering, const BufferRange& target,
                           uint64_t pattern, uint32_t pattern_bytes) = 0;
  // Writes host bytes, which are copied before the call returns.
  virtual Status QueueUpdate(uint32_t queue, const Ordering& ordering,
                             std::span<const uint8_t> source, const BufferRange& target) = 0;
  virtual Status QueueHostCall(uint32_t queue, const Ordering& ordering, const HostCall& call) = 0;

  // Starts everything that is ready without needing a waiter. Returns at once.
  virtual Status Flush() = 0;
  // Blocks until all (or any) of the points are reached, running ready work of this device
  // meanwhile. Points may belong to any device. DEADLINE_EXCEEDED after `timeout_ns` (0: only
  // looks); the failure of the first failed point, with kAny only when that point is the first to
  // be done. kAny tells through `out_index` (may be null) which. No points: OK.
  virtual Status Wait(std::span<const SemaphorePoint> points, WaitMode mode, int64_t timeout_ns,
                      size_t* out_index = nullptr) = 0;

  // What compiles generated code for the device in this process beside our own library: name,
  // version and file; empty: nothing else is needed. UNAVAILABLE says what is missing; the device
  // then runs what was compiled before alone. The first call may take a while.
  virtual Result<std::string> DescribeCompiler() { return std::string(); }

  // What libraries of the device's vendor may compute (base/gpu_library_call.h). The first call
  // opens the library of a kind, which may take a while.
  //
  // Its name, version and file; UNAVAILABLE says why there is none.
  virtual Result<std::string> DescribeLibrary(GpuLibraryKind) {
    return Unavailable("'{}' has no library of its vendor.", path());
  }
  // `wanted` with each of the ways that its library proposes, best first, at most `most`; none
  // where it knows none. Bindings may be left open. UNAVAILABLE where there is no library.
  virtual Result<std::vector<GpuLibraryCall>> ProposeLibraryCalls(const GpuLibraryCall& wanted,
                                                                  size_t) {
    return DescribeLibrary(wanted.kind).status();
  }

  // The image of a kernel "empty" without bindings and scalars that does nothing: what CommandTime
  // says of it alone, beyond what it adds to a recording, is the cost of a launch and no work.
  // UNIMPLEMENTED: CommandTime has nothing of a launch in it.
  virtual Result<std::vector<uint8_t>> EmptyKernel() const {
    return Unimplemented("'{}' times commands without their launch.", path());
  }

  // How this device reaches another one, itself included.
  virtual Result<LinkInfo> LinkTo(const Device& other) const = 0;
};

}  // namespace halyard::hal
