// SPDX-License-Identifier: Apache-2.0
// CpuDevice: the processors of this machine as a HAL device. How work is scheduled is in
// scheduler.h.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "drivers/cpu/features.h"
#include "drivers/cpu/options.h"
#include "drivers/cpu/topology.h"
#include "hal/device.h"

namespace halyard::drivers::cpu {

class Scheduler;
struct Work;

class CpuDevice final : public hal::Device {
 public:
  // `ordinal`: 0 is the processors themselves, others are synthetic devices.
  static Result<Ref<CpuDevice>> Open(const CpuOptions& options, uint32_t ordinal = 0);
  CpuDevice(const CpuOptions& options, uint32_t ordinal, uint64_t features,
            hal::Capabilities capabilities, int64_t memory_limit_bytes,
            std::shared_ptr<Scheduler> scheduler);
  ~CpuDevice() override;

  std::string_view path() const override { return path_; }
  const hal::Capabilities& capabilities() const override { return capabilities_; }
  hal::DeviceState ReadState() const override;
  uint32_t queue_count() const override { return static_cast<uint32_t>(options_.queues); }
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
  Result<hal::LinkInfo> LinkTo(const hal::Device& other) const override;

  // Test mode: kernels and copies run one element at a time.
  bool is_discrete() const { return options_.discrete != 0; }
  // The host cannot address its memory, other devices of this driver neither.
  bool has_own_memory() const { return is_discrete() || options_.synthetic != 0; }
  const CpuOptions& options() const { return options_; }
  // Counts a work that starts; DEVICE_LOST from the one on that loses the device.
  Status CountWork();
  int64_t spin_us() const { return options_.spin_us; }
  // Gives back what a dying buffer was charged.
  void ReturnMemory(hal::MemoryKind kind, int64_t bytes);
  // For tests and statistics.
  Scheduler& scheduler() { return *scheduler_; }

 private:
  // Whether copies of this device take buffers of the other one.
  bool CanReach(const hal::Device& other) const;
  // Staging memory is the host's: it counts in the statistics, not for the limit of a device that
  // has memory of its own.
  bool IsLimited(hal::MemoryKind kind) const {
    return !has_own_memory() || kind == hal::MemoryKind::kDevice;
  }
  // False when the limit would be passed.
  bool ChargeMemory(hal::MemoryKind kind, int64_t bytes);
  // Queues one work; `fill_in` gives it its payload.
  template <typename FillIn>
  Status Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in);

  const CpuOptions options_;
  const uint64_t features_;
  const hal::Capabilities capabilities_;
  const std::string path_;
  const int64_t memory_limit_bytes_;
  std::atomic<int64_t> limited_bytes_{0};  // of those kinds that the limit is for
  std::atomic<int64_t> live_bytes_{0};
  std::atomic<int64_t> peak_bytes_{0};
  std::atomic<int64_t> work_count_{0};
  std::shared_ptr<Scheduler> scheduler_;
};

}  // namespace halyard::drivers::cpu
