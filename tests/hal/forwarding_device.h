// SPDX-License-Identifier: Apache-2.0
// ForwardingDevice: a device that is another one, for tests that count or time some of its calls.
#pragma once

#include <string_view>
#include <utility>

#include "hal/device.h"

namespace halyard::hal {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Ref<Device> inner) : inner_(std::move(inner)) {}
  std::string_view path() const override { return inner_->path(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  uint32_t queue_count() const override { return inner_->queue_count(); }
  int64_t buffer_alignment() const override { return inner_->buffer_alignment(); }
  Status health() const override { return inner_->health(); }
  Result<Ref<Buffer>> AllocateBuffer(MemoryKind kind, int64_t size_bytes) override {
    return inner_->AllocateBuffer(kind, size_bytes);
  }
  Result<Ref<Buffer>> ImportHostMemory(HostMemory memory) override {
    return inner_->ImportHostMemory(std::move(memory));
  }
  MemoryStatistics memory_statistics() const override { return inner_->memory_statistics(); }
  Result<Ref<Semaphore>> CreateSemaphore(uint64_t value) override {
    return inner_->CreateSemaphore(value);
  }
  Result<Ref<Executable>> LoadExecutable(const ExecutableSource& source) override {
    return inner_->LoadExecutable(source);
  }
  Result<Ref<CommandBuffer>> CreateCommandBuffer() override {
    return inner_->CreateCommandBuffer();
  }
  Status Submit(uint32_t queue, const SubmitInfo& info) override {
    return inner_->Submit(queue, info);
  }
  Status QueueCopy(uint32_t queue, const Ordering& ordering, const BufferRange& source,
                   const BufferRange& target) override {
    return inner_->QueueCopy(queue, ordering, source, target);
  }
  Status QueueFill(uint32_t queue, const Ordering& ordering, const BufferRange& target,
                   uint64_t pattern, uint32_t bytes) override {
    return inner_->QueueFill(queue, ordering, target, pattern, bytes);
  }
  Status QueueUpdate(uint32_t queue, const Ordering& ordering, std::span<const uint8_t> source,
                     const BufferRange& target) override {
    return inner_->QueueUpdate(queue, ordering, source, target);
  }
  Status QueueHostCall(uint32_t queue, const Ordering& ordering, const HostCall& call) override {
    return inner_->QueueHostCall(queue, ordering, call);
  }
  Status Flush() override { return inner_->Flush(); }
  Status Wait(std::span<const SemaphorePoint> points, WaitMode mode, int64_t timeout_ns,
              size_t* out_index) override {
    return inner_->Wait(points, mode, timeout_ns, out_index);
  }
  Result<LinkInfo> LinkTo(const Device& other) const override {
    const auto* forwarding = dynamic_cast<const ForwardingDevice*>(&other);
    return inner_->LinkTo(forwarding != nullptr ? *forwarding->inner_ : other);
  }

 protected:
  const Ref<Device> inner_;
};

}  // namespace halyard::hal
