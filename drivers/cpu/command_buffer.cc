// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/command_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "drivers/cpu/device.h"
#include "hal/kernel_error.h"

namespace halyard::drivers::cpu {
namespace {

// Workgroup memory of one thread, kept between calls so that replays allocate nothing.
struct WorkgroupMemory {
  void* address = nullptr;
  size_t size_bytes = 0;
  ~WorkgroupMemory() { std::free(address); }

  // Null when the host is out of memory.
  void* Get(size_t bytes) {
    if (bytes <= size_bytes) return address;
    std::free(address);
    size_bytes = 0;
    if (posix_memalign(&address, CpuBuffer::kAlignment, bytes) != 0) {
      address = nullptr;
      return nullptr;
    }
    size_bytes = bytes;
    return address;
  }
};
thread_local WorkgroupMemory t_workgroup_memory;

template <typename T>
void FillWith(uint8_t* target, int64_t size_bytes, uint64_t pattern) {
  T value = static_cast<T>(pattern);
  T* first = reinterpret_cast<T*>(target);
  std::fill(first, first + size_bytes / static_cast<int64_t>(sizeof(T)), value);
}

}  // namespace

void FillBytes(uint8_t* target, int64_t size_bytes, uint64_t pattern, uint32_t pattern_bytes) {
  switch (pattern_bytes) {
    case 1:
      return FillWith<uint8_t>(target, size_bytes, pattern);
    case 2:
      return FillWith<uint16_t>(target, size_bytes, pattern);
    case 4:
      return FillWith<uint32_t>(target, size_bytes, pattern);
    case 8:
      return FillWith<uint64_t>(target, size_bytes, pattern);
    default:
      HY_UNREACHABLE("a fill pattern of {} bytes", pattern_bytes);
  }
}

// One run of a recording.
struct CpuCommandBuffer::Running final : StagedWork {
  Running(const CpuCommandBuffer& recording, std::span<void* const> addresses, ErrorRecord* error)
      : recording(recording), addresses(addresses), error(error) {}

  size_t stage_count() const override { return recording.stages_.size(); }
  int64_t unit_count(size_t stage) const override { return recording.stages_[stage].unit_count; }
  void Run(size_t stage, int64_t begin, int64_t end) override {
    if (!recording.RunUnits(*this, recording.stages_[stage], begin, end))
      is_out_of_memory.store(true, std::memory_order_relaxed);
  }
  bool is_failed() const override {
    return is_out_of_memory.load(std::memory_order_relaxed) || error->state != 0;
  }

