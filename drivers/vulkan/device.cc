// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/device.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/gpu_image.h"
#include "drivers/vulkan/buffer.h"
#include "drivers/vulkan/capabilities.h"
#include "drivers/vulkan/command_buffer.h"
#include "drivers/vulkan/copy_kernels.h"
#include "drivers/vulkan/device_fault.h"
#include "drivers/vulkan/executable.h"
#include "drivers/vulkan/exit_guard.h"
#include "drivers/vulkan/scheduler.h"
#include "drivers/vulkan/semaphore.h"
#include "drivers/vulkan/spirv_builder.h"
#include "hal/command_checks.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr uint32_t kMostLanes = 4;
// Staging of updates up to this size stays with the work.
constexpr int64_t kKeptStagingBytes = 64 << 10;
// Sleeping and waking costs some 40 us, which the run of a small model would feel; a device on the
// processor needs the time of a polling thread itself.
constexpr int64_t kSpinUs = 5000, kCpuSpinUs = 20;
constexpr int64_t kWaitLimitS = 600;

MemoryUse UseOf(hal::MemoryKind kind) {
  return kind == hal::MemoryKind::kDevice ? MemoryUse::kDevice : MemoryUse::kHost;
}

}  // namespace

Result<Ref<VulkanDevice>> VulkanDevice::Open(const PhysicalDevice& physical, uint32_t ordinal,
                                             const VulkanOptions& options) {
  if (AreDriversForgotten()) {
    return Unavailable("The process exits; no Vulkan device can be opened any more.");
  }
  Ref<VulkanDevice> device = Ref<VulkanDevice>::Adopt(new VulkanDevice);
  device->options_ = options;
  device->path_ = fmt::format("vulkan:{}", ordinal);
  uint32_t queues = options.queues > 0 ? static_cast<uint32_t>(options.queues) : kMostLanes;
  HY_ASSIGN(device->handle_, DeviceHandle::Open(physical, queues));
  device->lane_count_ =
      options.queues > 0 ? queues : std::min(kMostLanes, device->handle_->compute_queues);
  HY_ASSIGN(device->memory_, MemoryPools::Make(device->handle_, options.fail_allocation));
  if (device->memory_->is_coherent(MemoryUse::kHost)) device->coherent_use_ = MemoryUse::kHost;
  HY_ASSIGN(device->kernels_, Kernels::Make(device->handle_));
  SchedulerOptions scheduling;
  scheduling.path = device->path_;
  scheduling.lanes = device->lane_count_;
  scheduling.spin_us = options.spin_us >= 0 ? options.spin_us
                       : physical.is_cpu()  ? kCpuSpinUs
                                            : kSpinUs;
  // What a processor runs ends as surely as the host's own loops, and may take long.
  scheduling.wait_limit_s = options.wait_limit_s >= 0 ? options.wait_limit_s
                            : physical.is_cpu()       ? 0
                                                      : kWaitLimitS;
  scheduling.lose_at = options.lose_at;
  scheduling.hang_at = options.hang_at;
  HY_ASSIGN(device->scheduler_, Scheduler::Make(device->handle_, scheduling));
  if (options.memory_limit > 0) device->memory_limit_bytes_ = options.memory_limit;
  device->capabilities_ =
      DescribeVulkan(*device->handle_, *device->memory_, device->lane_count_, options.memory_limit);
  GuardExit(device->handle_, device->scheduler_, device->kernels_);
  return device;
}

VulkanDevice::~VulkanDevice() {
  if (scheduler_) scheduler_->Stop();
}

hal::DeviceState VulkanDevice::ReadState() const {
  hal::DeviceState state = ReadVulkanState(*handle_->physical);
  if (TellsFaults(*handle_)) {
    const std::string fault = scheduler_->fault();
    state.faults = {fault.empty() ? "none" : fault, hal::Source::kApi};
  }
  return state;
}

int64_t VulkanDevice::buffer_alignment() const { return VulkanBuffer::kAlignment; }
Status VulkanDevice::health() const { return scheduler_->health(); }

