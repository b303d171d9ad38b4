// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/schedule_kernels.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "base/parallel.h"
#include "compiler/codegen/codegen.h"
#include "compiler/pipeline/canonical_kernel.h"
#include "compiler/pipeline/expand_math.h"

namespace halyard::pipeline {
namespace {

using schedule::ScheduledKernel;
using schedule::ScheduleRecord;

// More candidates cost more compile time than they win.
constexpr size_t kMostRaced = 4;

using Key = std::pair<uint32_t, uint64_t>;  // device, hash of code and sizes

// Candidates of one kernel with their images; equal kernels are one race.
struct Race {
  const loop::Function* function = nullptr;
  uint32_t device = 0;
  std::vector<ScheduledKernel> candidates;
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> images;
};

struct Choice {
  ScheduleRecord record;
  std::string reason;
  std::shared_ptr<const std::vector<uint8_t>> image;  // of the winner; null: compiled later
};

// One loop kernel on its way through the pass.
struct Item {
  Segment* segment = nullptr;
  uint32_t kernel = 0;
  std::vector<ScheduleRecord> records;
  ScheduledKernel first;  // the analytic model's choice
  Key key;
};

class Chooser {
 public:
  explicit Chooser(CompileState& state) : state_(state) {}

  Status Run() {
    HY_TRY(Enumerate());
    if (CanMeasure()) {
      HY_TRY(CollectRaces());
      HY_TRY(CompileRaces());
      // One at a time and with no compilation beside it: what is timed has the machine for itself.
      for (auto& [key, race] : races_) HY_TRY(RunRace(key, race));
    }
    return Settle();
  }

 private:
  const Target& TargetOf(uint32_t device) const { return state_.program.devices[device].target; }

  bool CanMeasure() const {
    return state_.request != nullptr && state_.request->options.tune && state_.request->measurer;
  }

  int64_t Hint(Expr expr) const { return state_.module.exprs.HintOf(expr); }

  Status Enumerate() {
    for (Segment& segment : state_.segments) {
      if (segment.is_interpreted) continue;
      const Target& target = TargetOf(segment.device);
      for (uint32_t i = 0; i < segment.function.kernels.size(); ++i) {
        const std::string& name = segment.function.kernels[i].name;
        Item item;
        item.segment = &segment;
        item.kernel = i;
        auto records = schedule::EnumerateSchedules(segment.function, i, target);
        HY_TRY_CONTEXT(records, "scheduling kernel '{}'", name);
        item.records = std::move(*records);
        auto first = schedule::BuildKernel(segment.function, i, item.records[0], target);
        HY_TRY_CONTEXT(first, "scheduling kernel '{}'", name);
        item.first = std::move(*first);
        item.key = {segment.device, KeyOf(item.first, target)};
        items_.push_back(std::move(item));
      }
    }
    return OkStatus();
  }

  // Equal code over equal sizes on an equal target.
  uint64_t KeyOf(const ScheduledKernel& scheduled, const Target& target) const {
    uint64_t key = HashCombine(target.CodeHash(), static_cast<uint64_t>(target.worker_count));
    for (const kernel::Kernel& code : scheduled.kernels) {
      key = HashCombine(key, HashString(CanonicalText(code, false)));
    }
    for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
      for (Expr extent : dispatch.grid) key = HashCombine(key, static_cast<uint64_t>(Hint(extent)));
      for (Expr scalar : dispatch.scalars)
        key = HashCombine(key, static_cast<uint64_t>(Hint(scalar)));
    }
    return key;
  }

  Status CollectRaces() {
    for (Item& item : items_) {
      if (item.records.size() < 2 || choices_.count(item.key) || races_.count(item.key)) continue;
      const auto [device, hash] = item.key;
      if (const auto cached = state_.request->measurer->FindChoice(device, hash)) {
        const Result<ScheduleRecord> record = schedule::ParseSchedule(*cached);
        // A record of another build that no longer fits is no choice.
        if (record.ok() &&
            std::find(item.records.begin(), item.records.end(), *record) != item.records.end()) {
          choices_[item.key] = {*record, "fastest in an earlier race", nullptr};
          continue;
        }
      }
      Race& race = races_[item.key];
      race.function = &item.segment->function;
      race.device = device;
      race.candidates.push_back(item.first);
      for (size_t i = 1; i < item.records.size() && i < kMostRaced; ++i) {
        HY_ASSIGN(ScheduledKernel next, schedule::BuildKernel(item.segment->function, item.kernel,
                                                              item.records[i], TargetOf(device)));
        race.candidates.push_back(std::move(next));
      }
      race.images.resize(race.candidates.size());
    }
    return OkStatus();
  }

