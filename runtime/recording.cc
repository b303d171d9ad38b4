// SPDX-License-Identifier: Apache-2.0
// Evaluation and recording of an entry.
#include "runtime/recording.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "runtime/device_target.h"
#include "runtime/symbol_binding.h"

namespace halyard::runtime {
namespace {

using program::StorageKind;

class Recorder {
 public:
  Recorder(std::shared_ptr<LoadedProgram> loaded, const program::Entry& entry,
           std::span<const int64_t> symbols, StepSize step_size)
      : loaded_(*loaded),
        entry_(entry),
        step_size_(step_size),
        out_(std::make_shared<Recording>()) {
    out_->program = std::move(loaded);
    out_->entry = &entry;
    out_->symbols.assign(symbols.begin(), symbols.end());
  }

  Result<std::shared_ptr<const Recording>> Run() {
    HY_TRY(MakeStorage());
    HY_TRY(EvaluateRanges());
    HY_TRY(OrderBlocks());
    for (const uint32_t block : block_order_) {
      HY_TRY_CONTEXT(RecordBlock(block), "recording block {} of entry '{}'", block, entry_.name);
    }
    FindLastSteps();
    CountFirstHostSteps();
    return std::shared_ptr<const Recording>(std::move(out_));
  }

 private:
  Result<int64_t> Evaluate(const program::SizeExpr& expr) const {
    return expr.Evaluate(out_->symbols);
  }

  Status MakeStorage() {
    for (const program::TensorDesc& input : entry_.inputs) {
      HY_ASSIGN(const int64_t size, TensorBytes(input, out_->symbols));
      out_->inputs.push_back({input.device, size});
    }
    for (const program::TensorDesc& output : entry_.outputs) {
      HY_ASSIGN(const int64_t size, TensorBytes(output, out_->symbols));
      out_->outputs.push_back({output.device, size});
      std::vector<int64_t>& dims = out_->output_dims.emplace_back();
      for (const program::SizeExpr& dim : output.dims) {
        HY_ASSIGN(const int64_t value, Evaluate(dim));
        dims.push_back(value);
      }
    }
    for (const program::Arena& arena : entry_.arenas) {
      HY_ASSIGN(const int64_t size, Evaluate(arena.size_bytes));
      if (size < 0) return OutOfRange("An arena of entry '{}' has {} bytes.", entry_.name, size);
      out_->arenas.push_back({arena.device, size});
    }
    return OkStatus();
  }

  const Recording::Storage& StorageOf(const program::BufferRange& range) const {
    switch (range.kind) {
      case StorageKind::kInput:
        return out_->inputs[range.index];
      case StorageKind::kOutput:
        return out_->outputs[range.index];
      default:
        return out_->arenas[range.index];
    }
  }

  Status EvaluateRanges() {
    for (const program::BufferRange& range : entry_.buffers) {
      HY_ASSIGN(const int64_t offset, Evaluate(range.offset));
      HY_ASSIGN(const int64_t size, Evaluate(range.size));
      if (range.kind == StorageKind::kConstant) {
        const hal::BufferRange whole = loaded_.constant(range.index);
        HY_TRY(
            hal::CheckRange(fmt::format("Range '{}'", range.name), offset, size, whole.size_bytes));
        ranges_.push_back(hal::CommandRange::Direct(whole.buffer, whole.offset + offset, size));
        continue;
      }
      HY_TRY(hal::CheckRange(fmt::format("Range '{}'", range.name), offset, size,
                             StorageOf(range).size_bytes));
      uint32_t slot = range.index;
      if (range.kind != StorageKind::kInput) slot += static_cast<uint32_t>(out_->inputs.size());
      if (range.kind == StorageKind::kArena) slot += static_cast<uint32_t>(out_->outputs.size());
      ranges_.push_back(hal::CommandRange::Slot(slot, offset, size));
    }
    return OkStatus();
  }

