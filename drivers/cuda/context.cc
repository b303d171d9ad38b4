// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/context.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace halyard::drivers::cuda {

void Event::Destroy() const {
  // Only references are const; the pool owns the object.
  auto* self = const_cast<Event*>(this);
  Context* context = std::exchange(self->context_, nullptr);
  context->ReturnEvent(self);
  context->Release();
}

Context::Current::Current(Context& context) : api_(context.api()) {
  status_ = context.Check(api_.cuCtxPushCurrent_v2(context.handle()), "cuCtxPushCurrent", "");
}

Context::Current::~Current() {
  if (!status_.ok()) return;
  CUcontext popped = nullptr;
  api_.cuCtxPopCurrent_v2(&popped);
}

Result<Ref<Context>> Context::Open(std::shared_ptr<const CudaApi> api, int ordinal,
                                   std::string path) {
  CUdevice device = 0;
  HY_CUDA_TRY(*api, cuDeviceGet, &device, ordinal);
  CUcontext handle = nullptr;
  HY_CUDA_TRY(*api, cuDevicePrimaryCtxRetain, &handle, device);
  return MakeRef<Context>(std::move(api), device, handle, std::move(path));
}

Context::Context(std::shared_ptr<const CudaApi> api, CUdevice device, CUcontext handle,
                 std::string path)
    : api_(std::move(api)), device_(device), handle_(handle), path_(std::move(path)) {}

// Failures leave nothing to do: the process keeps what the driver cannot free.
Context::~Context() {
  {
    Current current(*this);
    for (Event*& first : free_events_) {
      while (Event* event = first) {
        first = event->next_;
        api_->cuEventDestroy_v2(event->handle_);
        delete event;
      }
    }
    for (auto& blocks : free_blocks_) {
      for (PinnedBlock& block : blocks) api_->cuMemFreeHost(block.host);
    }
    for (PinnedBlock& slab : record_slabs_) api_->cuMemFreeHost(slab.host);
  }
  api_->cuDevicePrimaryCtxRelease_v2(device_);
}

Status Context::health() const {
  if (!is_lost()) return OkStatus();
  std::lock_guard lock(mutex_);
  return lost_;
}

Status Context::LoseStalled(const Status& cause) { return Lose(cause, "", true); }

Status Context::Lose(const Status& cause, std::string_view doing, bool is_stalled) {
  const std::string work = describe_ && !is_lost() ? describe_() : "";
  std::lock_guard lock(mutex_);
  if (!is_lost()) {
    lost_ = DeviceLost("'{}' is lost for this process{}{}: {}{}{}", path_,
                       doing.empty() ? "" : " during ", doing, cause.message(),
                       work.empty() ? "" : " In flight: ", work);
    is_stalled_.store(is_stalled, std::memory_order_release);
    is_lost_.store(true, std::memory_order_release);
  }
  return lost_;
}

void Context::EndStall() {
  std::vector<std::function<void()>> put_off;
  {
    std::lock_guard lock(mutex_);
    is_stalled_.store(false, std::memory_order_release);
    put_off.swap(put_off_);
  }
  for (const auto& free : put_off) free();
}

void Context::PutOff(std::function<void()> free) {
  {
    std::lock_guard lock(mutex_);
    if (is_stalled()) return put_off_.push_back(std::move(free));
  }
  free();
}

Status Context::Check(CUresult result, const char* function, std::string_view doing) {
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  Status status = api_->Check(result, function);
  if (IsSticky(result)) return Lose(status, doing);
  return doing.empty() ? status : status.WithContext(std::string(doing));
}

Result<Ref<Event>> Context::AcquireEvent(bool is_timed) {
  Event* event = nullptr;
  {
    std::lock_guard lock(mutex_);
    Event*& first = free_events_[is_timed];
    if (first) event = std::exchange(first, first->next_);
  }
  if (event) {
    event->Retain();  // it came back with a count of zero
  } else {
    CUevent handle = nullptr;
    Current current(*this);
    HY_TRY(current.status());
    const unsigned int flags = CU_EVENT_BLOCKING_SYNC | (is_timed ? 0 : CU_EVENT_DISABLE_TIMING);
    HY_TRY(Check(api_->cuEventCreate(&handle, flags), "cuEventCreate", ""));
    event = new Event;
    event->handle_ = handle;
    event->is_timed_ = is_timed;
  }
  event->context_ = this;
  event->stream = nullptr;
  event->is_settled.store(false, std::memory_order_relaxed);
  Retain();
  return Ref<Event>::Adopt(event);
}