  Status CompileRaces() {
    std::vector<std::pair<Race*, size_t>> work;
    for (auto& [key, race] : races_) {
      for (size_t i = 0; i < race.candidates.size(); ++i) work.push_back({&race, i});
    }
    return ForEachInParallel(work.size(), [&](size_t index) -> Status {
      const auto [race, i] = work[index];
      const Target& target = TargetOf(race->device);
      kernel::Module code;
      for (const kernel::Kernel& part : race->candidates[i].kernels) {
        code.kernels.push_back(ExpandMathFor(part, target));
        code.kernels.back().name = RacedKernelName(code.kernels.size() - 1);
      }
      HY_ASSIGN(std::vector<uint8_t> image, EmitImage(code, target));
      race->images[i] = std::make_shared<const std::vector<uint8_t>>(std::move(image));
      return OkStatus();
    });
  }

  Measurer::Candidate Describe(const loop::Function& function, const ScheduledKernel& scheduled,
                               std::span<const uint8_t> code) const {
    Measurer::Candidate candidate;
    candidate.code = code;
    std::map<std::pair<schedule::Binding::Kind, uint32_t>, uint32_t> buffers;
    for (const schedule::Dispatch& dispatch : scheduled.dispatches) {
      Measurer::Dispatch& timed = candidate.dispatches.emplace_back();
      timed.entry = RacedKernelName(dispatch.kernel);
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

  Status RunRace(const Key& key, const Race& race) {
    std::vector<Measurer::Candidate> candidates;
    for (size_t i = 0; i < race.candidates.size(); ++i) {
      candidates.push_back(Describe(*race.function, race.candidates[i], *race.images[i]));
    }
    const Result<std::vector<double>> measured =
        state_.request->measurer->Measure(race.device, candidates);
    if (!measured.ok()) {
      // Random data may not suit the kernel, or the sizes assumed for symbols may not fit: no race
      // then.
      choices_[key] = {
          race.candidates[0].record,
          "first by the analytic model, since the race failed: " + measured.status().message(),
          race.images[0]};
      return OkStatus();
    }
    const std::vector<double>& seconds = *measured;
    const size_t best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    choices_[key] = {
        race.candidates[best].record,
        fmt::format("fastest of {} in a race at {:.1f} us, the analytic model's choice took "
                    "{:.1f} us",
                    seconds.size(), seconds[best] * 1e6, seconds[0] * 1e6),
        race.images[best]};
    state_.request->measurer->StoreChoice(race.device, key.second,
                                          schedule::FormatSchedule(race.candidates[best].record),
                                          seconds[best]);
    return OkStatus();
  }

  Status Settle() {
    for (Item& item : items_) {
      Segment& segment = *item.segment;
      std::string reason =
          item.records.size() == 1 ? "the only candidate" : "first by the analytic model";
      std::shared_ptr<const std::vector<uint8_t>> image;
      if (const auto found = choices_.find(item.key); found != choices_.end()) {
        const Choice& choice = found->second;
        if (choice.record != item.first.record) {
          HY_ASSIGN(item.first, schedule::BuildKernel(segment.function, item.kernel, choice.record,
                                                      TargetOf(segment.device)));
        }
        reason = choice.reason;
        image = choice.image;
      }
      state_.Record("schedule", segment.function.kernels[item.kernel].name,
                    fmt::format("{}: {}.", schedule::FormatSchedule(item.first.record), reason));
      segment.kernels.push_back(std::move(item.first));
      segment.images.push_back(std::move(image));
    }
    return OkStatus();
  }

  CompileState& state_;
  std::vector<Item> items_;  // in execution order
  std::map<Key, Race> races_;
  std::map<Key, Choice> choices_;
};

}  // namespace

Status ScheduleKernels(CompileState& state) { return Chooser(state).Run(); }

}  // namespace halyard::pipeline
