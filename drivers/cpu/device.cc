// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "drivers/cpu/buffer.h"
#include "drivers/cpu/capabilities.h"
#include "drivers/cpu/command_buffer.h"
#include "drivers/cpu/executable.h"
#include "drivers/cpu/executor.h"
#include "drivers/cpu/scheduler.h"
#include "drivers/cpu/work.h"
#include "hal/command_checks.h"
#include "hal/host_semaphore.h"

namespace halyard::drivers::cpu {
namespace {

// Splits big copies and fills over the threads; small ones stay on this one.
void ForChunks(int64_t size_bytes, Executor& executor, RangeBody body) {
  constexpr int64_t kChunkBytes = 1 << 20;
  int64_t chunks = size_bytes / kChunkBytes + (size_bytes % kChunkBytes != 0);
  auto run = [&](int64_t begin, int64_t end) {
    body(begin * kChunkBytes, std::min(end * kChunkBytes, size_bytes));
  };
  if (chunks <= 1 || executor.concurrency() == 1) return body(0, size_bytes);
  executor.ParallelFor(chunks, 1, MakeRangeBody(run));
}

// What it would have taken a device of the speed that the options say.
std::chrono::nanoseconds Slowed(std::chrono::nanoseconds taken, const CpuOptions& options) {
  return taken * 100 / options.speed_percent;
}

Status RunCommands(Work& work, Executor& executor) {
  const auto run = [&] {
    return work.commands->Run(work.slots, work.addresses, &work.error, executor);
  };
  if (!work.time) return run();
  const auto start = std::chrono::steady_clock::now();
  HY_TRY(run());
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
  work.time->Add(Slowed(taken, work.device->options()).count());
  return OkStatus();
}

Status ExecutePayload(Work& work, Executor& executor) {
  switch (work.kind) {
    case WorkKind::kNothing:
      return OkStatus();
    case WorkKind::kCommands:
      return RunCommands(work, executor);
    case WorkKind::kCopy: {
      const uint8_t* source = work.bound[0].address;
      uint8_t* target = work.bound[1].address;
      auto copy = [&](int64_t begin, int64_t end) {
        if (end > begin)
          std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
      };
      ForChunks(work.bound[0].size_bytes, executor, MakeRangeBody(copy));
      return OkStatus();
    }
    case WorkKind::kFill: {
      uint8_t* target = work.bound[0].address;
      auto fill = [&](int64_t begin, int64_t end) {
        FillBytes(target + begin, end - begin, work.pattern, work.pattern_bytes);
      };
      ForChunks(work.bound[0].size_bytes, executor, MakeRangeBody(fill));
      return OkStatus();
    }
    case WorkKind::kUpdate:
      if (!work.bytes.empty())
        std::memcpy(work.bound[0].address, work.bytes.data(), work.bytes.size());
      return OkStatus();
    case WorkKind::kHostCall:
      return work.call.function(work.call.context);
  }
  HY_UNREACHABLE("work of kind {}", static_cast<int>(work.kind));
}

// How long the bytes of a copy take over the link between device memory and staging memory.
std::chrono::nanoseconds LinkTime(const Work& work, const CpuOptions& options) {
  int64_t bytes = 0;
  if (work.kind == WorkKind::kCopy) {
    const bool crosses = (work.bound[0].buffer->kind() == hal::MemoryKind::kDevice) !=
                         (work.bound[1].buffer->kind() == hal::MemoryKind::kDevice);
    if (!crosses) return std::chrono::nanoseconds(0);
    bytes = work.bound[0].size_bytes;
  } else if (work.kind == WorkKind::kUpdate) {
    bytes = static_cast<int64_t>(work.bytes.size());
  } else {
    return std::chrono::nanoseconds(0);
  }
  double ns = 1e3 * static_cast<double>(options.link_latency_us);
  if (options.link_bytes_per_s > 0) {
    ns += 1e9 * static_cast<double>(bytes) / static_cast<double>(options.link_bytes_per_s);
  }
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(ns, 60e9)));
}

Status Execute(Work& work, Executor& executor) {
  const CpuOptions& options = work.device->options();
  if (!options.ends_late()) {
    return CatchAll([&] { return ExecutePayload(work, executor); });
  }
  HY_TRY(work.device->CountWork());
  const auto start = std::chrono::steady_clock::now();
  Status status = CatchAll([&] { return ExecutePayload(work, executor); });
  const auto taken = std::chrono::steady_clock::now() - start;
  work.done_at = start + LinkTime(work, options);
  if (work.kind == WorkKind::kCommands) work.done_at = start + Slowed(taken, options);
  return status;
}

