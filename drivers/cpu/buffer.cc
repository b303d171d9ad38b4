// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/buffer.h"

#include <sys/mman.h>

#include <cstdlib>

#include "drivers/cpu/device.h"

namespace halyard::drivers::cpu {

CpuBuffer::CpuBuffer(Ref<CpuDevice> device, hal::MemoryKind kind, uint8_t* address,
                     int64_t size_bytes, bool is_mappable, int64_t charged_bytes,
                     std::function<void()> release)
    : device_(std::move(device)),
      kind_(kind),
      address_(address),
      size_bytes_(size_bytes),
      is_mappable_(is_mappable),
      charged_bytes_(charged_bytes),
      release_(std::move(release)) {}

CpuBuffer::~CpuBuffer() {
  if (release_) release_();
  device_->ReturnMemory(kind_, charged_bytes_);
}

uint8_t* CpuBuffer::AllocateMemory(int64_t size_bytes) {
  constexpr int64_t kHugePage = 2 << 20;
  bool is_large = size_bytes >= 2 * kHugePage;
  int64_t alignment = is_large ? kHugePage : kAlignment;
  // Never empty, so that every buffer has an address of its own.
  int64_t rounded =
      size_bytes == 0 ? alignment : (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<size_t>(alignment), static_cast<size_t>(rounded)) != 0) {
    return nullptr;
  }
  // Fewer TLB misses on weights and activations; a refusal costs speed only.
  if (is_large) (void)madvise(memory, static_cast<size_t>(rounded), MADV_HUGEPAGE);
  return static_cast<uint8_t*>(memory);
}

hal::Device* CpuBuffer::device() const { return device_.get(); }

Result<uint8_t*> CpuBuffer::Map(int64_t offset, int64_t size_bytes) {
  HY_TRY(hal::CheckRange("A mapping", offset, size_bytes, size_bytes_));
  if (!is_mappable_) {
    return Incompatible("The host cannot address {} memory of '{}'.", hal::FormatMemoryKind(kind_),
                        device_->path());
  }
  return address_ + offset;
}

Status CpuBuffer::FlushMapped(int64_t offset, int64_t size_bytes) {
  return hal::CheckRange("A flush", offset, size_bytes, size_bytes_);
}

Status CpuBuffer::InvalidateMapped(int64_t offset, int64_t size_bytes) {
  return hal::CheckRange("An invalidation", offset, size_bytes, size_bytes_);
}

}  // namespace halyard::drivers::cpu