bool VulkanDevice::ChargeMemory(int64_t bytes) {
  int64_t live = live_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > memory_limit_bytes_ - live) return false;
  } while (!live_bytes_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < live + bytes &&
         !peak_bytes_.compare_exchange_weak(peak, live + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

Status VulkanDevice::DoesNotFit(int64_t size_bytes, MemoryUse use, std::string_view reason) const {
  int64_t left = memory_->BytesLeft(use);
  auto total = static_cast<int64_t>(memory_->heap_bytes(use));
  if (memory_limit_bytes_ != INT64_MAX) {
    total = memory_limit_bytes_;
    int64_t mine = memory_limit_bytes_ - live_bytes_.load(std::memory_order_relaxed);
    left = std::min(left, std::max<int64_t>(mine, 0));
  }
  return OutOfMemory("A buffer of {} bytes does not fit '{}': {} of {} bytes are left.{}{}",
                     size_bytes, path_, left, total, reason.empty() ? "" : " ", reason);
}

Result<Ref<hal::Buffer>> VulkanDevice::AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) {
  if (size_bytes < 0) return InvalidArgument("A buffer of {} bytes was asked for.", size_bytes);
  HY_TRY(health());
  MemoryUse use = UseOf(kind);
  if (!ChargeMemory(size_bytes)) return DoesNotFit(size_bytes, use, "");
  auto allocate = [&]() -> Result<Allocation> { return memory_->Allocate(use, size_bytes); };
  Result<Allocation> allocation = CatchAll(allocate);
  if (!allocation.ok()) {
    ReturnMemory(size_bytes);
    if (allocation.status().code() != StatusCode::kOutOfMemory) return allocation.status();
    return DoesNotFit(size_bytes, use, allocation.status().message());
  }
  return CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    return Ref<hal::Buffer>(MakeRef<VulkanBuffer>(Ref<VulkanDevice>::Share(this), kind, *allocation,
                                                  0, size_bytes, size_bytes, nullptr));
  });
}

Result<Ref<hal::Buffer>> VulkanDevice::ImportHostMemory(hal::HostMemory memory) {
  if (memory.size_bytes < 0 || (!memory.address && memory.size_bytes > 0)) {
    return InvalidArgument("Host memory of {} bytes at {} cannot become a buffer.",
                           memory.size_bytes, memory.address);
  }
  HY_TRY(health());
  // Over a bus every access of a kernel would be many times slower than in the device's memory.
  const uint64_t page = handle_->physical->import_alignment;
  if (!handle_->physical->is_unified() || page == 0) {
    return Incompatible("'{}' cannot address host memory in place.", path_);
  }
  auto address = reinterpret_cast<uintptr_t>(memory.address);
  if (address % VulkanBuffer::kAlignment != 0) {
    return Incompatible("Host memory at {} is not aligned to {} bytes.", memory.address,
                        VulkanBuffer::kAlignment);
  }
  if (memory.size_bytes == 0) return Incompatible("'{}' cannot address no memory in place.", path_);
  // The pages around it are the process's own as well.
  uint64_t begin = address / page * page;
  uint64_t end = (address + static_cast<uint64_t>(memory.size_bytes) + page - 1) / page * page;
  return CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    HY_ASSIGN(Allocation allocation, memory_->Import(reinterpret_cast<void*>(begin), end - begin));
    return Ref<hal::Buffer>(MakeRef<VulkanBuffer>(
        Ref<VulkanDevice>::Share(this), hal::MemoryKind::kHostVisible, allocation,
        static_cast<int64_t>(address - begin), memory.size_bytes, 0, std::move(memory.release)));
  });
}

hal::MemoryStatistics VulkanDevice::memory_statistics() const {
  return {live_bytes_.load(std::memory_order_relaxed), peak_bytes_.load(std::memory_order_relaxed),
          memory_limit_bytes_};
}

