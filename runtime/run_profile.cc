// SPDX-License-Identifier: Apache-2.0
#include "runtime/run_profile.h"

#include <algorithm>

#include "compiler/program/work.h"

namespace halyard::runtime {
namespace {

TimedKind KindOf(program::CommandKind kind) {
  switch (kind) {
    case program::CommandKind::kCopy:
      return TimedKind::kCopy;
    case program::CommandKind::kFill:
      return TimedKind::kFill;
    case program::CommandKind::kInterpret:
      return TimedKind::kInterpret;
    case program::CommandKind::kTransfer:
      return TimedKind::kTransfer;
    default:
      return TimedKind::kDispatch;
  }
}

int64_t ValueOf(const std::optional<program::SizeExpr>& expr, std::span<const int64_t> symbols) {
  if (!expr) return -1;
  const Result<int64_t> value = expr->Evaluate(symbols);
  return value.ok() ? *value : -1;
}

const program::Command* CommandOf(const Recording::Step& step) {
  return step.interpret != nullptr ? step.interpret : step.command;
}

// Bytes of the union of [offset, end) pairs.
int64_t CoveredBytes(std::vector<std::pair<int64_t, int64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0, end = 0;
  for (const auto& [from, to] : ranges) {
    covered += std::max<int64_t>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return covered;
}

// Per step: how much of the arenas holds a value between its first and its last use by a command.
std::vector<int64_t> LiveBytes(const Recording& recording, std::span<const int64_t> symbols) {
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  const std::vector<program::BufferRange>& buffers = recording.entry->buffers;
  std::vector<Life> lives(buffers.size());
  for (size_t s = 0; s < recording.steps.size(); ++s) {
    const program::Command* command = CommandOf(recording.steps[s]);
    if (command == nullptr) continue;
    for (const uint32_t binding : command->bindings) {
      lives[binding].first = std::min(lives[binding].first, s);
      lives[binding].last = s;
    }
  }
  // Per step and arena.
  std::vector<std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>>> ranges(
      recording.steps.size());
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].kind != program::StorageKind::kArena || lives[b].first == SIZE_MAX) continue;
    const auto offset = buffers[b].offset.Evaluate(symbols),
               size = buffers[b].size.Evaluate(symbols);
    if (!offset.ok() || !size.ok()) continue;  // recording it would have failed
    for (size_t s = lives[b].first; s <= lives[b].last; ++s) {
      ranges[s][buffers[b].index].push_back({*offset, *offset + *size});
    }
  }
  std::vector<int64_t> live(recording.steps.size());
  for (size_t s = 0; s < live.size(); ++s) {
    for (auto& [arena, list] : ranges[s]) live[s] += CoveredBytes(std::move(list));
  }
  return live;
}

}  // namespace

RunProfile::RunProfile(const Recording& recording, std::span<const int64_t> symbols)
    : symbols_(symbols.begin(), symbols.end()), live_bytes_(LiveBytes(recording, symbols)) {
  for (const program::Record& record : recording.program->program().records) {
    if (record.kind != program::kWorkRecord) continue;
    // A record is for reports: one that cannot be read is work that is not known.
    const auto parsed = program::ParseWork(record.text, symbols.size());
    if (!parsed.ok()) continue;
    Work work;
    work.flops = ValueOf(parsed->flops, symbols);
    const int64_t read = ValueOf(parsed->read_bytes, symbols);
    const int64_t written = ValueOf(parsed->written_bytes, symbols);
    if (read >= 0 && written >= 0 && __builtin_add_overflow(read, written, &work.bytes)) {
      work.bytes = -1;
    }
    work.product = parsed->product;
    // Segments may have kernels of one name; which of them a command is, nobody knows then.
    const auto [found, is_new] = work_of_label_.try_emplace(record.subject, work);
    if (!is_new) found->second = {};
  }
}

int64_t RunProfile::NowNs() const {
  return (std::chrono::steady_clock::now() - start_) / std::chrono::nanoseconds(1);
}

void RunProfile::AddStep(const Recording& recording, uint32_t index, int64_t start_ns,
                         int64_t submitted_ns, int64_t device_ns) {
  const Recording::Step& step = recording.steps[index];
  TimedCommand out;
  out.device = recording.program->program().devices[step.device].name;
  out.queue = step.queue;
  out.start_ns = start_ns;
  out.submitted_ns = submitted_ns;
  out.end_ns = NowNs();
  out.device_ns = device_ns;
  if (!step.copies.empty()) {
    out.kind = TimedKind::kTransfer;
    out.label = step.way;
    out.bytes = 0;
    for (const Recording::Copy& copy : step.copies) out.bytes += copy.target.size_bytes;
  } else if (const program::Command* command = CommandOf(step)) {
    out.live_bytes = live_bytes_[index];
    out.kind = KindOf(command->kind);
    out.label = command->label;
    if (out.kind == TimedKind::kCopy || out.kind == TimedKind::kFill) {
      out.bytes = ValueOf(recording.entry->buffers[command->bindings.back()].size, symbols_);
    }
    if (out.kind == TimedKind::kDispatch) {
      if (const auto found = work_of_label_.find(command->label); found != work_of_label_.end()) {
        out.flops = found->second.flops;
        out.bytes = found->second.bytes;
        out.product = found->second.product;
      }
    }
  } else {
    return;
  }
  commands_.push_back(std::move(out));
}

void RunProfile::AddTensor(TimedKind kind, std::string label, const hal::Device& device,
                           int64_t bytes, int64_t start_ns, int64_t submitted_ns) {
  TimedCommand out;
  out.label = std::move(label);
  out.device = device.path();
  out.kind = kind;
  out.bytes = bytes;
  out.start_ns = start_ns;
  out.submitted_ns = submitted_ns;
  out.end_ns = NowNs();
  commands_.push_back(std::move(out));
}

}  // namespace halyard::runtime