Work::Bound Bind(const hal::BufferRange& range) {
  // A slot that the recording does not use may be empty.
  if (!range.buffer) return {};
  auto* buffer = static_cast<CpuBuffer*>(range.buffer);
  return {Ref<hal::Buffer>::Share(buffer), buffer->address() + range.offset, range.size_bytes};
}

}  // namespace

Result<Ref<CpuDevice>> CpuDevice::Open(const CpuOptions& options, uint32_t ordinal) {
  CpuId id = DetectCpu();
  uint64_t features = id.features & options.feature_mask;
  TopologySource source;
  source.numa = options.numa;
  HY_ASSIGN(CpuTopology topology, ReadTopology(source));
  int64_t workers = topology.WorkerCount(options.threads);

  int64_t limit = ReadSystemMemory().total_bytes;
  if (limit <= 0) limit = INT64_MAX;
  if (topology.memory_limit_bytes) limit = std::min(limit, *topology.memory_limit_bytes);
  if (options.memory_bytes > 0) limit = std::min(limit, options.memory_bytes);

  std::vector<int> pinned = options.numa >= 0 ? topology.allowed_cpus : std::vector<int>();
  HY_ASSIGN(std::unique_ptr<Executor> executor, MakeExecutor(static_cast<int>(workers), pinned));
  bool is_discrete = options.discrete != 0;
  SchedulerOptions scheduling;
  scheduling.lanes = static_cast<uint32_t>(options.queues);
  scheduling.max_background_threads = static_cast<int>(std::min(workers, options.queues));
  scheduling.may_end_late = options.ends_late();
  if (is_discrete) {
    scheduling.max_running = 1;
    scheduling.delay_seed = static_cast<uint64_t>(options.discrete);
  }
  return CatchAll([&]() -> Result<Ref<CpuDevice>> {
    auto scheduler = std::make_shared<Scheduler>(scheduling, std::move(executor), &Execute);
    return MakeRef<CpuDevice>(options, ordinal, features,
                              DescribeCpu({id, features, topology, workers, limit, options}), limit,
                              std::move(scheduler));
  });
}

CpuDevice::CpuDevice(const CpuOptions& options, uint32_t ordinal, uint64_t features,
                     hal::Capabilities capabilities, int64_t memory_limit_bytes,
                     std::shared_ptr<Scheduler> scheduler)
    : options_(options),
      features_(features),
      capabilities_(std::move(capabilities)),
      path_(fmt::format("cpu:{}", ordinal)),
      memory_limit_bytes_(memory_limit_bytes),
      scheduler_(std::move(scheduler)) {}

CpuDevice::~CpuDevice() { scheduler_->Stop(); }

hal::DeviceState CpuDevice::ReadState() const { return ReadCpuState(); }

int64_t CpuDevice::buffer_alignment() const { return CpuBuffer::kAlignment; }

Status CpuDevice::health() const {
  const int64_t lose_at = options_.lose_at;
  if (lose_at == 0 || work_count_.load(std::memory_order_acquire) < lose_at) return OkStatus();
  return DeviceLost("Device '{}' was lost at work {}, as its option 'lose_at' asks.", path_,
                    lose_at);
}

Status CpuDevice::CountWork() {
  work_count_.fetch_add(1, std::memory_order_acq_rel);
  return health();
}

