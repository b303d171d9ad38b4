// SPDX-License-Identifier: Apache-2.0
// VulkanDevice: one Vulkan physical device as a HAL device. When work runs is decided in
// scheduler.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/kernels.h"
#include "drivers/vulkan/memory.h"
#include "drivers/vulkan/options.h"
#include "hal/device.h"

namespace halyard::drivers::vulkan {

class Scheduler;
struct Work;

class VulkanDevice final : public hal::Device {
 public:
  static Result<Ref<VulkanDevice>> Open(const PhysicalDevice& physical, uint32_t ordinal,
                                        const VulkanOptions& options);
  ~VulkanDevice() override;

  std::string_view path() const override { return path_; }
  const hal::Capabilities& capabilities() const override { return capabilities_; }
  hal::DeviceState ReadState() const override;
  uint32_t queue_count() const override { return lane_count_; }
  int64_t buffer_alignment() const override;
  Status health() const override;

  Result<Ref<hal::Buffer>> AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) override;
  Result<Ref<hal::Buffer>> ImportHostMemory(hal::HostMemory memory) override;
  hal::MemoryStatistics memory_statistics() const override;
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
  Result<std::vector<uint8_t>> EmptyKernel() const override;
  Result<hal::LinkInfo> LinkTo(const hal::Device& other) const override;

  // For the other files of this driver.
  const DeviceHandle& handle() const { return *handle_; }
  MemoryPools& memory() { return *memory_; }
  Kernels& kernels() { return *kernels_; }
  // Memory that the host reads fast without flushing and invalidating.
  MemoryUse coherent_use() const { return coherent_use_; }
  // Gives back what a dying buffer was charged.
  void ReturnMemory(int64_t bytes) { live_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Gives up what the operation itself used; waits and signals stay. May be called again.
  void ReleasePayload(Work* work);

 private:
  VulkanDevice() = default;

  // False when the limit would be passed.
  bool ChargeMemory(int64_t bytes);
  Status DoesNotFit(int64_t size_bytes, MemoryUse use, std::string_view reason) const;
  // Queues one work; `fill_in` gives it its payload or fails.
  template <typename FillIn>
  Status Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in);
  // Begins and ends the native commands of a work of its own.
  Status BeginOwn(Work& work, bool is_transfer);
  Status EndOwn(Work& work);
  void RecordKernel(Work& work, VkPipeline pipeline, int64_t size_bytes,
                    std::span<const uint64_t> arguments);

  VulkanOptions options_;
  std::string path_;
  hal::Capabilities capabilities_;
  uint32_t lane_count_ = 1;
  int64_t memory_limit_bytes_ = INT64_MAX;
  std::atomic<int64_t> live_bytes_{0};
  std::atomic<int64_t> peak_bytes_{0};
  MemoryUse coherent_use_ = MemoryUse::kUpload;
  std::shared_ptr<DeviceHandle> handle_;
  std::unique_ptr<MemoryPools> memory_;
  std::shared_ptr<Kernels> kernels_;
  std::shared_ptr<Scheduler> scheduler_;
};

}  // namespace halyard::drivers::vulkan