  const CpuCommandBuffer& recording;
  std::span<void* const> addresses;
  ErrorRecord* error;
  std::atomic<bool> is_out_of_memory{false};
};

CpuCommandBuffer::CpuCommandBuffer(Ref<CpuDevice> device)
    : device_(std::move(device)),
      chunk_bytes_(device_->is_discrete() ? 64 : 256 << 10),
      is_one_element_(device_->is_discrete()) {
  stages_.emplace_back();
}

CpuCommandBuffer::~CpuCommandBuffer() = default;

hal::Device* CpuCommandBuffer::device() const { return device_.get(); }

Status CpuCommandBuffer::CheckRecording() const {
  if (is_finished())
    return FailedPrecondition("The command buffer is finished; nothing can be added.");
  return OkStatus();
}

Status CpuCommandBuffer::AddTask(Task task) {
  Stage& stage = stages_.back();
  task.first_unit = stage.unit_count;
  if (__builtin_add_overflow(stage.unit_count, task.unit_count, &stage.unit_count)) {
    stage.unit_count = task.first_unit;
    return OutOfRange("The commands between two barriers have more than {} workgroups.", INT64_MAX);
  }
  ++stage.task_count;
  tasks_.push_back(task);
  return OkStatus();
}

void CpuCommandBuffer::AddRange(const hal::CommandRange& range, bool is_dispatched) {
  hal::AddSlotNeed(range, is_dispatched, &slot_needs_);
  Range added;
  added.slot = range.slot;
  added.offset = range.offset;
  if (range.buffer) {
    added.address = static_cast<CpuBuffer*>(range.buffer)->address() + range.offset;
    buffers_.push_back(Ref<hal::Buffer>::Share(range.buffer));
  }
  ranges_.push_back(added);
}

Status CpuCommandBuffer::Dispatch(const hal::DispatchCommand& command) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckDispatch(command, device_.get(), device_->buffer_alignment()));
  HY_ASSIGN(int64_t workgroups, hal::CountWorkgroups(command.grid));
  const auto* executable = static_cast<const CpuExecutable*>(command.executable);
  const CpuExecutable::Kernel& kernel = executable->kernel(command.entry);
  Task task;
  task.kind = TaskKind::kDispatch;
  task.first_range = static_cast<uint32_t>(ranges_.size());
  task.unit_count = workgroups;
  task.function = kernel.function;
  task.first_scalar = scalars_.size();
  std::copy(std::begin(command.grid), std::end(command.grid), task.grid);
  task.dispatch = dispatch_count();
  task.workgroup_memory_bytes = kernel.workgroup_memory_bytes;
  HY_TRY(AddTask(task));
  for (const hal::CommandRange& range : command.bindings) AddRange(range, true);
  scalars_.insert(scalars_.end(), command.scalars.begin(), command.scalars.end());
  executables_.push_back(Ref<hal::Executable>::Share(command.executable));
  dispatches_.push_back({std::string(command.label), executable, command.entry});
  return OkStatus();
}

Status CpuCommandBuffer::Copy(const hal::CommandRange& source, const hal::CommandRange& target) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckCopy(source, target, device_.get()));
  Task task;
  task.kind = TaskKind::kCopy;
  task.first_range = static_cast<uint32_t>(ranges_.size());
  task.size_bytes = source.size_bytes;
  task.unit_count = source.size_bytes / chunk_bytes_ + (source.size_bytes % chunk_bytes_ != 0);
  HY_TRY(AddTask(task));
  AddRange(source, false);
  AddRange(target, false);
  return OkStatus();
}

Status CpuCommandBuffer::Fill(const hal::CommandRange& target, uint64_t pattern,
                              uint32_t pattern_bytes) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckFill(target, pattern_bytes, device_.get()));
  Task task;
  task.kind = TaskKind::kFill;
  task.first_range = static_cast<uint32_t>(ranges_.size());
  task.size_bytes = target.size_bytes;
  task.pattern = pattern;
  task.pattern_bytes = pattern_bytes;
  task.unit_count = target.size_bytes / chunk_bytes_ + (target.size_bytes % chunk_bytes_ != 0);
  HY_TRY(AddTask(task));
  AddRange(target, false);
  return OkStatus();
}

Status CpuCommandBuffer::Barrier() {
  HY_TRY(CheckRecording());
  if (stages_.back().task_count == 0) return OkStatus();
  Stage stage;
  stage.first_task = tasks_.size();
  stages_.push_back(stage);
  return OkStatus();
}

Status CpuCommandBuffer::Finish() {
  HY_TRY(CheckRecording());
  if (stages_.size() >= Team::kMostStages) {
    return OutOfRange("A recording has {} stages; the limit is {}.", stages_.size(),
                      Team::kMostStages - 1);
  }
  for (const Stage& stage : stages_) {
    if (stage.unit_count > Team::kMostUnits) {
      return OutOfRange("A stage has {} workgroups; the limit is {}.", stage.unit_count,
                        Team::kMostUnits);
    }
  }
  is_finished_.store(true, std::memory_order_release);
  return OkStatus();
}

Status CpuCommandBuffer::Run(std::span<uint8_t* const> slots, std::span<void*> addresses,
                             ErrorRecord* error, Executor& executor) const {
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    addresses[i] = range.address ? range.address : slots[range.slot] + range.offset;
  }
  Running running(*this, addresses, error);
  RunStaged(running, executor, device_->spin_us(), is_one_element_, length_);
  if (running.is_out_of_memory.load(std::memory_order_relaxed)) {
    return OutOfMemory("A CPU thread could not get its workgroup memory.");
  }
  return error->state != 0 ? FailureOf(*error) : OkStatus();
}