  // Topological; the verifier has excluded cycles.
  Status OrderBlocks() {
    std::vector<bool> placed(entry_.blocks.size(), false);
    while (block_order_.size() < entry_.blocks.size()) {
      const size_t before = block_order_.size();
      for (uint32_t i = 0; i < entry_.blocks.size(); ++i) {
        const auto& waits = entry_.blocks[i].waits;
        if (placed[i] ||
            !std::all_of(waits.begin(), waits.end(), [&](uint32_t w) { return placed[w]; })) {
          continue;
        }
        placed[i] = true;
        block_order_.push_back(i);
      }
      if (block_order_.size() == before) return InvalidArgument("Blocks wait for each other.");
    }
    block_steps_.resize(entry_.blocks.size());
    return OkStatus();
  }

  // Transfers ------------------------------------------------------------------------------------

  // A range of the device's staging buffer that no other transfer of the run uses.
  hal::CommandRange TakeStaging(uint32_t device, int64_t size_bytes) {
    const auto [found, is_new] =
        staging_of_device_.try_emplace(device, static_cast<uint32_t>(out_->staging.size()));
    if (is_new) out_->staging.push_back({device, 0});
    Recording::Storage& staging = out_->staging[found->second];
    const auto first =
        static_cast<uint32_t>(entry_.inputs.size() + entry_.outputs.size() + entry_.arenas.size());
    const int64_t offset = staging.size_bytes;
    staging.size_bytes += StagingBytes(size_bytes);
    return hal::CommandRange::Slot(first + found->second, offset, size_bytes);
  }

  // The device whose threads copy between two places that the host addresses: the host's own where
  // the program has it.
  uint32_t CopyingDevice(uint32_t target) const {
    for (uint32_t d = 0; d < loaded_.devices().size(); ++d) {
      if (loaded_.program().devices[d].is_host) return d;
    }
    return target;
  }

  void AddCopies(std::string way, uint32_t device, uint32_t queue,
                 std::vector<Recording::Copy> copies, bool by_host, std::vector<uint32_t>& waits) {
    if (copies.empty()) return;
    Recording::Step& step = out_->steps.emplace_back();
    step.way = std::move(way);
    step.device = device;
    step.queue = queue % loaded_.device(device)->queue_count();
    step.copies = std::move(copies);
    step.host_copies = by_host;
    step.waits = std::exchange(waits, {static_cast<uint32_t>(out_->steps.size() - 1)});
  }

  // Out of the source's memory, between the staging memories, into the target's; each only where
  // the path needs it. The steps follow each other.
  Status RecordTransfers(const program::Block& block, std::vector<uint32_t>& waits) {
    const auto name = [&](uint32_t d) { return loaded_.program().devices[d].name; };
    std::map<uint32_t, std::vector<Recording::Copy>> out;  // by source device
    std::vector<Recording::Copy> between, in;
    std::set<std::string> sources;  // of `in`
    for (const program::Command& command : block.commands) {
      hal::CommandRange source = ranges_[command.bindings[0]];
      hal::CommandRange target = ranges_[command.bindings[1]];
      if (source.size_bytes != target.size_bytes) {
        return OutOfRange("Transfer '{}' takes {} bytes into {}.", command.label, source.size_bytes,
                          target.size_bytes);
      }
      if (source.size_bytes == 0) continue;
      const uint32_t from = loaded_.program().DeviceOf(entry_, entry_.buffers[command.bindings[0]]);
      if (from == block.device) {  // streamed weights, page-locked already
        in.push_back({source, target});
        sources.insert("host");
        continue;
      }
      const TransferPath& path = loaded_.path(from, block.device);
      if (path.is_direct) {
        in.push_back({source, target});
        sources.insert(name(from));
        continue;
      }
      if (path.stages_out) {
        const hal::CommandRange staged = TakeStaging(from, source.size_bytes);
        out[from].push_back({source, staged});
        source = staged;
      }
      if (path.stages_in) {
        const hal::CommandRange staged = TakeStaging(block.device, source.size_bytes);
        in.push_back({staged, target});
        sources.insert("host");
        target = staged;
      }
      between.push_back({source, target});
    }
    for (auto& [from, copies] : out)
      AddCopies(name(from) + " -> host", from, block.queue, std::move(copies), false, waits);
    AddCopies("host -> host", CopyingDevice(block.device), block.queue, std::move(between), true,
              waits);
    AddCopies(fmt::format("{} -> {}", fmt::join(sources, "+"), name(block.device)), block.device,
              block.queue, std::move(in), false, waits);
    return OkStatus();
  }