Result<Ref<hal::Semaphore>> VulkanDevice::CreateSemaphore(uint64_t initial_value) {
  return Ref<hal::Semaphore>(MakeRef<VulkanSemaphore>(scheduler_->id(), initial_value));
}

Result<Ref<hal::Executable>> VulkanDevice::LoadExecutable(const hal::ExecutableSource& source) {
  HY_TRY(health());
  return CatchAll([&]() -> Result<Ref<hal::Executable>> {
    HY_ASSIGN(Ref<VulkanExecutable> executable,
              VulkanExecutable::Load(Ref<VulkanDevice>::Share(this), source));
    return Ref<hal::Executable>(std::move(executable));
  });
}

Result<std::vector<uint8_t>> VulkanDevice::EmptyKernel() const {
  const std::vector<uint32_t> words = SpirvBuilder("empty", 1, 2).Finish();
  GpuKernel kernel;
  kernel.name = "empty";
  kernel.module = {reinterpret_cast<const uint8_t*>(words.data()), 4 * words.size()};
  GpuImage image;
  image.kernels.push_back(kernel);
  return WriteGpuImage(image);
}

Result<Ref<hal::CommandBuffer>> VulkanDevice::CreateCommandBuffer() {
  HY_TRY(health());
  HY_ASSIGN(Ref<VulkanCommandBuffer> commands,
            VulkanCommandBuffer::Make(Ref<VulkanDevice>::Share(this)));
  return Ref<hal::CommandBuffer>(std::move(commands));
}

void VulkanDevice::ReleasePayload(Work* work) {
  if (work->instance) work->commands->ReturnInstance(work->instance);
  work->instance = nullptr;
  work->commands.reset();
  work->time.reset();
  work->buffers.clear();
  if (work->staging.size_bytes > kKeptStagingBytes) {
    memory_->Free(work->staging);
    work->staging = {};
  }
  if (work->call.release) work->call.release(work->call.context);
  work->call = {};
}

template <typename FillIn>
Status VulkanDevice::Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in) {
  HY_TRY(hal::CheckQueue(queue, queue_count()));
  HY_TRY(hal::CheckOrdering(ordering));
  HY_TRY(health());
  return CatchAll([&]() -> Status {
    // Goes back to the free list if anything below fails.
    auto give_back = [this](Work* work) { scheduler_->Recycle(work); };
    Work* acquired = scheduler_->Acquire();
    acquired->device = Ref<VulkanDevice>::Share(this);
    std::unique_ptr<Work, decltype(give_back)> work(acquired, give_back);
    work->lane = queue;
    work->caller_waits = ordering.caller_waits;
    work->waits.resize(ordering.waits.size());
    for (size_t i = 0; i < ordering.waits.size(); ++i) {
      work->waits[i].semaphore = Ref<hal::Semaphore>::Share(ordering.waits[i].semaphore);
      work->waits[i].value = ordering.waits[i].value;
    }
    for (const hal::SemaphorePoint& point : ordering.signals) {
      work->signals.push_back({Ref<hal::Semaphore>::Share(point.semaphore), point.value});
    }
    HY_TRY(fill_in(*work));
    scheduler_->Enqueue(work.release());
    return OkStatus();
  });
}

Status VulkanDevice::Submit(uint32_t queue, const hal::SubmitInfo& info) {
  if (!info.commands) return Queue(queue, info.ordering, [](Work&) { return OkStatus(); });
  if (info.commands->device() != this) {
    return InvalidArgument("The command buffer belongs to another device.");
  }
  auto* commands = static_cast<VulkanCommandBuffer*>(info.commands);
  if (!commands->is_finished()) return FailedPrecondition("The command buffer is not finished.");
  HY_TRY(hal::CheckBindings(info.bindings, commands->slot_needs(), this, buffer_alignment()));
  return Queue(queue, info.ordering, [&](Work& work) -> Status {
    work.kind = WorkKind::kCommands;
    work.commands = Ref<VulkanCommandBuffer>::Share(commands);
    for (size_t i = 0; i < commands->slot_needs().size(); ++i) {
      work.buffers.push_back(Ref<hal::Buffer>::Share(info.bindings[i].buffer));
    }
    HY_ASSIGN(work.instance, commands->TakeInstance(info.bindings));
    if (info.time && Timer::IsPossible(*handle_)) {
      if (!work.timer) {
        HY_ASSIGN(work.timer, Timer::Make(*handle_));
      }
      work.time = Ref<hal::CommandTime>::Share(info.time);
    }
    return OkStatus();
  });
}