Status CpuCommandBuffer::FailureOf(const ErrorRecord& error) const {
  if (error.dispatch >= dispatches_.size()) {
    return Internal("A kernel reported a failure of dispatch {} of {}.", error.dispatch,
                    dispatches_.size());
  }
  const DispatchInfo& info = dispatches_[error.dispatch];
  return hal::StatusFromErrorRecord(error, info.label, info.executable->entries()[info.entry]);
}

bool CpuCommandBuffer::RunUnits(const Running& running, const Stage& stage, int64_t begin,
                                int64_t end) const {
  auto first = tasks_.begin() + static_cast<ptrdiff_t>(stage.first_task);
  auto last = first + static_cast<ptrdiff_t>(stage.task_count);
  // The last task that starts at or before `begin`; tasks without units share a start with their
  // successor.
  auto task = std::upper_bound(first, last, begin,
                               [](int64_t unit, const Task& t) { return unit < t.first_unit; }) -
              1;
  for (; begin < end; ++task) {
    int64_t from = begin - task->first_unit;
    int64_t to = std::min(end - task->first_unit, task->unit_count);
    switch (task->kind) {
      case TaskKind::kDispatch:
        if (!RunWorkgroups(running, *task, from, to)) return false;
        break;
      case TaskKind::kCopy:
        RunCopy(running, *task, from, to);
        break;
      case TaskKind::kFill:
        RunFill(running, *task, from, to);
        break;
    }
    begin = task->first_unit + to;
  }
  return true;
}

bool CpuCommandBuffer::RunWorkgroups(const Running& running, const Task& task, int64_t begin,
                                     int64_t end) const {
  if (begin >= end) return true;
  CpuDispatchArgs args = {};
  args.bindings = running.addresses.data() + task.first_range;
  args.scalars = scalars_.data() + task.first_scalar;
  args.error = running.error;
  args.dispatch_index = task.dispatch;
  if (task.workgroup_memory_bytes > 0) {
    args.workgroup_memory = t_workgroup_memory.Get(task.workgroup_memory_bytes);
    if (!args.workgroup_memory) return false;
  }
  int64_t x = begin % task.grid[0];
  int64_t y = begin / task.grid[0] % task.grid[1];
  int64_t z = begin / task.grid[0] / task.grid[1];
  for (int64_t i = begin; i < end; ++i) {
    task.function(&args, x, y, z);
    if (++x < task.grid[0]) continue;
    x = 0;
    if (++y < task.grid[1]) continue;
    y = 0;
    ++z;
  }
  return true;
}

void CpuCommandBuffer::RunCopy(const Running& running, const Task& task, int64_t begin,
                               int64_t end) const {
  const auto* source = static_cast<const uint8_t*>(running.addresses[task.first_range]);
  auto* target = static_cast<uint8_t*>(running.addresses[task.first_range + 1]);
  int64_t offset = begin * chunk_bytes_;
  int64_t size_bytes = std::min(end * chunk_bytes_, task.size_bytes) - offset;
  // Slots may turn out to name one buffer; memmove keeps even that defined.
  if (size_bytes > 0)
    std::memmove(target + offset, source + offset, static_cast<size_t>(size_bytes));
}

void CpuCommandBuffer::RunFill(const Running& running, const Task& task, int64_t begin,
                               int64_t end) const {
  auto* target = static_cast<uint8_t*>(running.addresses[task.first_range]);
  int64_t offset = begin * chunk_bytes_;
  int64_t size_bytes = std::min(end * chunk_bytes_, task.size_bytes) - offset;
  if (size_bytes > 0) FillBytes(target + offset, size_bytes, task.pattern, task.pattern_bytes);
}

}  // namespace halyard::drivers::cpu
