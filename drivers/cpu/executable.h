// SPDX-License-Identifier: Apache-2.0
// CpuExecutable: the kernels of one flat image, numbered as the caller asked.
#pragma once

#include <vector>

#include "drivers/cpu/image.h"
#include "hal/executable.h"

namespace halyard::drivers::cpu {

class CpuDevice;

class CpuExecutable final : public hal::Executable {
 public:
  struct Kernel {
    CpuKernelFunction function = nullptr;
    uint64_t workgroup_memory_bytes = 0;
  };

  static Result<Ref<CpuExecutable>> Load(Ref<CpuDevice> device, const hal::ExecutableSource& source,
                                         uint64_t host_features);
  CpuExecutable(Ref<CpuDevice> device, CpuImage image);
  ~CpuExecutable() override;

  hal::Device* device() const override;
  std::span<const hal::ExecutableEntry> entries() const override { return entries_; }
  const Kernel& kernel(uint32_t entry) const { return kernels_[entry]; }

 private:
  Ref<CpuDevice> device_;
  CpuImage image_;
  std::vector<hal::ExecutableEntry> entries_;
  std::vector<Kernel> kernels_;  // parallel to entries_
};

}  // namespace halyard::drivers::cpu
