// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/buffer.h"

#include "drivers/cuda/device.h"

namespace halyard::drivers::cuda {

CudaBuffer::CudaBuffer(Ref<CudaDevice> device, hal::MemoryKind kind, CUdeviceptr address,
                       uint8_t* host, int64_t size_bytes, int64_t charged_bytes,
                       std::function<void()> release)
    : device_(std::move(device)),
      kind_(kind),
      address_(address),
      host_(host),
      size_bytes_(size_bytes),
      charged_bytes_(charged_bytes),
      release_(std::move(release)) {}

CudaBuffer::~CudaBuffer() {
  device_->context().Free(std::move(release_));
  device_->memory().Return(kind_, charged_bytes_);
}

hal::Device* CudaBuffer::device() const { return device_.get(); }

Result<uint8_t*> CudaBuffer::Map(int64_t offset, int64_t size_bytes) {
  HY_TRY(hal::CheckRange("A mapping", offset, size_bytes, size_bytes_));
  if (!host_) {
    return Incompatible("The host cannot address {} memory of '{}'.", hal::FormatMemoryKind(kind_),
                        device_->path());
  }
  return host_ + offset;
}

Status CudaBuffer::FlushMapped(int64_t offset, int64_t size_bytes) {
  return hal::CheckRange("A flush", offset, size_bytes, size_bytes_);
}

Status CudaBuffer::InvalidateMapped(int64_t offset, int64_t size_bytes) {
  return hal::CheckRange("An invalidation", offset, size_bytes, size_bytes_);
}

}  // namespace halyard::drivers::cuda
