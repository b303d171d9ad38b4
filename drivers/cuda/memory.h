// SPDX-License-Identifier: Apache-2.0
// Memory: allocations of one CUDA device, their limit and their statistics. Device memory comes
// from a pool of our own, whose pages stay with the process until the device closes; host memory is
// pinned.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "drivers/cuda/context.h"
#include "hal/device.h"

namespace halyard::drivers::cuda {

// Thread-safe.
class Memory {
 public:
  // `limit_bytes`: of device memory.
  static Result<std::unique_ptr<Memory>> Create(Ref<Context> context, int64_t limit_bytes);
  ~Memory();

  // Memory that may be used at once by every stream. OUT_OF_MEMORY names the size and what is left.
  Result<CUdeviceptr> AllocateDevice(int64_t size_bytes);
  void FreeDevice(CUdeviceptr address);
  Result<PinnedBlock> AllocateHost(int64_t size_bytes);
  // Counts memory that came from elsewhere, or no longer counts it.
  void Charge(hal::MemoryKind kind, int64_t bytes);
  void Return(hal::MemoryKind kind, int64_t bytes);

  hal::MemoryStatistics statistics() const;
  // Lets `peer` address what the pool holds and will hold.
  Status AllowPeer(CUdevice peer);

 private:
  Memory(Ref<Context> context, int64_t limit_bytes)
      : context_(std::move(context)), limit_bytes_(limit_bytes) {}
  bool ChargeDevice(int64_t bytes);
  void RaisePeak();
  Status NoRoom(int64_t size_bytes, const Status& cause) const;

  const Ref<Context> context_;
  const int64_t limit_bytes_;
  CUmemoryPool pool_ = nullptr;  // null: the device has no pools
  CUstream stream_ = nullptr;    // of allocations alone
  std::atomic<int64_t> device_bytes_{0}, host_bytes_{0}, peak_bytes_{0};
  std::mutex mutex_;
  std::vector<CUdevice> peers_;  // under mutex_
};

}  // namespace halyard::drivers::cuda
