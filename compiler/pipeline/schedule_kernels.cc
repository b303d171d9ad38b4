// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/schedule_kernels.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/text.h"
#include "compiler/pipeline/expand_math.h"

namespace halyard::pipeline {
namespace {

using schedule::ScheduledKernel;
using schedule::ScheduleRecord;

// More candidates cost more compile time than they win.
constexpr size_t kMostRaced = 4;

struct Choice {
  std::string record;  // as text
  std::string reason;
};

class Chooser {
 public:
  explicit Chooser(CompileState& state) : state_(state) {}

  Status Schedule(Segment& segment, uint32_t index) {
    const loop::Function& function = segment.function;
    const Target& target = state_.program.devices[segment.device].target;
    HY_ASSIGN(std::vector<ScheduleRecord> records,
              schedule::EnumerateSchedules(function, index, target));
    HY_ASSIGN(ScheduledKernel first, schedule::BuildKernel(function, index, records[0], target));
    std::string reason = records.size() == 1 ? "the only candidate" : "first by the analytic model";
    if (records.size() > 1 && CanMeasure()) {
      const uint64_t key = KeyOf(first, target);
      const auto known = choices_.find({segment.device, key});
      Choice choice;
      if (known != choices_.end()) {
        choice = known->second;
      } else if (auto cached = state_.request->measurer->FindChoice(segment.device, key)) {
        choice = {*cached, "fastest in an earlier race"};
      } else {
        HY_ASSIGN(choice, Race(segment, index, records, first, key));
      }
      choices_[{segment.device, key}] = choice;
      // A record of another build that no longer fits is no choice.
      const Result<ScheduleRecord> record = schedule::ParseSchedule(choice.record);
      if (record.ok() && std::find(records.begin(), records.end(), *record) != records.end()) {
        HY_ASSIGN(first, schedule::BuildKernel(function, index, *record, target));
        reason = choice.reason;
      }
    }
    state_.Record("schedule", function.kernels[index].name,
                  fmt::format("{}: {}.", schedule::FormatSchedule(first.record), reason));
    segment.kernels.push_back(std::move(first));
    return OkStatus();
  }

 private:
  bool CanMeasure() const {
    return state_.request != nullptr && state_.request->options.tune && state_.request->measurer;
  }

  int64_t Hint(Expr expr) const { return state_.module.exprs.HintOf(expr); }

  // Equal code over equal sizes on an equal target.
  uint64_t KeyOf(const ScheduledKernel& scheduled, const Target& target) const {
    uint64_t key = HashCombine(target.CodeHash(), static_cast<uint64_t>(target.worker_count));
    for (kernel::Kernel code : scheduled.kernels) {
      code.name = "k";
      for (kernel::ReportSite& site : code.sites) site = {};
      key = HashCombine(key, HashString(kernel::FormatKernel(code)));
    }
    for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
      for (Expr extent : dispatch.grid) key = HashCombine(key, static_cast<uint64_t>(Hint(extent)));
      for (Expr scalar : dispatch.scalars) key = HashCombine(key, static_cast<uint64_t>(Hint(scalar)));
    }
    return key;
  }

  Measurer::Candidate Describe(const loop::Function& function, const ScheduledKernel& scheduled,
                               std::span<const uint8_t> code) const {
    Measurer::Candidate candidate;
    candidate.code = code;
    std::map<std::pair<schedule::Binding::Kind, uint32_t>, uint32_t> buffers;
    for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
      Measurer::Dispatch& timed = candidate.dispatches.emplace_back();
      timed.entry = scheduled.kernels[dispatch.kernel].name;
      for (const schedule::Binding& binding : dispatch.bindings) {
        const auto [found, is_new] = buffers.try_emplace({binding.kind, binding.index},
                                                         static_cast<uint32_t>(buffers.size()));
        timed.buffers.push_back(found->second);
        if (!is_new) continue;
        Measurer::Buffer& buffer = candidate.buffers.emplace_back();
        switch (binding.kind) {
          case schedule::Binding::Kind::kBuffer: {
            const loop::Buffer& source = function.buffers[binding.index];
            buffer.dtype = source.dtype;
            buffer.bytes = (Hint(source.elements) * BitWidth(source.dtype) + 7) / 8;
            break;
          }
          case schedule::Binding::Kind::kWorkspace:
            buffer.bytes = Hint(scheduled.workspaces[binding.index].bytes);
            break;
          case schedule::Binding::Kind::kConstant: {
            const schedule::PackedConstant& packed = scheduled.constants[binding.index];
            buffer.dtype = function.buffers[packed.buffer].dtype;
            buffer.bytes = packed.bytes;
            break;
          }
        }
      }
      for (Expr scalar : dispatch.scalars) timed.scalars.push_back(Hint(scalar));
      for (int axis = 0; axis < 3; ++axis) timed.grid[axis] = Hint(dispatch.grid[axis]);
    }
    return candidate;
  }

  Result<Choice> Race(const Segment& segment, uint32_t index, std::span<const ScheduleRecord> records,
                      const ScheduledKernel& first, uint64_t key) {
    const Target& target = state_.program.devices[segment.device].target;
    std::vector<ScheduledKernel> built{first};
    for (size_t i = 1; i < records.size() && i < kMostRaced; ++i) {
      HY_ASSIGN(ScheduledKernel next, schedule::BuildKernel(segment.function, index, records[i], target));
      built.push_back(std::move(next));
    }
    std::vector<std::vector<uint8_t>> images;
    for (const ScheduledKernel& candidate : built) {
      kernel::Module code;
      for (const kernel::Kernel& part : candidate.kernels) {
        code.kernels.push_back(ExpandMathFor(part, target));
      }
      HY_ASSIGN(cpu::CpuImage image, cpu::EmitCpuImage(code, target));
      images.push_back(std::move(image.bytes));
    }
    std::vector<Measurer::Candidate> candidates;
    for (size_t i = 0; i < built.size(); ++i) {
      candidates.push_back(Describe(segment.function, built[i], images[i]));
    }
    const Result<std::vector<double>> measured =
        state_.request->measurer->Measure(segment.device, candidates);
    if (!measured.ok()) {
      // Random data may not suit the kernel, or the sizes assumed for symbols may not fit: no race then.
      return Choice{schedule::FormatSchedule(first.record),
                    "first by the analytic model, since the race failed: " + measured.status().message()};
    }
    const std::vector<double>& seconds = *measured;
    size_t best = 0;
    for (size_t i = 1; i < seconds.size(); ++i) {
      if (seconds[i] < seconds[best]) best = i;
    }
    Choice choice{schedule::FormatSchedule(built[best].record),
                  fmt::format("fastest of {} in a race at {:.1f} us, the analytic model's choice took {:.1f} us",
                              built.size(), seconds[best] * 1e6, seconds[0] * 1e6)};
    state_.request->measurer->StoreChoice(segment.device, key, choice.record, seconds[best]);
    return choice;
  }

  CompileState& state_;
  std::map<std::pair<uint32_t, uint64_t>, Choice> choices_;
};

}  // namespace

Status ScheduleKernels(CompileState& state) {
  Chooser chooser(state);
  for (Segment& segment : state.segments) {
    if (segment.is_interpreted) continue;
    for (uint32_t i = 0; i < segment.function.kernels.size(); ++i) {
      HY_TRY_CONTEXT(chooser.Schedule(segment, i), "scheduling kernel '{}'",
                     segment.function.kernels[i].name);
    }
  }
  return OkStatus();
}

}  // namespace halyard::pipeline
