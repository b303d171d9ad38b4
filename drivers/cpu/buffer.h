// SPDX-License-Identifier: Apache-2.0
// CpuBuffer: host memory under the HAL's rules.
#pragma once

#include <functional>

#include "hal/buffer.h"

namespace halyard::drivers::cpu {

class CpuDevice;

class CpuBuffer final : public hal::Buffer {
 public:
  static constexpr int64_t kAlignment = 64;

  // Adopts `address`. `release` is called once at the end; `charged_bytes` are given back to the
  // device.
  CpuBuffer(Ref<CpuDevice> device, hal::MemoryKind kind, uint8_t* address, int64_t size_bytes,
            bool is_mappable, int64_t charged_bytes, std::function<void()> release);
  ~CpuBuffer() override;

  // Memory of `size_bytes` rounded up to the alignment, or null. Freed with free().
  static uint8_t* AllocateMemory(int64_t size_bytes);

  hal::Device* device() const override;
  hal::MemoryKind kind() const override { return kind_; }
  int64_t size_bytes() const override { return size_bytes_; }
  Result<uint8_t*> Map(int64_t offset, int64_t size_bytes) override;
  Status FlushMapped(int64_t offset, int64_t size_bytes) override;
  Status InvalidateMapped(int64_t offset, int64_t size_bytes) override;

  uint8_t* address() const { return address_; }

 private:
  Ref<CpuDevice> device_;
  hal::MemoryKind kind_;
  uint8_t* address_;
  int64_t size_bytes_;
  bool is_mappable_;
  int64_t charged_bytes_;
  std::function<void()> release_;
};

}  // namespace halyard::drivers::cpu