bool CpuDevice::ChargeMemory(hal::MemoryKind kind, int64_t bytes) {
  if (IsLimited(kind)) {
    int64_t limited = limited_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > memory_limit_bytes_ - limited) return false;
    } while (
        !limited_bytes_.compare_exchange_weak(limited, limited + bytes, std::memory_order_relaxed));
  }
  const int64_t live = live_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < live + bytes &&
         !peak_bytes_.compare_exchange_weak(peak, live + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void CpuDevice::ReturnMemory(hal::MemoryKind kind, int64_t bytes) {
  live_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (IsLimited(kind)) limited_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

Result<Ref<hal::Buffer>> CpuDevice::AllocateBuffer(hal::MemoryKind kind, int64_t size_bytes) {
  if (size_bytes < 0) return InvalidArgument("A buffer of {} bytes was asked for.", size_bytes);
  HY_TRY(health());
  if (!ChargeMemory(kind, size_bytes)) {
    int64_t left = memory_limit_bytes_ - limited_bytes_.load(std::memory_order_relaxed);
    return OutOfMemory("A buffer of {} bytes does not fit '{}': {} of {} bytes are left.",
                       size_bytes, path_, std::max<int64_t>(left, 0), memory_limit_bytes_);
  }
  uint8_t* address = CpuBuffer::AllocateMemory(size_bytes);
  if (!address) {
    ReturnMemory(kind, size_bytes);
    return OutOfMemory("The host could not give {} bytes for a buffer.", size_bytes);
  }
  // The test mode shows who reads device memory that nobody wrote.
  constexpr int kPoison = 0xcb;
  if (has_own_memory()) std::memset(address, kPoison, static_cast<size_t>(size_bytes));
  bool is_mappable = !has_own_memory() || kind != hal::MemoryKind::kDevice;
  auto buffer = CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    return Ref<hal::Buffer>(MakeRef<CpuBuffer>(Ref<CpuDevice>::Share(this), kind, address,
                                               size_bytes, is_mappable, size_bytes,
                                               [address] { std::free(address); }));
  });
  if (!buffer.ok()) {  // nobody owns the memory yet
    std::free(address);
    ReturnMemory(kind, size_bytes);
  }
  return buffer;
}

Result<Ref<hal::Buffer>> CpuDevice::ImportHostMemory(hal::HostMemory memory) {
  if (memory.size_bytes < 0 || (!memory.address && memory.size_bytes > 0)) {
    return InvalidArgument("Host memory of {} bytes at {} cannot become a buffer.",
                           memory.size_bytes, memory.address);
  }
  HY_TRY(health());
  if (has_own_memory()) return Incompatible("'{}' cannot address host memory in place.", path_);
  auto address = reinterpret_cast<uintptr_t>(memory.address);
  if (address % CpuBuffer::kAlignment != 0) {
    return Incompatible("Host memory at {} is not aligned to {} bytes.", memory.address,
                        CpuBuffer::kAlignment);
  }
  return CatchAll([&]() -> Result<Ref<hal::Buffer>> {
    return Ref<hal::Buffer>(
        MakeRef<CpuBuffer>(Ref<CpuDevice>::Share(this), hal::MemoryKind::kHostVisible,
                           static_cast<uint8_t*>(memory.address), memory.size_bytes, true, 0,
                           std::move(memory.release)));
  });
}

hal::MemoryStatistics CpuDevice::memory_statistics() const {
  return {live_bytes_.load(std::memory_order_relaxed), peak_bytes_.load(std::memory_order_relaxed),
          memory_limit_bytes_};
}

Result<Ref<hal::Semaphore>> CpuDevice::CreateSemaphore(uint64_t initial_value) {
  HY_TRY(health());
  return Ref<hal::Semaphore>(MakeRef<hal::HostSemaphore>(initial_value));
}

Result<Ref<hal::Executable>> CpuDevice::LoadExecutable(const hal::ExecutableSource& source) {
  HY_TRY(health());
  return CatchAll([&]() -> Result<Ref<hal::Executable>> {
    HY_ASSIGN(Ref<CpuExecutable> executable,
              CpuExecutable::Load(Ref<CpuDevice>::Share(this), source, features_));
    return Ref<hal::Executable>(std::move(executable));
  });
}

Result<Ref<hal::CommandBuffer>> CpuDevice::CreateCommandBuffer() {
  HY_TRY(health());
  return Ref<hal::CommandBuffer>(MakeRef<CpuCommandBuffer>(Ref<CpuDevice>::Share(this)));
}

template <typename FillIn>
Status CpuDevice::Queue(uint32_t queue, const hal::Ordering& ordering, FillIn fill_in) {
  HY_TRY(hal::CheckQueue(queue, queue_count()));
  HY_TRY(hal::CheckOrdering(ordering));
  HY_TRY(health());
  return CatchAll([&]() -> Status {
    // Goes back to the free list if anything below throws.
    auto give_back = [this](Work* work) { scheduler_->Recycle(work); };
    std::unique_ptr<Work, decltype(give_back)> work(scheduler_->Acquire(), give_back);
    work->lane = queue;
    work->caller_waits = ordering.caller_waits;
    work->device = Ref<CpuDevice>::Share(this);
    work->waits.resize(ordering.waits.size());
    for (size_t i = 0; i < ordering.waits.size(); ++i) {
      work->waits[i].semaphore = Ref<hal::Semaphore>::Share(ordering.waits[i].semaphore);
      work->waits[i].value = ordering.waits[i].value;
    }
    for (const hal::SemaphorePoint& point : ordering.signals) {
      work->signals.push_back({Ref<hal::Semaphore>::Share(point.semaphore), point.value});
    }
    fill_in(*work);
    scheduler_->Enqueue(work.release());
    return OkStatus();
  });
}