void Context::ReturnEvent(Event* event) {
  std::lock_guard lock(mutex_);
  event->next_ = free_events_[event->is_timed_];
  free_events_[event->is_timed_] = event;
}

Result<int64_t> Context::NanosecondsBetween(const Event& start, const Event& end) {
  Current current(*this);
  HY_TRY(current.status());
  float milliseconds = 0;
  HY_TRY(Check(api_->cuEventElapsedTime(&milliseconds, start.handle(), end.handle()),
               "cuEventElapsedTime", "measuring a submission"));
  return static_cast<int64_t>(double{milliseconds} * 1e6);
}

Result<PinnedBlock> Context::AllocatePinned(int64_t size_bytes) {
  Current current(*this);
  HY_TRY(current.status());
  void* host = nullptr;
  // Never empty, so that every buffer has an address of its own.
  size_t bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 64));
  constexpr unsigned int kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  HY_TRY(Check(api_->cuMemHostAlloc(&host, bytes, kFlags), "cuMemHostAlloc", ""));
  PinnedBlock block{static_cast<uint8_t*>(host), 0, size_bytes};
  Status status = Check(api_->cuMemHostGetDevicePointer_v2(&block.device, host, 0),
                        "cuMemHostGetDevicePointer", "");
  if (!status.ok()) {
    api_->cuMemFreeHost(host);
    return status;
  }
  return block;
}

void Context::FreePinned(PinnedBlock block) {
  Current current(*this);
  api_->cuMemFreeHost(block.host);
}

Result<PinnedBlock> Context::AcquirePinned(int64_t size_bytes) {
  int size_class = std::max(
      kSmallestClass, static_cast<int>(std::bit_width(static_cast<uint64_t>(size_bytes - 1))));
  if (size_bytes <= 1) size_class = kSmallestClass;
  if (size_class > kLargestClass) return AllocatePinned(size_bytes);
  {
    std::lock_guard lock(mutex_);
    std::vector<PinnedBlock>& blocks = free_blocks_[static_cast<size_t>(size_class)];
    if (!blocks.empty()) {
      PinnedBlock block = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  return AllocatePinned(int64_t{1} << size_class);
}

void Context::ReleasePinned(PinnedBlock block) {
  constexpr int64_t kMostKept = int64_t{64} << 20;  // of one size
  if (block.size_bytes <= int64_t{1} << kLargestClass) {
    auto size_class =
        static_cast<size_t>(std::bit_width(static_cast<uint64_t>(block.size_bytes - 1)));
    std::lock_guard lock(mutex_);
    std::vector<PinnedBlock>& blocks = free_blocks_[size_class];
    if (static_cast<int64_t>(blocks.size()) * block.size_bytes < kMostKept) {
      blocks.push_back(block);
      return;
    }
  }
  Free([this, block] { FreePinned(block); });
}

Result<RecordSlot> Context::AcquireRecord() {
  constexpr int64_t kSlabBytes = 4096, kStride = 64;
  {
    std::lock_guard lock(mutex_);
    if (!free_records_.empty()) {
      RecordSlot slot = free_records_.back();
      free_records_.pop_back();
      return slot;
    }
  }
  HY_ASSIGN(PinnedBlock slab, AllocatePinned(kSlabBytes));
  std::memset(slab.host, 0, static_cast<size_t>(kSlabBytes));
  std::lock_guard lock(mutex_);
  record_slabs_.push_back(slab);
  for (int64_t at = kStride; at < kSlabBytes; at += kStride) {
    free_records_.push_back({reinterpret_cast<ErrorRecord*>(slab.host + at),
                             slab.device + static_cast<CUdeviceptr>(at)});
  }
  return RecordSlot{reinterpret_cast<ErrorRecord*>(slab.host), slab.device};
}

void Context::ReleaseRecord(RecordSlot slot) {
  *slot.host = {};
  std::lock_guard lock(mutex_);
  free_records_.push_back(slot);
}

}  // namespace halyard::drivers::cuda