  Status RecordBlock(uint32_t index) {
    const program::Block& block = entry_.blocks[index];
    hal::Device& device = *loaded_.device(block.device);
    std::vector<uint32_t> waits;  // of the next step
    for (const uint32_t before : block.waits) {
      if (block_steps_[before]) waits.push_back(*block_steps_[before]);
    }
    const size_t steps_before = out_->steps.size();
    const bool is_transfer =
        !block.commands.empty() && block.commands[0].kind == program::CommandKind::kTransfer;
    if (is_transfer) HY_TRY(RecordTransfers(block, waits));
    Ref<hal::CommandBuffer> open;
    size_t barrier_at = 0;  // commands before this one are done before the next is recorded
    const auto close = [&]() -> Status {
      if (!open) return OkStatus();
      HY_TRY(open->Finish());
      Recording::Step& step = out_->steps.emplace_back();
      step.device = block.device;
      step.queue = block.queue % device.queue_count();
      step.commands = std::move(open);
      step.waits = std::exchange(waits, {static_cast<uint32_t>(out_->steps.size() - 1)});
      open = nullptr;
      return OkStatus();
    };
    for (size_t c = 0; c < block.commands.size() && !is_transfer; ++c) {
      const program::Command& command = block.commands[c];
      if (command.kind == program::CommandKind::kInterpret) {
        HY_TRY(close());
        Recording::Step& step = out_->steps.emplace_back();
        step.device = block.device;
        step.queue = block.queue % device.queue_count();
        step.interpret = &command;
        for (const uint32_t binding : command.bindings)
          step.interpret_ranges.push_back(ranges_[binding]);
        for (const program::TensorDesc& tensor : command.interpret_tensors) {
          std::vector<int64_t>& dims = step.interpret_dims.emplace_back();
          for (const program::SizeExpr& dim : tensor.dims) {
            HY_ASSIGN(const int64_t value, Evaluate(dim));
            dims.push_back(value);
          }
        }
        step.waits = std::exchange(waits, {static_cast<uint32_t>(out_->steps.size() - 1)});
        barrier_at = c + 1;
        continue;
      }
      if (!open) {
        HY_ASSIGN(open, device.CreateCommandBuffer());
        barrier_at = c;
      }
      if (std::any_of(command.after.begin(), command.after.end(),
                      [&](uint32_t before) { return before >= barrier_at; })) {
        HY_TRY(open->Barrier());
        barrier_at = c;
      }
      HY_TRY_CONTEXT(RecordCommand(*open, command), "recording command {} '{}'", c, command.label);
      if (step_size_ == StepSize::kOneCommand) {
        HY_TRY(close());
        out_->steps.back().command = &command;
      }
    }
    HY_TRY(close());
    if (out_->steps.size() == steps_before) {
      // The block recorded nothing: whoever waits for it waits for what it waits for. One step
      // without commands stands for that.
      Recording::Step& step = out_->steps.emplace_back();
      step.device = block.device;
      step.queue = block.queue % device.queue_count();
      step.waits = std::move(waits);
    }
    block_steps_[index] = static_cast<uint32_t>(out_->steps.size() - 1);
    return OkStatus();
  }

