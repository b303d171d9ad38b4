// SPDX-License-Identifier: Apache-2.0
// CudaExecutable: the kernels of one GPU image, loaded into the device's context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/gpu_image.h"
#include "drivers/cuda/context.h"
#include "drivers/cuda/library_call.h"
#include "hal/executable.h"

namespace halyard::drivers::cuda {

class CudaDevice;

class CudaExecutable final : public hal::Executable {
 public:
  static constexpr std::string_view kImageFormat = "cuda-image";
  // CUDA takes 4096 bytes of parameters everywhere; two are the error record and the dispatch.
  static constexpr uint32_t kMostArguments = 4096 / 8 - 2;

  struct Kernel {
    CUfunction function = nullptr;
    uint32_t workgroup_size[3] = {1, 1, 1};
    uint32_t dynamic_workgroup_bytes = 0;
    bool waits_itself = false;  // kGpuEntryWaitsItself
    // Runs instead of the function; null: there is none.
    std::unique_ptr<LibraryCall> library_call;
    VendorLibrary* library = nullptr;  // of that call
  };

  static Result<Ref<CudaExecutable>> Load(Ref<CudaDevice> device,
                                          const hal::ExecutableSource& source);
  explicit CudaExecutable(Ref<CudaDevice> device);
  ~CudaExecutable() override;

  hal::Device* device() const override;
  std::span<const hal::ExecutableEntry> entries() const override { return entries_; }
  std::span<const std::string> notes() const override { return notes_; }
  const Kernel& kernel(uint32_t entry) const { return kernels_[entry]; }

 private:
  Status LoadKernels(const hal::ExecutableSource& source, const GpuImage& image);
  Result<CUmodule> LoadModule(GpuModuleKind kind, std::span<const uint8_t> code);
  Result<Kernel> LoadKernel(CUmodule module, const GpuKernel& source);
  // The library call that stands for a kernel, none where it cannot be made here.
  Status LoadLibraryCall(const GpuKernel& source, Kernel& kernel);

  Ref<CudaDevice> device_;
  std::vector<CUmodule> modules_;
  std::vector<hal::ExecutableEntry> entries_;
  std::vector<Kernel> kernels_;  // parallel to entries_
  std::vector<std::string> notes_;
};

}  // namespace halyard::drivers::cuda
