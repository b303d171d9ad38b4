// SPDX-License-Identifier: Apache-2.0
// CudaDevice: one NVIDIA GPU as a HAL device. How work gets to the GPU is in scheduler.h.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "drivers/cuda/management.h"
#include "drivers/cuda/memory.h"
#include "drivers/cuda/options.h"
#include "hal/device.h"

namespace halyard::drivers::cuda {

class VendorLibrary;
class Scheduler;
struct Work;

class CudaDevice final : public hal::Device {
 public:
  static Result<Ref<CudaDevice>> Open(std::shared_ptr<const CudaApi> api, uint32_t ordinal,
                                      const CudaOptions& options);
  CudaDevice(Ref<Context> context, const CudaOptions& options, Management management,
             hal::Capabilities capabilities, std::unique_ptr<Memory> memory,
             std::shared_ptr<Scheduler> scheduler);
  ~CudaDevice() override;

  std::string_view path() const override { return context_->path(); }
  const hal::Capabilities& capabilities() const override { return capabilities_; }
  hal::DeviceState ReadState() const override;
  uint32_t queue_count() const override {
    return static_cast<uint32_t>(options_.compute_queues + options_.copy_queues);
  }
  int64_t buffer_alignment() const override;
  Status health() const override { return context_->health(); }

  Result<Ref<hal::Buffer>> AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) override;
  Result<Ref<hal::Buffer>> ImportHostMemory(hal::HostMemory memory) override;
  hal::MemoryStatistics memory_statistics() const override { return memory_->statistics(); }
  Result<Ref<hal::Semaphore>> CreateSemaphore(uint64_t initial_value) override;
  Result<Ref<hal::Executable>> LoadExecutable(const hal::ExecutableSource& source) override;
  Result<Ref<hal::CommandBuffer>> CreateCommandBuffer() override;

  Status Submit(uint32_t queue, const hal::SubmitInfo& info) override;
  Status QueueCopy(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange& source,
                   const hal::BufferRange& target) override;
  Status QueueFill(uint32_t queue, const hal::Ordering& ordering, const hal::BufferRange& target,
                   uint64_t pattern, uint32_t pattern_bytes) override;
  Status QueueUpdate(uint32_t queue, const hal::Ordering& ordering, std::span<const uint8_t> source,
                     const hal::BufferRange& target) override;
  Status QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                       const hal::HostCall& call) override;
  Status Flush() override;
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override;
  Result<std::string> DescribeCompiler() override;
  Result<std::string> DescribeLibrary(GpuLibraryKind kind) override;
  Result<std::vector<GpuLibraryCall>> ProposeLibraryCalls(const GpuLibraryCall& wanted,
                                                          size_t most) override;
  Result<std::vector<uint8_t>> EmptyKernel() const override;
  Result<hal::LinkInfo> LinkTo(const hal::Device& other) const override;

  Context& context() const { return *context_; }
  Memory& memory() const { return *memory_; }
  const CudaOptions& options() const { return options_; }
  // Whether the library is a stand-in that runs Kernel IR.
  bool takes_kernel_ir() const { return context_->api().halyard_takes_kernel_ir; }
  // Programmatic launch edges between kernels that wait themselves.
  bool has_dependent_launch() const;
  // The library of a kind, opened by the first caller; lives as long as the device. UNAVAILABLE
  // says why it cannot be opened, to every caller alike; DATA_LOSS for an unknown kind.
  Result<VendorLibrary*> library(GpuLibraryKind kind);

 private:
  // Queues one work; `fill_in` gives it its payload.
  template <typename FillIn>
  Status Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in);
  // Makes memory of the two devices reachable for copies; false: it cannot be.
  bool CanReach(const hal::Device* other) const;

  const Ref<Context> context_;
  const CudaOptions options_;
  const Management management_;
  const hal::Capabilities capabilities_;
  const std::unique_ptr<Memory> memory_;
  const std::shared_ptr<Scheduler> scheduler_;
  struct OpenedLibrary {
    std::unique_ptr<VendorLibrary> library;
    Status why_none;
  };
  std::mutex libraries_mutex_;
  std::map<GpuLibraryKind, OpenedLibrary> libraries_;
};

}  // namespace halyard::drivers::cuda
