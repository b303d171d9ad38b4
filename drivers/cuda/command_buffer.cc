// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/command_buffer.h"

#include <algorithm>

#include "drivers/cuda/device.h"
#include "drivers/cuda/replay.h"
#include "drivers/cuda/transfer.h"
#include "hal/kernel_error.h"

namespace halyard::drivers::cuda {
namespace {

// A graph that runs is not started a second time at once, so each submission in flight needs one of
// its own. More than these wait for one to end, behind work that keeps the device busy.
constexpr size_t kMostGraphs = 4;
// CUDA's limits on widths and pitches of copies stand near 2 GiB.
constexpr int64_t kChunkBytes = int64_t{1} << 30;

}  // namespace

CudaCommandBuffer::CudaCommandBuffer(Ref<CudaDevice> device) : device_(std::move(device)) {}

CudaCommandBuffer::~CudaCommandBuffer() = default;

hal::Device* CudaCommandBuffer::device() const { return device_.get(); }

Status CudaCommandBuffer::CheckRecording() const {
  if (is_finished())
    return FailedPrecondition("The command buffer is finished; nothing can be added.");
  return OkStatus();
}

void CudaCommandBuffer::AddRange(const hal::CommandRange& range, int64_t extra_offset,
                                 Command* command) {
  Range added;
  added.slot = range.slot;
  added.offset = range.offset + extra_offset;
  if (range.buffer) {
    auto* buffer = static_cast<CudaBuffer*>(range.buffer);
    added.address = buffer->address() + static_cast<CUdeviceptr>(added.offset);
    buffers_.push_back(Ref<hal::Buffer>::Share(buffer));
  }
  if (command->range_count++ == 0) command->first_range = static_cast<uint32_t>(ranges_.size());
  ranges_.push_back(added);
}

Status CudaCommandBuffer::Dispatch(const hal::DispatchCommand& command) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckDispatch(command, device_.get(), device_->buffer_alignment()));
  HY_ASSIGN(int64_t workgroups, hal::CountWorkgroups(command.grid));
  const hal::Compute& limits = device_->capabilities().compute;
  const int64_t most[3] = {limits.max_grid_x.ValueOr(INT32_MAX), limits.max_grid_y.ValueOr(65535),
                           limits.max_grid_z.ValueOr(65535)};
  for (int axis = 0; workgroups > 0 && axis < 3; ++axis) {
    if (command.grid[axis] > most[axis]) {
      return OutOfRange("Dispatch '{}' has a grid of {} x {} x {}; the device allows {} x {} x {}.",
                        command.label, command.grid[0], command.grid[1], command.grid[2], most[0],
                        most[1], most[2]);
    }
  }
  const auto* executable = static_cast<const CudaExecutable*>(command.executable);
  Command added;
  added.stage = stage_;
  added.kernel = &executable->kernel(command.entry);
  if (added.kernel->library_call) added.kind = Kind::kLibraryCall;
  added.dispatch = dispatch_count();
  added.first_scalar = scalars_.size();
  added.scalar_count = static_cast<uint32_t>(command.scalars.size());
  for (int axis = 0; axis < 3; ++axis) added.grid[axis] = static_cast<uint32_t>(command.grid[axis]);
  dispatches_.push_back({std::string(command.label), executable, command.entry});
  executables_.push_back(Ref<hal::Executable>::Share(command.executable));
  for (const hal::CommandRange& range : command.bindings) {
    hal::AddSlotNeed(range, true, &slot_needs_);
    if (workgroups > 0) AddRange(range, 0, &added);
  }
  if (workgroups == 0) return OkStatus();
  scalars_.insert(scalars_.end(), command.scalars.begin(), command.scalars.end());
  added.first_argument = argument_count_;
  argument_count_ += command.bindings.size() + command.scalars.size() + 2;
  commands_.push_back(added);
  return OkStatus();
}

