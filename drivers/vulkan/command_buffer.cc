// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/command_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "drivers/vulkan/buffer.h"
#include "drivers/vulkan/copy_kernels.h"
#include "drivers/vulkan/device.h"
#include "hal/kernel_error.h"

namespace halyard::drivers::vulkan {
namespace {

void Barrier(const DeviceHandle& device, VkCommandBuffer commands, VkPipelineStageFlags before,
             VkAccessFlags written, VkPipelineStageFlags after, VkAccessFlags accessed) {
  auto barrier = Typed<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = written;
  barrier.dstAccessMask = accessed;
  device.vk.vkCmdPipelineBarrier(commands, before, after, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

void RecordStart(const DeviceHandle& device, VkCommandBuffer commands) {
  Barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
          VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

void RecordEnd(const DeviceHandle& device, VkCommandBuffer commands) {
  Barrier(device, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
          VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

VulkanCommandBuffer::VulkanCommandBuffer(Ref<VulkanDevice> device) : device_(std::move(device)) {}

VulkanCommandBuffer::~VulkanCommandBuffer() {
  const DeviceHandle& handle = device_->handle();
  handle.vk.vkDestroyCommandPool(handle.device, pool_, nullptr);
  for (const auto& instance : instances_) {
    device_->memory().Free(instance->arguments);
    device_->memory().Free(instance->error_memory);
  }
}

Result<Ref<VulkanCommandBuffer>> VulkanCommandBuffer::Make(Ref<VulkanDevice> device) {
  auto made = MakeRef<VulkanCommandBuffer>(std::move(device));
  const DeviceHandle& handle = made->device_->handle();
  auto info = Typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  info.queueFamilyIndex = handle.compute_family;
  HY_TRY(StatusFromVk(handle.vk.vkCreateCommandPool(handle.device, &info, nullptr, &made->pool_),
                      "vkCreateCommandPool"));
  return made;
}

hal::Device* VulkanCommandBuffer::device() const { return device_.get(); }

Status VulkanCommandBuffer::CheckRecording() const {
  if (is_finished())
    return FailedPrecondition("The command buffer is finished; nothing can be added.");
  return OkStatus();
}

void VulkanCommandBuffer::AddCommand(VkPipeline pipeline, const uint32_t (&grid)[3]) {
  // A barrier with nothing before it is the recording's own start.
  if (is_barrier_due_ && !commands_.empty()) commands_.push_back({});
  is_barrier_due_ = false;
  Command command;
  command.pipeline = pipeline;
  std::copy(std::begin(grid), std::end(grid), command.grid);
  words_.resize((words_.size() + 1) / 2 * 2);  // blocks start at multiples of 16 bytes
  command.first_word = static_cast<uint32_t>(words_.size());
  commands_.push_back(command);
}

void VulkanCommandBuffer::AddRange(const hal::CommandRange& range, bool is_dispatched) {
  hal::AddSlotNeed(range, is_dispatched, &slot_needs_);
  if (range.buffer) {
    auto* buffer = static_cast<VulkanBuffer*>(range.buffer);
    words_.push_back(buffer->address() + static_cast<uint64_t>(range.offset));
    buffers_.push_back(Ref<hal::Buffer>::Share(buffer));
    return;
  }
  slot_words_.push_back(
      {static_cast<uint32_t>(words_.size()), range.slot, static_cast<uint64_t>(range.offset)});
  words_.push_back(0);
}

Status VulkanCommandBuffer::Dispatch(const hal::DispatchCommand& command) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckDispatch(command, device_.get(), device_->buffer_alignment()));
  HY_ASSIGN(int64_t workgroups, hal::CountWorkgroups(command.grid));
  const uint32_t* limits = device_->handle().physical->properties.limits.maxComputeWorkGroupCount;
  for (int axis = 0; axis < 3 && workgroups > 0; ++axis) {
    if (command.grid[axis] > limits[axis]) {
      return OutOfRange("Dispatch '{}' has a grid of {} x {} x {}; '{}' takes {} x {} x {}.",
                        command.label, command.grid[0], command.grid[1], command.grid[2],
                        device_->path(), limits[0], limits[1], limits[2]);
    }
  }
  const auto* executable = static_cast<const VulkanExecutable*>(command.executable);
  if (workgroups > 0) {
    AddCommand(executable->pipeline(command.entry),
               {static_cast<uint32_t>(command.grid[0]), static_cast<uint32_t>(command.grid[1]),
                static_cast<uint32_t>(command.grid[2])});
    for (const hal::CommandRange& range : command.bindings) AddRange(range, true);
    for (int64_t scalar : command.scalars) words_.push_back(static_cast<uint64_t>(scalar));
    error_words_.push_back(static_cast<uint32_t>(words_.size()));
    words_.push_back(0);
    words_.push_back(dispatch_count());
  } else {
    for (const hal::CommandRange& range : command.bindings)
      hal::AddSlotNeed(range, true, &slot_needs_);
  }
  executables_.push_back(Ref<hal::Executable>::Share(command.executable));
  dispatches_.push_back({std::string(command.label), executable, command.entry});
  return OkStatus();
}

Status VulkanCommandBuffer::Copy(const hal::CommandRange& source, const hal::CommandRange& target) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckCopy(source, target, device_.get()));
  hal::AddSlotNeed(source, false, &slot_needs_);
  hal::AddSlotNeed(target, false, &slot_needs_);
  if (source.size_bytes == 0) return OkStatus();
  CopyGrid grid = GridForBytes(source.size_bytes);
  AddCommand(device_->kernels().copy(true), {grid.x, grid.y, 1});
  AddRange(source, false);
  AddRange(target, false);
  words_.push_back(static_cast<uint64_t>(source.size_bytes));
  return OkStatus();
}

Status VulkanCommandBuffer::Fill(const hal::CommandRange& target, uint64_t pattern,
                                 uint32_t pattern_bytes) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckFill(target, pattern_bytes, device_.get()));
  hal::AddSlotNeed(target, false, &slot_needs_);
  if (target.size_bytes == 0) return OkStatus();
  CopyGrid grid = GridForBytes(target.size_bytes);
  AddCommand(device_->kernels().fill(true), {grid.x, grid.y, 1});
  AddRange(target, false);
  words_.push_back(static_cast<uint64_t>(target.size_bytes));
  words_.push_back(RepeatPattern(pattern, pattern_bytes));
  return OkStatus();
}

Status VulkanCommandBuffer::Barrier() {
  HY_TRY(CheckRecording());
  is_barrier_due_ = true;
  return OkStatus();
}

Status VulkanCommandBuffer::Finish() {
  HY_TRY(CheckRecording());
  std::lock_guard lock(mutex_);
  auto make = [&] { return MakeInstance(); };
  HY_ASSIGN(free_, CatchAll(make));
  is_finished_.store(true, std::memory_order_release);
  return OkStatus();
}

Result<VulkanCommandBuffer::Instance*> VulkanCommandBuffer::MakeInstance() {
  auto instance = std::make_unique<Instance>();
  instance->slots.assign(slot_needs_.size(), 0);
  instance->is_changed.assign(slot_needs_.size(), 0);
  const DeviceHandle& handle = device_->handle();
  // Kept in the list even when something below fails, so that what it got is freed with the others.
  instances_.push_back(std::move(instance));
  Instance* made = instances_.back().get();
  auto info = Typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  HY_TRY(StatusFromVk(handle.vk.vkAllocateCommandBuffers(handle.device, &info, &made->commands),
                      "vkAllocateCommandBuffers"));
  HY_ASSIGN(made->arguments, device_->memory().Allocate(MemoryUse::kUpload,
                                                        static_cast<int64_t>(8 * words_.size())));
  HY_ASSIGN(made->error_memory,
            device_->memory().Allocate(device_->coherent_use(), sizeof(ErrorRecord)));
  auto* words = reinterpret_cast<uint64_t*>(made->arguments.mapped());
  if (!words_.empty()) std::memcpy(words, words_.data(), 8 * words_.size());
  for (uint32_t word : error_words_) words[word] = made->error_memory.address();
  HY_TRY(Record(made));
  return made;
}

Status VulkanCommandBuffer::Record(Instance* instance) {
  const DeviceHandle& handle = device_->handle();
  const DeviceFunctions& vk = handle.vk;
  VkCommandBuffer out = instance->commands;
  auto begin = Typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  HY_TRY(StatusFromVk(vk.vkBeginCommandBuffer(out, &begin), "vkBeginCommandBuffer"));
  RecordStart(handle, out);
  VkPipeline bound = VK_NULL_HANDLE;
  for (const Command& command : commands_) {
    if (command.pipeline == VK_NULL_HANDLE) {
      vulkan::Barrier(handle, out, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                      VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
      continue;
    }
    if (command.pipeline != bound) {
      vk.vkCmdBindPipeline(out, VK_PIPELINE_BIND_POINT_COMPUTE, command.pipeline);
      bound = command.pipeline;
    }
    VkDeviceAddress block = instance->arguments.address() + 8 * uint64_t{command.first_word};
    vk.vkCmdPushConstants(out, device_->kernels().layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          sizeof(block), &block);
    vk.vkCmdDispatch(out, command.grid[0], command.grid[1], command.grid[2]);
  }
  RecordEnd(handle, out);
  return StatusFromVk(vk.vkEndCommandBuffer(out), "vkEndCommandBuffer");
}

Result<VulkanCommandBuffer::Instance*> VulkanCommandBuffer::TakeInstance(
    std::span<const hal::BufferRange> bindings) {
  Instance* instance;
  {
    std::lock_guard lock(mutex_);
    if (free_) {
      instance = free_;
      free_ = free_->next;
    } else {
      auto make = [&] { return MakeInstance(); };
      HY_ASSIGN(instance, CatchAll(make));
    }
  }
  bool is_any_changed = false;
  for (size_t i = 0; i < instance->slots.size(); ++i) {
    VkDeviceAddress address = 0;
    if (const auto* buffer = static_cast<const VulkanBuffer*>(bindings[i].buffer)) {
      address = buffer->address() + static_cast<uint64_t>(bindings[i].offset);
    }
    instance->is_changed[i] = address != instance->slots[i];
    is_any_changed |= address != instance->slots[i];
    instance->slots[i] = address;
  }
  if (is_any_changed) {
    auto* words = reinterpret_cast<uint64_t*>(instance->arguments.mapped());
    for (const SlotWord& place : slot_words_) {
      if (!instance->is_changed[place.slot]) continue;
      words[place.word] = instance->slots[place.slot] + place.offset;
    }
  }
  *instance->error() = {};
  return instance;
}

void VulkanCommandBuffer::ReturnInstance(Instance* instance) {
  std::lock_guard lock(mutex_);
  instance->next = free_;
  free_ = instance;
}

Status VulkanCommandBuffer::FailureOf(const Instance& instance) const {
  ErrorRecord error = *instance.error();
  if (error.state == 0) return OkStatus();
  if (error.dispatch >= dispatches_.size()) {
    return Internal("A kernel reported a failure of dispatch {} of {}.", error.dispatch,
                    dispatches_.size());
  }
  const DispatchInfo& info = dispatches_[error.dispatch];
  return hal::StatusFromErrorRecord(error, info.label, info.executable->entries()[info.entry]);
}

std::string VulkanCommandBuffer::Describe() const {
  return hal::DescribeDispatches(
      dispatches_.size(), [this](size_t i) -> std::string_view { return dispatches_[i].label; });
}

}  // namespace halyard::drivers::vulkan
