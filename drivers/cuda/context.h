// SPDX-License-Identifier: Apache-2.0
// Context: the primary context of one GPU as this driver shares it with the host program, and the
// small things that are made in it again and again: events, pinned blocks, error records. It knows
// nothing of queues.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error_record.h"
#include "drivers/cuda/cuda_api.h"
#include "hal/ref.h"

namespace halyard::drivers::cuda {

class Context;

// An event of the context's pool; goes back there with its last reference.
class Event : public RefCounted {
 public:
  CUevent handle() const { return handle_; }
  // The stream that records it; a wait in the same stream needs nothing.
  CUstream stream = nullptr;
  // It stands in the stream, or never will.
  std::atomic<bool> is_settled{false};

 private:
  friend class Context;
  void Destroy() const override;

  CUevent handle_ = nullptr;
  bool is_timed_ = false;
  Context* context_ = nullptr;  // retained while it is outside the pool
  Event* next_ = nullptr;       // of the pool
};

// Pinned host memory that the device addresses as well.
struct PinnedBlock {
  uint8_t* host = nullptr;
  CUdeviceptr device = 0;
  int64_t size_bytes = 0;
};

// An error record in pinned memory.
struct RecordSlot {
  ErrorRecord* host = nullptr;  // null: none
  CUdeviceptr device = 0;
};

// Thread-safe. The primary context is retained and never reset: the host program may use it too.
class Context final : public RefCounted {
 public:
  // `path`: of the device, for messages.
  static Result<Ref<Context>> Open(std::shared_ptr<const CudaApi> api, int ordinal,
                                   std::string path);

  // Makes the context current on this thread and restores what was current before. Calls that free
  // go on when it fails.
  class Current {
   public:
    explicit Current(Context& context);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    const CudaApi& api_;
    Status status_;
  };

  const CudaApi& api() const { return *api_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }
  const std::string& path() const { return path_; }

  // OK until the first Lose; then that failure.
  Status health() const;
  bool is_lost() const { return is_lost_.load(std::memory_order_acquire); }
  // The context is unusable. `doing`: what was going on, for people. Returns what health() says.
  Status Lose(const Status& cause, std::string_view doing) { return Lose(cause, doing, false); }
  // The same for a device that ends nothing any more and may still touch what it was given. From
  // here to EndStall whatever would wait for the device inside the driver is put off.
  Status LoseStalled(const Status& cause);
  bool is_stalled() const { return is_stalled_.load(std::memory_order_acquire); }
  // Everything that it was given has ended after all.
  void EndStall();
  // Calls `free`: now, or when the stall ends, which may be never.
  template <typename Function>
  void Free(Function free) {
    if (!is_stalled()) return free();
    PutOff(std::move(free));
  }
  // What Lose asks for the work that may be at fault; before the context is used by others.
  void SetDescription(std::function<std::string()> describe) { describe_ = std::move(describe); }
  // OK, or the failure of a call; one that a context does not survive also loses it.
  Status Check(CUresult result, const char* function, std::string_view doing);

  // Timed events know when the device passed them; they cost it a little.
  Result<Ref<Event>> AcquireEvent(bool is_timed = false);
  // What the device took from one timed event to another, both passed.
  Result<int64_t> NanosecondsBetween(const Event& start, const Event& end);
  // At least `size_bytes`. Blocks that come back are kept for the next.
  Result<PinnedBlock> AcquirePinned(int64_t size_bytes);
  void ReleasePinned(PinnedBlock block);
  // Zeroed.
  Result<RecordSlot> AcquireRecord();
  void ReleaseRecord(RecordSlot slot);

  // A pinned allocation of its own, freed by FreePinned, which waits for the device.
  Result<PinnedBlock> AllocatePinned(int64_t size_bytes);
  void FreePinned(PinnedBlock block);

 private:
  friend class Event;
  template <typename T, typename... Args>
  friend Ref<T> halyard::MakeRef(Args&&... args);
  Context(std::shared_ptr<const CudaApi> api, CUdevice device, CUcontext handle, std::string path);
  ~Context() override;
  void ReturnEvent(Event* event);
  void PutOff(std::function<void()> free);
  Status Lose(const Status& cause, std::string_view doing, bool is_stalled);

  static constexpr int kSmallestClass = 12, kLargestClass = 25;  // 4 KiB to 32 MiB

  const std::shared_ptr<const CudaApi> api_;
  const CUdevice device_;
  const CUcontext handle_;
  const std::string path_;
  std::function<std::string()> describe_;

  std::atomic<bool> is_lost_{false}, is_stalled_{false};
  mutable std::mutex mutex_;  // everything below
  Status lost_;
  std::vector<std::function<void()>> put_off_;
  Event* free_events_[2] = {};  // without and with time
  std::array<std::vector<PinnedBlock>, kLargestClass + 1> free_blocks_;
  std::vector<PinnedBlock> record_slabs_;
  std::vector<RecordSlot> free_records_;
};

}  // namespace halyard::drivers::cuda
