// SPDX-License-Identifier: Apache-2.0
// VulkanCommandBuffer: a recording as native command buffers that are submitted again and again.
// Every kernel reads its arguments from a block in device-visible memory, so that other buffers
// mean other words in that block and nothing else.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error_record.h"
#include "drivers/vulkan/executable.h"
#include "drivers/vulkan/memory.h"
#include "hal/command_buffer.h"
#include "hal/command_checks.h"

namespace halyard::drivers::vulkan {

class VulkanCommandBuffer final : public hal::CommandBuffer {
 public:
  // What one submission in flight needs for itself. Recorded when more submissions are in flight
  // than ever before, and kept.
  struct Instance {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    Allocation arguments;                // all blocks
    Allocation error_memory;             // an ErrorRecord
    std::vector<VkDeviceAddress> slots;  // what the blocks hold at present; 0: nothing yet
    std::vector<uint8_t> is_changed;     // scratch, per slot
    Instance* next = nullptr;

    ErrorRecord* error() const { return reinterpret_cast<ErrorRecord*>(error_memory.mapped()); }
  };

  static Result<Ref<VulkanCommandBuffer>> Make(Ref<VulkanDevice> device);
  explicit VulkanCommandBuffer(Ref<VulkanDevice> device);
  ~VulkanCommandBuffer() override;

  hal::Device* device() const override;

  Status Dispatch(const hal::DispatchCommand& command) override;
  Status Copy(const hal::CommandRange& source, const hal::CommandRange& target) override;
  Status Fill(const hal::CommandRange& target, uint64_t pattern, uint32_t pattern_bytes) override;
  Status Barrier() override;
  Status Finish() override;
  bool is_finished() const override { return is_finished_.load(std::memory_order_acquire); }
  uint32_t slot_count() const override { return static_cast<uint32_t>(slot_needs_.size()); }
  uint32_t dispatch_count() const override { return static_cast<uint32_t>(dispatches_.size()); }

  std::span<const hal::SlotNeed> slot_needs() const { return slot_needs_; }

  // An instance that no submission uses, with the bindings written into it and an empty error
  // record. Goes back through ReturnInstance when the submission is over. Thread-safe.
  Result<Instance*> TakeInstance(std::span<const hal::BufferRange> bindings);
  void ReturnInstance(Instance* instance);
  // What the kernels of that submission reported.
  Status FailureOf(const Instance& instance) const;
  // "the submission of 3 dispatches: 'a', 'b', 'c'", for messages.
  std::string Describe() const;

 private:
  // A kernel, or a barrier when `pipeline` is null.
  struct Command {
    VkPipeline pipeline = VK_NULL_HANDLE;
    uint32_t grid[3] = {0, 0, 0};
    uint32_t first_word = 0;  // of its arguments
  };
  // An argument that is the address of a slot plus an offset.
  struct SlotWord {
    uint32_t word = 0;
    uint32_t slot = 0;
    uint64_t offset = 0;
  };
  struct DispatchInfo {
    std::string label;
    const VulkanExecutable* executable = nullptr;
    uint32_t entry = 0;
  };

  Status CheckRecording() const;
  void AddCommand(VkPipeline pipeline, const uint32_t (&grid)[3]);
  void AddRange(const hal::CommandRange& range, bool is_dispatched);
  Result<Instance*> MakeInstance();  // the lock is held
  Status Record(Instance* instance);

  Ref<VulkanDevice> device_;
  std::atomic<bool> is_finished_{false};
  std::vector<Command> commands_;
  std::vector<uint64_t> words_;  // arguments of all commands; slots and error addresses open
  std::vector<SlotWord> slot_words_;
  std::vector<uint32_t> error_words_;  // those that hold the address of the error record
  std::vector<DispatchInfo> dispatches_;
  std::vector<hal::SlotNeed> slot_needs_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<Ref<hal::Executable>> executables_;
  bool is_barrier_due_ = false;

  std::mutex mutex_;  // everything below
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::vector<std::unique_ptr<Instance>> instances_;
  Instance* free_ = nullptr;
};

// What every native command buffer of this driver starts and ends with: it sees all earlier work
// of its queue, and the host sees what it wrote.
void RecordStart(const DeviceHandle& device, VkCommandBuffer commands);
void RecordEnd(const DeviceHandle& device, VkCommandBuffer commands);

}  // namespace halyard::drivers::vulkan
