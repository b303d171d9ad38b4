// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/kernel_run.h"

#include <algorithm>
#include <chrono>

#include "runtime/random_bytes.h"

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Larger operands are filled on the device: bytes of such cross the bus too slowly.
constexpr int64_t kUploadBytes = int64_t{64} << 20;
// A processor's threads have a part each, of whole lines.
constexpr int64_t kFeedParts = 32, kLeastFeedBytes = 4096;
// One recording has that many commands at most, about.
constexpr int64_t kMostOtherWeights = 512;
constexpr uint64_t kFillPattern = 0x3f803f80;  // a number near 1 in f32 and in bf16

}  // namespace

Result<std::unique_ptr<KernelRun>> KernelRun::Make(Ref<hal::Device> device,
                                                   program::Program program,
                                                   std::shared_ptr<DeviceTurn> turn) {
  HY_TRY(program::Verify(program));
  std::unique_ptr<KernelRun> run(new KernelRun(device, std::move(turn)));
  const DeviceTurn::Hold hold(*run->turn_);
  HY_ASSIGN(run->program_, LoadedProgram::Load(std::move(program), {device}));
  HY_TRY(run->MakeOperands());
  HY_ASSIGN(run->semaphore_, device->CreateSemaphore(0));
  return run;
}

Result<place::KernelPrediction> KernelRun::Prediction() const {
  size_t count = 0;
  Result<place::KernelPrediction> found = FailedPrecondition("The graph has no prediction.");
  for (const program::Record& record : program_->program().records) {
    if (record.kind != place::kPredictedRecord) continue;
    ++count;
    found = place::ParsePrediction(record.text);
  }
  if (count > 1 || (found.ok() && found->key == 0)) {
    return FailedPrecondition("The graph is more than one cluster.");
  }
  return found;
}

size_t KernelRun::command_count() const {
  size_t count = 0;
  for (const program::Block& block : program_->program().entries.front().blocks) {
    count += block.commands.size();
  }
  return count;
}

