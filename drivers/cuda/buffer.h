// SPDX-License-Identifier: Apache-2.0
// CudaBuffer: memory of the GPU's pool, or pinned host memory that the GPU addresses in place.
#pragma once

#include <functional>

#include "drivers/cuda/context.h"
#include "hal/buffer.h"

namespace halyard::drivers::cuda {

class CudaDevice;

class CudaBuffer final : public hal::Buffer {
 public:
  static constexpr int64_t kAlignment = 64;

  // `host` is null for memory of the device. `release` frees the memory; it is called once, before
  // `charged_bytes` go back to the device.
  CudaBuffer(Ref<CudaDevice> device, hal::MemoryKind kind, CUdeviceptr address, uint8_t* host,
             int64_t size_bytes, int64_t charged_bytes, std::function<void()> release);
  ~CudaBuffer() override;

  hal::Device* device() const override;
  hal::MemoryKind kind() const override { return kind_; }
  int64_t size_bytes() const override { return size_bytes_; }
  Result<uint8_t*> Map(int64_t offset, int64_t size_bytes) override;
  Status FlushMapped(int64_t offset, int64_t size_bytes) override;
  Status InvalidateMapped(int64_t offset, int64_t size_bytes) override;

  CUdeviceptr address() const { return address_; }

 private:
  Ref<CudaDevice> device_;
  hal::MemoryKind kind_;
  CUdeviceptr address_;
  uint8_t* host_;
  int64_t size_bytes_;
  int64_t charged_bytes_;
  std::function<void()> release_;
};

}  // namespace halyard::drivers::cuda