Status VulkanDevice::BeginOwn(Work& work, bool is_transfer) {
  work.kind = WorkKind::kOwn;
  work.is_transfer = is_transfer && handle_->transfer_family != handle_->compute_family;
  Work::OwnCommands& own = work.own[work.is_transfer];
  const DeviceFunctions& vk = handle_->vk;
  if (own.commands == VK_NULL_HANDLE) {
    auto pool = Typed<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool.queueFamilyIndex = work.is_transfer ? handle_->transfer_family : handle_->compute_family;
    if (own.pool == VK_NULL_HANDLE) {
      HY_TRY(StatusFromVk(vk.vkCreateCommandPool(handle_->device, &pool, nullptr, &own.pool),
                          "vkCreateCommandPool"));
    }
    auto info = Typed<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = own.pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    HY_TRY(StatusFromVk(vk.vkAllocateCommandBuffers(handle_->device, &info, &own.commands),
                        "vkAllocateCommandBuffers"));
  } else {
    HY_TRY(StatusFromVk(vk.vkResetCommandPool(handle_->device, own.pool, 0), "vkResetCommandPool"));
  }
  auto begin = Typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  HY_TRY(StatusFromVk(vk.vkBeginCommandBuffer(own.commands, &begin), "vkBeginCommandBuffer"));
  RecordStart(*handle_, own.commands);
  return OkStatus();
}

Status VulkanDevice::EndOwn(Work& work) {
  RecordEnd(*handle_, work.native());
  return StatusFromVk(handle_->vk.vkEndCommandBuffer(work.native()), "vkEndCommandBuffer");
}