Status KernelRun::MakeOperands() {
  const program::Entry& entry = program_->program().entries.front();
  std::mt19937 random(1);
  const auto allocate = [&](int64_t bytes, DType dtype) -> Result<hal::Buffer*> {
    HY_ASSIGN(auto buffer,
              device_->AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(bytes, 64)));
    const hal::BufferRange whole{buffer.get(), 0, bytes / 4 * 4};
    if (dtype != DType::kInvalid && bytes > 0 && bytes <= kUploadBytes) {
      std::vector<uint8_t> content(static_cast<size_t>(bytes));
      FillRandom(random, dtype, content);
      HY_TRY(Upload(*device_, content, {buffer.get(), 0, bytes}));
    } else if (whole.size_bytes > 0) {
      HY_ASSIGN(auto semaphore, device_->CreateSemaphore(0));
      const hal::SemaphorePoint done{semaphore.get(), 1};
      HY_TRY(device_->QueueFill(0, {{}, {&done, 1}, true}, whole, kFillPattern, 4));
      HY_TRY(device_->Wait({&done, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    }
    buffers_.push_back(std::move(buffer));
    return buffers_.back().get();
  };
  std::map<std::pair<program::StorageKind, uint32_t>, hal::Buffer*> storage;
  for (const program::BufferRange& range : entry.buffers) {
    HY_ASSIGN(const int64_t offset, range.offset.Evaluate({}));
    HY_ASSIGN(const int64_t size, range.size.Evaluate({}));
    if (range.kind == program::StorageKind::kConstant) {
      const hal::BufferRange whole = program_->constant(range.index);
      weights_.push_back(static_cast<uint32_t>(ranges_.size()));
      weight_bytes_ += size;
      ranges_.push_back(hal::CommandRange::Direct(whole.buffer, whole.offset + offset, size));
      continue;
    }
    hal::Buffer*& buffer = storage[{range.kind, range.index}];
    if (!buffer && range.kind == program::StorageKind::kArena) {
      HY_ASSIGN(const int64_t bytes, entry.arenas[range.index].size_bytes.Evaluate({}));
      HY_ASSIGN(buffer, allocate(bytes, DType::kInvalid));
    } else if (!buffer) {
      const bool is_input = range.kind == program::StorageKind::kInput;
      const auto& tensors = is_input ? entry.inputs : entry.outputs;
      // Inputs and outputs are whole tensors; the first range that names one is as large.
      HY_ASSIGN(buffer,
                allocate(offset + size, is_input ? tensors[range.index].dtype : DType::kInvalid));
      if (is_input) inputs_.push_back(buffer);
    }
    HY_TRY(
        hal::CheckRange(fmt::format("Range '{}'", range.name), offset, size, buffer->size_bytes()));
    ranges_.push_back(hal::CommandRange::Direct(buffer, offset, size));
  }
  return OkStatus();
}

Status KernelRun::MakeBrought() {
  if (!brought_.empty() || inputs_.empty()) return OkStatus();
  HY_ASSIGN(auto commands, device_->CreateCommandBuffer());
  for (hal::Buffer* input : inputs_) {
    HY_ASSIGN(auto copy, device_->AllocateBuffer(hal::MemoryKind::kDevice, input->size_bytes()));
    HY_TRY(commands->Copy(hal::CommandRange::Direct(input, 0, input->size_bytes()),
                          hal::CommandRange::Direct(copy.get(), 0, copy->size_bytes())));
    brought_.push_back(std::move(copy));
  }
  HY_TRY(commands->Finish());
  return TimeOnDevice(*commands).status();
}

Status KernelRun::MakeEvicted(int64_t cache_bytes) {
  if (!evicting_) {
    HY_ASSIGN(evicting_, device_->AllocateBuffer(hal::MemoryKind::kDevice, cache_bytes));
  }
  return OkStatus();
}

Status KernelRun::MakeOtherWeights(int64_t copies) {
  if (!other_weights_.empty()) return OkStatus();
  const int64_t alignment = device_->buffer_alignment();
  const auto aligned = [&](int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  int64_t bytes = 0;
  for (const uint32_t weight : weights_) bytes += aligned(ranges_[weight].size_bytes);
  HY_ASSIGN(auto buffer, device_->AllocateBuffer(hal::MemoryKind::kDevice, copies * bytes));
  HY_ASSIGN(auto commands, device_->CreateCommandBuffer());
  int64_t offset = 0;
  for (int64_t i = 0; i < copies; ++i) {
    std::vector<hal::CommandRange>& set = other_weights_.emplace_back();
    for (const uint32_t weight : weights_) {
      const int64_t size = ranges_[weight].size_bytes;
      set.push_back(hal::CommandRange::Direct(buffer.get(), offset, size));
      HY_TRY(commands->Copy(ranges_[weight], set.back()));
      offset += aligned(size);
    }
  }
  buffers_.push_back(std::move(buffer));
  HY_TRY(commands->Finish());
  return TimeOnDevice(*commands).status();
}

Status KernelRun::RecordFeed(hal::CommandBuffer& commands, int64_t parts) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int64_t bytes = inputs_[i]->size_bytes();
    const int64_t part =
        std::max(bytes / parts / kLeastFeedBytes * kLeastFeedBytes, kLeastFeedBytes);
    const int64_t count = (bytes + part - 1) / part;
    // Threads take shares in the order of commands. From the second quarter on, most of what a
    // thread writes is read by another one: half of it with two threads, all of it with four or
    // more.
    for (int64_t j = 0; j < count; ++j) {
      const int64_t begin = (j + (count + 3) / 4) % count * part;
      const int64_t size = std::min(part, bytes - begin);
      HY_TRY(commands.Copy(hal::CommandRange::Direct(brought_[i].get(), begin, size),
                           hal::CommandRange::Direct(inputs_[i], begin, size)));
    }
  }
  return commands.Barrier();
}

Status KernelRun::RecordExecution(hal::CommandBuffer& commands, size_t set) const {
  std::vector<hal::CommandRange> ranges = ranges_;
  set %= other_weights_.size() + 1;
  for (size_t i = 0; set > 0 && i < weights_.size(); ++i)
    ranges[weights_[i]] = other_weights_[set - 1][i];
  for (const program::Block& block : program_->program().entries.front().blocks) {
    for (const program::Command& command : block.commands) {
      std::vector<hal::CommandRange> bindings;
      for (const uint32_t binding : command.bindings) bindings.push_back(ranges[binding]);
      switch (command.kind) {
        case program::CommandKind::kDispatch: {
          hal::DispatchCommand dispatch;
          dispatch.executable = program_->executable(command.executable);
          dispatch.entry = command.entry;
          std::vector<int64_t> scalars;
          for (const program::SizeExpr& scalar : command.scalars) {
            HY_ASSIGN(const int64_t value, scalar.Evaluate({}));
            scalars.push_back(value);
          }
          for (int axis = 0; axis < 3; ++axis) {
            HY_ASSIGN(dispatch.grid[axis], command.grid[axis].Evaluate({}));
          }
          dispatch.bindings = bindings;
          dispatch.scalars = scalars;
          dispatch.label = command.label;
          HY_TRY(commands.Dispatch(dispatch));
          break;
        }
        case program::CommandKind::kCopy:
          HY_TRY(commands.Copy(bindings[0], bindings[1]));
          break;
        case program::CommandKind::kFill:
          HY_TRY(commands.Fill(bindings[0], command.fill_value, command.fill_bytes));
          break;
        case program::CommandKind::kInterpret:
        case program::CommandKind::kTransfer:
          return Unimplemented("'{}' does not run on the device alone.", command.label);
      }
      HY_TRY(commands.Barrier());
    }
  }
  return OkStatus();
}

Result<hal::CommandBuffer*> KernelRun::Record(int repeats, Content content) {
  Ref<hal::CommandBuffer>& recording = recordings_[{repeats, content}];
  if (recording) return recording.get();
  HY_ASSIGN(auto commands, device_->CreateCommandBuffer());
  const bool is_cold = content == Content::kColdExecutions || content == Content::kEvictions;
  const bool executes = content != Content::kFeeds && content != Content::kEvictions;
  for (int r = 0; r < repeats; ++r) {
    if (is_cold) {
      HY_TRY(commands->Fill(hal::CommandRange::Direct(evicting_.get(), 0, evicting_->size_bytes()),
                            kFillPattern, 4));
      HY_TRY(commands->Barrier());
    }
    if (content != Content::kExecutions) HY_TRY(RecordFeed(*commands, is_cold ? 1 : kFeedParts));
    if (executes) {
      const bool is_fed = content == Content::kFedExecutions;
      HY_TRY(RecordExecution(*commands, is_fed ? static_cast<size_t>(r) : 0));
    }
  }
  HY_TRY(commands->Finish());
  recording = std::move(commands);
  return recording.get();
}

Result<double> KernelRun::Time(int repeats, const std::function<void()>& during) {
  HY_ASSIGN(hal::CommandBuffer * commands, Record(repeats));
  const hal::SemaphorePoint wait{semaphore_.get(), value_}, signal{semaphore_.get(), value_ + 1};
  hal::SubmitInfo info;
  info.ordering.waits = {&wait, 1};
  info.ordering.signals = {&signal, 1};
  info.ordering.caller_waits = !during;
  info.commands = commands;
  const Clock::time_point start = Clock::now();
  HY_TRY(device_->Submit(0, info));
  ++value_;
  submit_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  if (during) during();
  HY_TRY(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<double> KernelRun::TimeOnDevice(hal::CommandBuffer& commands) {
  const hal::SemaphorePoint wait{semaphore_.get(), value_}, signal{semaphore_.get(), value_ + 1};
  const auto time = MakeRef<hal::CommandTime>();
  hal::SubmitInfo info;
  info.ordering.waits = {&wait, 1};
  info.ordering.signals = {&signal, 1};
  info.ordering.caller_waits = true;
  info.commands = &commands;
  info.time = time.get();
  HY_TRY(device_->Submit(0, info));
  ++value_;
  HY_TRY(device_->Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
  if (time->nanoseconds() <= 0) return Unimplemented("The device does not time commands.");
  return static_cast<double>(time->nanoseconds()) * 1e-9;
}

Result<double> KernelRun::TimeByDevice(int repeats) {
  HY_ASSIGN(hal::CommandBuffer * commands, Record(repeats));
  HY_ASSIGN(const double seconds, TimeOnDevice(*commands));
  const int count = repeats * static_cast<int>(command_count());
  return turn_->launch.Without(seconds, count) / repeats;
}

Result<double> KernelRun::TimeBeyond(int repeats, Content with, Content without) {
  HY_ASSIGN(hal::CommandBuffer * more, Record(repeats, with));
  HY_ASSIGN(hal::CommandBuffer * less, Record(repeats, without));
  HY_ASSIGN(const double seconds, TimeOnDevice(*more));
  HY_ASSIGN(const double known, TimeOnDevice(*less));
  return std::max(0.0, seconds - known) / repeats;  // of a short kernel noise may be more
}

Result<double> KernelRun::TimeFed() {
  if (inputs_.empty()) return TimeOne();
  HY_TRY(MakeBrought());
  return TimeBeyond(kTogether, Content::kFedExecutions, Content::kFeeds);
}

Result<double> KernelRun::TimeCold(int64_t cache_bytes) {
  HY_TRY(MakeBrought());
  HY_TRY(MakeEvicted(cache_bytes));
  return TimeBeyond(kTogether, Content::kColdExecutions, Content::kEvictions);
}

Result<double> KernelRun::TimeWithOtherWeights(int64_t cache_bytes) {
  if (weight_bytes_ == 0) return TimeFed();
  HY_TRY(MakeBrought());
  const int64_t copies = std::clamp<int64_t>(cache_bytes / weight_bytes_, 1, kMostOtherWeights);
  HY_TRY(MakeOtherWeights(copies));
  return TimeBeyond(std::max(kTogether, static_cast<int>(copies) + 1), Content::kFedExecutions,
                    Content::kFeeds);
}

}  // namespace halyard::runtime
