// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/memory.h"

#include <algorithm>

namespace halyard::drivers::cuda {

Result<std::unique_ptr<Memory>> Memory::Create(Ref<Context> context, int64_t limit_bytes) {
  const CudaApi& api = context->api();
  std::unique_ptr<Memory> memory(new Memory(context, limit_bytes));
  Context::Current current(*context);
  HY_TRY(current.status());
  HY_CUDA_TRY(api, cuStreamCreate, &memory->stream_, CU_STREAM_NON_BLOCKING);
  int has_pools = 0;
  HY_CUDA_TRY(api, cuDeviceGetAttribute, &has_pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
              context->device());
  if (has_pools) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, context->device()};
    HY_CUDA_TRY(api, cuMemPoolCreate, &memory->pool_, &properties);
    uint64_t keep_all = UINT64_MAX;
    HY_CUDA_TRY(api, cuMemPoolSetAttribute, memory->pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                &keep_all);
  }
  return memory;
}

Memory::~Memory() {
  const CudaApi& api = context_->api();
  Context::Current current(*context_);
  if (stream_) {
    api.cuStreamSynchronize(stream_);
    if (pool_) api.cuMemPoolDestroy(pool_);
    api.cuStreamDestroy_v2(stream_);
  }
}

bool Memory::ChargeDevice(int64_t bytes) {
  int64_t live = device_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ - live) return false;
  } while (!device_bytes_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  RaisePeak();
  return true;
}

void Memory::RaisePeak() {
  int64_t live =
      device_bytes_.load(std::memory_order_relaxed) + host_bytes_.load(std::memory_order_relaxed);
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < live && !peak_bytes_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void Memory::Charge(hal::MemoryKind kind, int64_t bytes) {
  auto& live = kind == hal::MemoryKind::kDevice ? device_bytes_ : host_bytes_;
  live.fetch_add(bytes, std::memory_order_relaxed);
  RaisePeak();
}

void Memory::Return(hal::MemoryKind kind, int64_t bytes) {
  auto& live = kind == hal::MemoryKind::kDevice ? device_bytes_ : host_bytes_;
  live.fetch_sub(bytes, std::memory_order_relaxed);
}

Status Memory::NoRoom(int64_t size_bytes, const Status& cause) const {
  int64_t left = limit_bytes_ - device_bytes_.load(std::memory_order_relaxed);
  size_t free_bytes = 0, total_bytes = 0;
  Context::Current current(*context_);
  if (context_->api().cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
    left = std::min(left, static_cast<int64_t>(free_bytes));
  }
  std::string why = cause.ok() ? "" : " " + cause.message();
  return OutOfMemory("A buffer of {} bytes does not fit '{}': {} of {} bytes are left.{}",
                     size_bytes, context_->path(), std::max<int64_t>(left, 0), limit_bytes_, why);
}

Result<CUdeviceptr> Memory::AllocateDevice(int64_t size_bytes) {
  if (!ChargeDevice(size_bytes)) return NoRoom(size_bytes, OkStatus());
  const CudaApi& api = context_->api();
  // Never empty, so that every buffer has an address of its own.
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 64));
  auto allocate = [&](CUdeviceptr* address) -> Status {
    Context::Current current(*context_);
    HY_TRY(current.status());
    if (!pool_) {
      return context_->Check(api.cuMemAlloc_v2(address, bytes), "cuMemAlloc", "an allocation");
    }
    HY_TRY(context_->Check(api.cuMemAllocFromPoolAsync(address, bytes, pool_, stream_),
                           "cuMemAllocFromPoolAsync", "an allocation"));
    // Nothing else stands in this stream, so other streams may use the memory as soon as this is
    // through.
    Status status =
        context_->Check(api.cuStreamSynchronize(stream_), "cuStreamSynchronize", "an allocation");
    if (!status.ok()) api.cuMemFreeAsync(*address, stream_);
    return status;
  };
  CUdeviceptr address = 0;
  Status status = allocate(&address);
  if (status.ok()) return address;
  Return(hal::MemoryKind::kDevice, size_bytes);
  return status.code() == StatusCode::kOutOfMemory ? NoRoom(size_bytes, status) : status;
}

void Memory::FreeDevice(CUdeviceptr address) {
  const CudaApi& api = context_->api();
  Context::Current current(*context_);
  if (pool_) {
    api.cuMemFreeAsync(address, stream_);
  } else {
    api.cuMemFree_v2(address);
  }
}

Result<PinnedBlock> Memory::AllocateHost(int64_t size_bytes) {
  Result<PinnedBlock> block = context_->AllocatePinned(size_bytes);
  if (!block.ok()) {
    if (block.status().code() != StatusCode::kOutOfMemory) return block;
    return OutOfMemory("The host could not give {} bytes of pinned memory: {}", size_bytes,
                       block.status().message());
  }
  Charge(hal::MemoryKind::kStaging, size_bytes);
  return block;
}

hal::MemoryStatistics Memory::statistics() const {
  return {
      device_bytes_.load(std::memory_order_relaxed) + host_bytes_.load(std::memory_order_relaxed),
      peak_bytes_.load(std::memory_order_relaxed), limit_bytes_};
}

Status Memory::AllowPeer(CUdevice peer) {
  std::lock_guard lock(mutex_);
  if (!pool_ || std::find(peers_.begin(), peers_.end(), peer) != peers_.end()) return OkStatus();
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, peer},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  Context::Current current(*context_);
  HY_TRY(current.status());
  HY_TRY(context_->Check(context_->api().cuMemPoolSetAccess(pool_, &access, 1),
                         "cuMemPoolSetAccess", "a copy between two GPUs"));
  peers_.push_back(peer);
  return OkStatus();
}

}  // namespace halyard::drivers::cuda