Status CudaCommandBuffer::Copy(const hal::CommandRange& source, const hal::CommandRange& target) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckCopy(source, target, device_.get()));
  hal::AddSlotNeed(source, false, &slot_needs_);
  hal::AddSlotNeed(target, false, &slot_needs_);
  for (int64_t at = 0; at < source.size_bytes; at += kChunkBytes) {
    Command added;
    added.kind = Kind::kCopy;
    added.stage = stage_;
    added.size_bytes = std::min(kChunkBytes, source.size_bytes - at);
    AddRange(source, at, &added);
    AddRange(target, at, &added);
    commands_.push_back(added);
  }
  return OkStatus();
}

void CudaCommandBuffer::AddFill(const hal::CommandRange& target, int64_t extra_offset,
                                int64_t size_bytes, uint32_t value, uint32_t element_bytes,
                                bool is_every_other) {
  Command added;
  added.kind = Kind::kFill;
  added.stage = stage_;
  added.size_bytes = size_bytes;
  added.value = value;
  added.element_bytes = element_bytes;
  added.is_every_other = is_every_other;
  AddRange(target, extra_offset, &added);
  commands_.push_back(added);
}

Status CudaCommandBuffer::Fill(const hal::CommandRange& target, uint64_t pattern,
                               uint32_t pattern_bytes) {
  HY_TRY(CheckRecording());
  HY_TRY(hal::CheckFill(target, pattern_bytes, device_.get()));
  hal::AddSlotNeed(target, false, &slot_needs_);
  const FillPattern parts = SplitPattern(pattern, pattern_bytes);
  for (int64_t at = 0; at < target.size_bytes; at += kChunkBytes) {
    const int64_t bytes = std::min(kChunkBytes, target.size_bytes - at);
    AddFill(target, at, bytes, parts.low, parts.element_bytes, parts.is_split);
    if (parts.is_split) AddFill(target, at + 4, bytes, parts.high, 4, true);
  }
  return OkStatus();
}

Status CudaCommandBuffer::Barrier() {
  HY_TRY(CheckRecording());
  if (!commands_.empty() && commands_.back().stage == stage_) ++stage_;
  return OkStatus();
}

Status CudaCommandBuffer::Finish() {
  HY_TRY(CheckRecording());
  const CudaOptions& options = device_->options();
  is_graph_ =
      !options.is_serial && static_cast<int64_t>(commands_.size()) >= options.graph_commands;
  is_finished_.store(true, std::memory_order_release);
  return OkStatus();
}

Result<Replay*> CudaCommandBuffer::AcquireReplay(std::span<const CUdeviceptr> slots) {
  {
    std::lock_guard lock(mutex_);
    if (!free_replays_.empty()) {
      // One that has these addresses already needs no update.
      auto found = std::find_if(free_replays_.begin(), free_replays_.end(),
                                [&](Replay* replay) { return replay->HasSlots(slots); });
      if (found == free_replays_.end()) --found;
      Replay* replay = *found;
      free_replays_.erase(found);
      return replay;
    }
    if (is_graph_ && replays_.size() >= kMostGraphs) return static_cast<Replay*>(nullptr);
  }
  HY_ASSIGN(std::unique_ptr<Replay> replay, Replay::Create(*this));
  std::lock_guard lock(mutex_);
  replays_.push_back(std::move(replay));
  return replays_.back().get();
}

void CudaCommandBuffer::ReleaseReplay(Replay* replay) {
  std::lock_guard lock(mutex_);
  free_replays_.push_back(replay);
}

Status CudaCommandBuffer::FailureOf(const ErrorRecord& error) const {
  if (error.dispatch >= dispatches_.size()) {
    return Internal("A kernel reported a failure of dispatch {} of {}.", error.dispatch,
                    dispatches_.size());
  }
  const DispatchInfo& info = dispatches_[error.dispatch];
  return hal::StatusFromErrorRecord(error, info.label, info.executable->entries()[info.entry]);
}

std::string CudaCommandBuffer::DescribeDispatch(uint32_t dispatch) const {
  const DispatchInfo& info = dispatches_[dispatch];
  return fmt::format("dispatch '{}', kernel '{}'", info.label,
                     info.executable->entries()[info.entry].name);
}

std::string CudaCommandBuffer::Describe() const {
  return hal::DescribeDispatches(
      dispatches_.size(), [this](size_t i) -> std::string_view { return dispatches_[i].label; });
}

}  // namespace halyard::drivers::cuda