void VulkanDevice::RecordKernel(Work& work, VkPipeline pipeline, int64_t size_bytes,
                                std::span<const uint64_t> arguments) {
  if (size_bytes == 0) return;
  CopyGrid grid = GridForBytes(size_bytes);
  const DeviceFunctions& vk = handle_->vk;
  vk.vkCmdBindPipeline(work.native(), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdPushConstants(work.native(), kernels_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        static_cast<uint32_t>(arguments.size_bytes()), arguments.data());
  vk.vkCmdDispatch(work.native(), grid.x, grid.y, 1);
}

Status VulkanDevice::QueueCopy(uint32_t queue, const hal::Ordering& ordering,
                               const hal::BufferRange& source, const hal::BufferRange& target) {
  HY_TRY(hal::CheckQueueCopy(source, target,
                             [this](const hal::Device* device) { return device == this; }));
  return Queue(queue, ordering, [&](Work& work) -> Status {
    auto* from = static_cast<VulkanBuffer*>(source.buffer);
    auto* to = static_cast<VulkanBuffer*>(target.buffer);
    work.buffers.push_back(Ref<hal::Buffer>::Share(from));
    work.buffers.push_back(Ref<hal::Buffer>::Share(to));
    bool is_inside =
        from->kind() == hal::MemoryKind::kDevice && to->kind() == hal::MemoryKind::kDevice;
    HY_TRY(BeginOwn(work, !is_inside));
    if (is_inside) {
      const uint64_t arguments[] = {from->address() + static_cast<uint64_t>(source.offset),
                                    to->address() + static_cast<uint64_t>(target.offset),
                                    static_cast<uint64_t>(source.size_bytes)};
      RecordKernel(work, kernels_->copy(false), source.size_bytes, arguments);
    } else if (source.size_bytes > 0) {
      VkBufferCopy region = {from->buffer_offset() + static_cast<uint64_t>(source.offset),
                             to->buffer_offset() + static_cast<uint64_t>(target.offset),
                             static_cast<uint64_t>(source.size_bytes)};
      handle_->vk.vkCmdCopyBuffer(work.native(), from->buffer(), to->buffer(), 1, &region);
    }
    return EndOwn(work);
  });
}

Status VulkanDevice::QueueFill(uint32_t queue, const hal::Ordering& ordering,
                               const hal::BufferRange& target, uint64_t pattern,
                               uint32_t pattern_bytes) {
  HY_TRY(hal::CheckQueueFill(target, pattern_bytes, this));
  return Queue(queue, ordering, [&](Work& work) -> Status {
    auto* to = static_cast<VulkanBuffer*>(target.buffer);
    work.buffers.push_back(Ref<hal::Buffer>::Share(to));
    HY_TRY(BeginOwn(work, false));
    const uint64_t arguments[] = {to->address() + static_cast<uint64_t>(target.offset),
                                  static_cast<uint64_t>(target.size_bytes),
                                  RepeatPattern(pattern, pattern_bytes)};
    RecordKernel(work, kernels_->fill(false), target.size_bytes, arguments);
    return EndOwn(work);
  });
}

Status VulkanDevice::QueueUpdate(uint32_t queue, const hal::Ordering& ordering,
                                 std::span<const uint8_t> source, const hal::BufferRange& target) {
  HY_TRY(hal::CheckQueueFill(target, 1, this));
  if (static_cast<int64_t>(source.size()) != target.size_bytes) {
    return InvalidArgument("An update has {} bytes for a target of {}; they must be equal.",
                           source.size(), target.size_bytes);
  }
  return Queue(queue, ordering, [&](Work& work) -> Status {
    auto* to = static_cast<VulkanBuffer*>(target.buffer);
    work.buffers.push_back(Ref<hal::Buffer>::Share(to));
    bool is_small = target.size_bytes <= kKeptStagingBytes;
    if (work.staging.size_bytes < source.size() || work.staging.size_bytes == 0) {
      memory_->Free(work.staging);
      work.staging = {};
      Result<Allocation> staging =
          memory_->Allocate(coherent_use_, is_small ? kKeptStagingBytes : target.size_bytes);
      HY_TRY_CONTEXT(staging, "staging an update of {} bytes", target.size_bytes);
      work.staging = *staging;
    }
    HY_TRY(BeginOwn(work, !is_small));
    if (!source.empty()) {
      std::memcpy(work.staging.mapped(), source.data(), source.size());
      VkBufferCopy region = {work.staging.offset,
                             to->buffer_offset() + static_cast<uint64_t>(target.offset),
                             static_cast<uint64_t>(target.size_bytes)};
      handle_->vk.vkCmdCopyBuffer(work.native(), work.staging.buffer(), to->buffer(), 1, &region);
    }
    return EndOwn(work);
  });
}

Status VulkanDevice::QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                                   const hal::HostCall& call) {
  if (!call.function) return InvalidArgument("A host call names no function.");
  return Queue(queue, ordering, [&](Work& work) -> Status {
    work.kind = WorkKind::kHostCall;
    work.call = call;
    return OkStatus();
  });
}

Status VulkanDevice::Flush() {
  HY_TRY(health());
  scheduler_->Flush();
  return OkStatus();
}

Status VulkanDevice::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                          int64_t timeout_ns, size_t* out_index) {
  HY_TRY(hal::CheckOrdering({points, {}, false}));
  return CatchAll([&] { return scheduler_->Wait(points, mode, timeout_ns, out_index); });
}

Result<hal::LinkInfo> VulkanDevice::LinkTo(const hal::Device& other) const {
  hal::LinkInfo link;
  bool is_self = &other == this;
  link.kind = is_self ? hal::LinkKind::kSameMemory : hal::LinkKind::kHostStaged;
  link.can_access_peer = is_self;
  link.can_copy_direct = is_self;
  return link;
}

}  // namespace halyard::drivers::vulkan
