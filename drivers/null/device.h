// SPDX-License-Identifier: Apache-2.0
// NullDevice: every method of a device with its plainest answer. Part of the skeleton.
#pragma once

#include "hal/device.h"

namespace halyard::drivers::null {

class NullDevice final : public hal::Device {
 public:
  NullDevice();

  std::string_view path() const override { return "null:0"; }
  const hal::Capabilities& capabilities() const override { return capabilities_; }
  uint32_t queue_count() const override { return 1; }
  int64_t buffer_alignment() const override { return 64; }
  Status health() const override { return OkStatus(); }

  Result<Ref<hal::Buffer>> AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) override;
  Result<Ref<hal::Buffer>> ImportHostMemory(hal::HostMemory memory) override;
  hal::MemoryStatistics memory_statistics() const override { return {}; }
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
  Status Flush() override { return OkStatus(); }
  Status Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override;
  Result<hal::LinkInfo> LinkTo(const hal::Device& other) const override;

 private:
  hal::Capabilities capabilities_;
};

}  // namespace halyard::drivers::null