Status CpuDevice::Submit(uint32_t queue, const hal::SubmitInfo& info) {
  if (!info.commands) return Queue(queue, info.ordering, [](Work&) {});
  if (info.commands->device() != this) {
    return InvalidArgument("The command buffer belongs to another device.");
  }
  auto* commands = static_cast<CpuCommandBuffer*>(info.commands);
  if (!commands->is_finished()) return FailedPrecondition("The command buffer is not finished.");
  HY_TRY(hal::CheckBindings(info.bindings, commands->slot_needs(), this, buffer_alignment()));
  return Queue(queue, info.ordering, [&](Work& work) {
    work.kind = WorkKind::kCommands;
    work.commands = Ref<CpuCommandBuffer>::Share(commands);
    for (size_t i = 0; i < commands->slot_needs().size(); ++i) {
      work.bound.push_back(Bind(info.bindings[i]));
      work.slots.push_back(work.bound.back().address);
    }
    work.addresses.resize(commands->range_count());
    work.time = Ref<hal::CommandTime>::Share(info.time);
  });
}

Status CpuDevice::QueueCopy(uint32_t queue, const hal::Ordering& ordering,
                            const hal::BufferRange& source, const hal::BufferRange& target) {
  auto can_reach = [this](const hal::Device* device) { return CanReach(*device); };
  HY_TRY(hal::CheckQueueCopy(source, target, can_reach));
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kCopy;
    work.bound.push_back(Bind(source));
    work.bound.push_back(Bind(target));
  });
}

Status CpuDevice::QueueFill(uint32_t queue, const hal::Ordering& ordering,
                            const hal::BufferRange& target, uint64_t pattern,
                            uint32_t pattern_bytes) {
  HY_TRY(hal::CheckQueueFill(target, pattern_bytes, this));
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kFill;
    work.bound.push_back(Bind(target));
    work.pattern = pattern;
    work.pattern_bytes = pattern_bytes;
  });
}

Status CpuDevice::QueueUpdate(uint32_t queue, const hal::Ordering& ordering,
                              std::span<const uint8_t> source, const hal::BufferRange& target) {
  HY_TRY(hal::CheckQueueFill(target, 1, this));
  if (static_cast<int64_t>(source.size()) != target.size_bytes) {
    return InvalidArgument("An update has {} bytes for a target of {}; they must be equal.",
                           source.size(), target.size_bytes);
  }
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kUpdate;
    work.bound.push_back(Bind(target));
    work.bytes.assign(source.begin(), source.end());
  });
}

Status CpuDevice::QueueHostCall(uint32_t queue, const hal::Ordering& ordering,
                                const hal::HostCall& call) {
  if (!call.function) return InvalidArgument("A host call names no function.");
  return Queue(queue, ordering, [&](Work& work) {
    work.kind = WorkKind::kHostCall;
    work.call = call;
  });
}

Status CpuDevice::Flush() {
  scheduler_->Flush();
  return OkStatus();
}

Status CpuDevice::Wait(std::span<const hal::SemaphorePoint> points, hal::WaitMode mode,
                       int64_t timeout_ns, size_t* out_index) {
  HY_TRY(hal::CheckOrdering({points, {}, false}));
  return CatchAll([&] { return scheduler_->Wait(points, mode, timeout_ns, out_index); });
}

Result<hal::LinkInfo> CpuDevice::LinkTo(const hal::Device& other) const {
  hal::LinkInfo link;
  const bool can_reach = CanReach(other);
  link.kind = can_reach ? hal::LinkKind::kSameMemory : hal::LinkKind::kHostStaged;
  link.can_access_peer = &other == this;
  link.can_copy_direct = can_reach;
  return link;
}

bool CpuDevice::CanReach(const hal::Device& other) const {
  if (&other == this) return true;
  const auto* cpu = dynamic_cast<const CpuDevice*>(&other);
  return cpu != nullptr && options_.synthetic == 0 && cpu->options_.synthetic == 0;
}

}  // namespace halyard::drivers::cpu