  Status RecordCommand(hal::CommandBuffer& commands, const program::Command& command) {
    switch (command.kind) {
      case program::CommandKind::kDispatch: {
        hal::DispatchCommand dispatch;
        dispatch.executable = loaded_.executable(command.executable);
        dispatch.entry = command.entry;
        std::vector<hal::CommandRange> bindings;
        for (const uint32_t binding : command.bindings) bindings.push_back(ranges_[binding]);
        std::vector<int64_t> scalars;
        for (const program::SizeExpr& scalar : command.scalars) {
          HY_ASSIGN(const int64_t value, Evaluate(scalar));
          scalars.push_back(value);
        }
        for (int axis = 0; axis < 3; ++axis) {
          HY_ASSIGN(dispatch.grid[axis], Evaluate(command.grid[axis]));
          if (dispatch.grid[axis] < 0) {
            return OutOfRange("The grid of '{}' is {} along axis {}.", command.label,
                              dispatch.grid[axis], axis);
          }
        }
        dispatch.bindings = bindings;
        dispatch.scalars = scalars;
        dispatch.label = command.label;
        return commands.Dispatch(dispatch);
      }
      case program::CommandKind::kCopy: {
        const hal::CommandRange &source = ranges_[command.bindings[0]],
                                &target = ranges_[command.bindings[1]];
        if (source.size_bytes != target.size_bytes) {
          return OutOfRange("A copy takes {} bytes into {}.", source.size_bytes, target.size_bytes);
        }
        return source.size_bytes == 0 ? OkStatus() : commands.Copy(source, target);
      }
      case program::CommandKind::kFill: {
        const hal::CommandRange& target = ranges_[command.bindings[0]];
        if (target.size_bytes == 0) return OkStatus();
        return commands.Fill(target, command.fill_value, command.fill_bytes);
      }
      case program::CommandKind::kInterpret:
      case program::CommandKind::kTransfer:
        break;
    }
    return Internal("Command '{}' has no recording.", command.label);
  }

  void FindLastSteps() {
    std::vector<bool> is_waited(out_->steps.size(), false);
    for (const Recording::Step& step : out_->steps) {
      for (const uint32_t before : step.waits) is_waited[before] = true;
    }
    for (uint32_t i = 0; i < out_->steps.size(); ++i) {
      if (!is_waited[i]) out_->last_steps.push_back(i);
    }
  }

  void CountFirstHostSteps() {
    const std::vector<Recording::Step>& steps = out_->steps;
    if (steps.empty() || steps[0].device == out_->waiting_device()) return;
    if (!IsHostDevice(*loaded_.device(steps[0].device))) return;
    // How many steps wait for each; all of them do for some other, but the first.
    std::vector<uint32_t> waiting(steps.size(), 0);
    for (uint32_t i = 1; i < steps.size(); ++i) {
      if (steps[i].waits.empty()) return;
      for (const uint32_t before : steps[i].waits) ++waiting[before];
    }
    uint32_t count = 1;
    while (steps[count].device == steps[0].device && waiting[count - 1] == 1 &&
           steps[count].waits == std::vector<uint32_t>{count - 1}) {
      ++count;
    }
    out_->first_host_steps = count;
  }

  const LoadedProgram& loaded_;
  const program::Entry& entry_;
  const StepSize step_size_;
  std::shared_ptr<Recording> out_;
  std::vector<hal::CommandRange> ranges_;  // per Entry::buffers
  std::vector<uint32_t> block_order_;
  std::vector<std::optional<uint32_t>> block_steps_;  // the last step of each block
  std::map<uint32_t, uint32_t> staging_of_device_;    // index into Recording::staging
};

}  // namespace

Result<const program::Entry*> SelectEntry(const program::Program& program,
                                          std::span<const int64_t> symbols) {
  const program::Guard* failing = nullptr;
  for (const program::Entry& entry : program.entries) {
    HY_ASSIGN(failing, FindFailingGuard(entry, symbols));
    if (failing == nullptr) return &entry;
  }
  if (failing == nullptr) return InvalidArgument("The program has no entry.");
  std::string sizes;
  for (size_t i = 0; i < symbols.size(); ++i) {
    sizes += fmt::format("{}{} = {}", i == 0 ? "" : ", ", program.symbols[i].name, symbols[i]);
  }
  return InvalidArgument("No entry of the program takes {}; it needs {}.", sizes, failing->text);
}

Result<std::shared_ptr<const Recording>> Record(std::shared_ptr<LoadedProgram> program,
                                                const program::Entry& entry,
                                                std::span<const int64_t> symbols,
                                                StepSize step_size) {
  return Recorder(std::move(program), entry, symbols, step_size).Run();
}

}  // namespace halyard::runtime
