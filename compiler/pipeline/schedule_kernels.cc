// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/schedule_kernels.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/gpu_image.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "compiler/codegen/codegen.h"
#include "compiler/loop/index_bounds.h"
#include "compiler/pipeline/canonical_kernel.h"
#include "compiler/pipeline/cluster_times.h"
#include "compiler/pipeline/expand_math.h"
#include "compiler/schedule/gpu/library_call.h"

namespace halyard::pipeline {
namespace {

using schedule::ScheduledKernel;
using schedule::ScheduleRecord;

// More candidates cost more compile time than they win.
constexpr size_t kMostRaced = 4;
constexpr size_t kMostRacedOnGpu = 8;
constexpr size_t kMostProposals = 3;  // of a vendor's library, beside those

using Key = std::pair<uint32_t, uint64_t>;  // device, hash of code and sizes
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Candidates of one kernel with their images; equal kernels are one race.
struct Race {
  const loop::Function* function = nullptr;
  std::string name;     // of the kernel
  uint32_t kernel = 0;  // of the function
  uint32_t device = 0;
  uint64_t stored_as = 0;           // the key of its winner
  std::optional<uint64_t> cluster;  // whose time this is
  std::vector<ScheduledKernel> candidates;
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> images;  // null: does not compile,
  std::vector<Status> failures;                                     // and why
  // Per candidate the first one with the same kernels.
  std::vector<size_t> same_code_as;
};

struct Choice {
  ScheduleRecord record;
  std::string reason;
  std::shared_ptr<const std::vector<uint8_t>> image;  // of the winner; null: compiled later
  double seconds = 0;                                 // 0: unknown
};

// One loop kernel on its way through the pass.
struct Item {
  Segment* segment = nullptr;
  uint32_t kernel = 0;
  std::optional<uint64_t> cluster;
  std::vector<ScheduleRecord> records;
  std::vector<ScheduleRecord> library_records;
  bool is_of_library = false;  // no other candidate may win
  ScheduledKernel first;       // the analytic model's choice
  Key key;
};

class Chooser {
 public:
  explicit Chooser(CompileState& state) : state_(state) {}

  Status Run() {
    HY_TRY(Enumerate());
    if (CanMeasure()) {
      FindEarlierChoices();
      HY_TRY(CompileEarlierChoices());
      HY_TRY(CollectRaces());
      Clock::time_point start = Clock::now();
      HY_TRY(CompileRaces());
      const double compile_seconds = SecondsSince(start);
      start = Clock::now();
      // One at a time and with no compilation beside it: what is timed has the machine for itself.
      // The first half of the pass compiles the candidates.
      size_t raced = races_.size();
      for (auto& [key, race] : races_) {
        HY_TRY(GoesOn());
        HY_TRY(RunRace(key, race));
        state_.Advance(++raced, 2 * races_.size());
      }
      RecordRaces(compile_seconds, SecondsSince(start));
    }
    return Settle();
  }

 private:
  const Target& TargetOf(uint32_t device) const { return state_.program.devices[device].target; }

  // Kernels do not check what shape rules assumed, so none runs at sizes that break it.
  bool CanMeasure() const {
    return state_.request != nullptr && state_.request->options.tune && state_.request->measurer &&
           HintsFit();
  }

  bool HintsFit() const {
    for (const auto& [a, b, why] : state_.module.assumed_equal) {
      if (Hint(a) != Hint(b)) return false;
    }
    for (const auto& [a, b, why] : state_.module.assumed_at_most) {
      if (Hint(a) > Hint(b)) return false;
    }
    return true;
  }

  Status GoesOn() const {
    return state_.request != nullptr ? state_.request->GoesOn() : OkStatus();
  }

  int64_t Hint(Expr expr) const { return state_.module.exprs.HintOf(expr); }

  Status Enumerate() {
    for (Segment& segment : state_.segments) {
      if (segment.is_interpreted) continue;
      const Target& target = TargetOf(segment.device);
      const std::vector<std::optional<uint64_t>> clusters = ClusterKeysOf(state_, segment);
      for (uint32_t i = 0; i < segment.function.kernels.size(); ++i) {
        HY_TRY(GoesOn());
        const std::string& name = segment.function.kernels[i].name;
        Item item;
        item.segment = &segment;
        item.kernel = i;
        item.cluster = clusters[i];
        auto records = schedule::EnumerateSchedules(segment.function, i, target);
        HY_TRY_CONTEXT(records, "scheduling kernel '{}'", name);
        item.records = std::move(*records);
        auto first = schedule::BuildKernel(segment.function, i, item.records[0], target);
        HY_TRY_CONTEXT(first, "scheduling kernel '{}'", name);
        item.first = std::move(*first);
        item.key = {segment.device, KeyOf(item.first, target)};
        if (HasNoIterations(segment.function.kernels[i])) {
          // No candidate takes time, and the empty code of one says too little to be the key.
          item.records.resize(1);
          items_.push_back(std::move(item));
          continue;
        }
        HY_TRY_CONTEXT(AddLibrarySchedules(item), "scheduling kernel '{}'", name);
        items_.push_back(std::move(item));
      }
    }
    return OkStatus();
  }

  // Whether one of its loops is known to run never.
  bool HasNoIterations(const loop::Kernel& kernel) const {
    return std::any_of(kernel.ops.begin(), kernel.ops.end(), [this](const loop::Op& op) {
      return op.kind == loop::OpKind::kLoop && state_.module.exprs.RangeOf(op.extent).hi <= 0;
    });
  }

  // The library of a device's vendor for such calls, or nothing.
  std::optional<std::string> LibraryOf(uint32_t device, GpuLibraryKind kind) {
    const auto [found, is_new] = libraries_.try_emplace({device, kind});
    if (is_new) {
      const Result<std::string> library = state_.request->measurer->DescribeLibrary(device, kind);
      if (library.ok()) {
        found->second.name = *library;
      } else {
        state_.Record("schedule", state_.program.devices[device].name,
                      fmt::format("No library takes part in {}: {}", LibraryWork(kind),
                                  library.status().message()));
      }
    }
    return found->second.name;
  }

  // What a library would take part in is another race than without it.
  Status AddLibrarySchedules(Item& item) {
    const auto device = item.key.first;
    if (!CanMeasure() || !state_.request->options.vendor_libraries ||
        TargetOf(device).kind != TargetKind::kCuda) {
      return OkStatus();
    }
    const auto plan =
        schedule::PlanLibraryCall(item.segment->function, item.kernel, TargetOf(device), nullptr);
    if (!plan) return OkStatus();
    const std::optional<std::string> library = LibraryOf(device, plan->call.kind);
    if (!library) return OkStatus();
    // What is a constant does not show in a kernel, but in how it is cut.
    const bool is_apart = schedule::ResultBinding(plan->call) == kNoLibraryBinding;
    item.key.second = HashCombine(
        item.key.second,
        HashString(fmt::format("{}|{}|{}|{}|{}", *library, FormatLibraryCall(plan->call),
                               plan->is_cut, static_cast<int>(plan->between), is_apart)));
    const auto [found, is_new] = proposals_.try_emplace(item.key);
    if (is_new) {
      const Clock::time_point start = Clock::now();
      auto proposals =
          state_.request->measurer->ProposeLibraryCalls(device, plan->call, kMostProposals);
      proposal_seconds_ += SecondsSince(start);
      if (proposals.ok()) {
        found->second = std::move(*proposals);
      } else {
        state_.Record("schedule", item.segment->function.kernels[item.kernel].name,
                      "The library takes no part: " + proposals.status().message());
      }
    }
    for (ScheduleRecord& record : schedule::LibrarySchedules(item.records, found->second)) {
      if (schedule::BuildKernel(item.segment->function, item.kernel, record,
                                TargetOf(item.key.first))
              .ok()) {
        item.library_records.push_back(std::move(record));
      }
    }
    if (state_.request->options.only_vendor_libraries && !item.library_records.empty()) {
      item.is_of_library = true;
      item.cluster.reset();  // placement goes by what the kernels of all candidates take
      item.key.second = HashCombine(item.key.second, HashString("alone"));
    }
    return OkStatus();
  }

  // The image of a candidate without the library calls that stand for its kernels.
  static Result<std::vector<uint8_t>> Compile(const ScheduledKernel& scheduled,
                                              const Target& target) {
    kernel::Module code;
    for (const kernel::Kernel& part : scheduled.kernels) {
      code.kernels.push_back(ExpandMathFor(part, target));
      code.kernels.back().name = RacedKernelName(code.kernels.size() - 1);
    }
    return EmitImage(code, target);
  }

  // Only kernels that stand in for library calls have equals: those of another proposal, and ours
  // of the same tile.
  static std::vector<size_t> FindSameCode(const std::vector<ScheduledKernel>& candidates) {
    std::vector<size_t> same(candidates.size());
    std::map<std::string, size_t> first;  // by the text of the kernels
    for (size_t i = 0; i < candidates.size(); ++i) {
      same[i] = i;
      const bool has_equals =
          !candidates[i].library_calls.empty() ||
          std::any_of(candidates.begin(), candidates.end(), [&](const ScheduledKernel& other) {
            return !other.library_calls.empty() && other.record.tile == candidates[i].record.tile;
          });
      if (!has_equals) continue;
      std::string text;
      for (const kernel::Kernel& part : candidates[i].kernels) text += CanonicalText(part, true);
      same[i] = first.try_emplace(std::move(text), i).first->second;
    }
    return same;
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

  // Generated kernels of a race.
  size_t MostRacedOn(uint32_t device) const {
    const size_t most = TargetOf(device).kind == TargetKind::kCpu ? kMostRaced : kMostRacedOnGpu;
    const size_t wanted = state_.request->options.most_raced;
    return wanted > 0 ? std::min(most, wanted) : most;
  }

  // Whether its race has fewer candidates than one that does not ask for so few.
  bool IsShort(const Item& item) const {
    return state_.request->options.most_raced > 0 && !item.is_of_library &&
           item.records.size() > MostRacedOn(item.key.first);
  }

  uint64_t ShortKeyOf(const Item& item) const {
    return HashCombine(item.key.second, MostRacedOn(item.key.first));
  }

  void FindEarlierChoices() {
    for (const Item& item : items_) {
      if (item.records.size() + item.library_records.size() < 2 || choices_.count(item.key)) {
        continue;
      }
      const auto [device, hash] = item.key;
      auto cached = state_.request->measurer->FindChoice(device, hash);
      if (!cached && IsShort(item)) {
        cached = state_.request->measurer->FindChoice(device, ShortKeyOf(item));
      }
      if (!cached) continue;
      const Result<ScheduleRecord> record = schedule::ParseSchedule(*cached);
      // A record of another build that no longer fits is no choice.
      const auto is_among = [&](const std::vector<ScheduleRecord>& records) {
        return std::find(records.begin(), records.end(), *record) != records.end();
      };
      if (record.ok() &&
          ((!item.is_of_library && is_among(item.records)) || is_among(item.library_records))) {
        choices_[item.key] = {*record, "fastest in an earlier race", nullptr, EarlierTimeOf(item)};
      }
    }
  }

  // What is compiled after this pass has no other schedule to fall back on, and no library calls
  // beside it. So a GPU's choices of earlier races are compiled here, and one that does not compile
  // any more is none. Those of a CPU are compiled after this pass, several kernels at a time.
  Status CompileEarlierChoices() {
    struct Earlier {
      Key key;
      std::string name;
      ScheduledKernel built;
      Status failure;
    };
    std::vector<Earlier> earlier;
    std::set<Key> seen;
    for (const Item& item : items_) {
      const auto found = choices_.find(item.key);
      if (found == choices_.end() || TargetOf(item.key.first).kind == TargetKind::kCpu ||
          !seen.insert(item.key).second) {
        continue;
      }
      HY_ASSIGN(ScheduledKernel built,
                schedule::BuildKernel(item.segment->function, item.kernel, found->second.record,
                                      TargetOf(item.key.first)));
      earlier.push_back({item.key, item.segment->function.kernels[item.kernel].name,
                         std::move(built), OkStatus()});
    }
    HY_TRY(ForEachInParallel(earlier.size(), [&](size_t i) -> Status {
      return CompileCandidate(earlier[i].name, earlier[i].built, TargetOf(earlier[i].key.first),
                              &choices_.at(earlier[i].key).image, &earlier[i].failure);
    }));
    for (const Earlier& one : earlier) {
      if (one.failure.ok()) {
        HY_TRY(AddCalls(one.built, &choices_.at(one.key).image));
        continue;
      }
      RecordFailure(one.name, one.built, one.failure);
      choices_.erase(one.key);
    }
    return OkStatus();
  }

  // Sets the image; or, where this candidate alone cannot be compiled, the reason.
  Status CompileCandidate(const std::string& name, const ScheduledKernel& scheduled,
                          const Target& target, std::shared_ptr<const std::vector<uint8_t>>* image,
                          Status* failure) const {
    HY_TRY(GoesOn());
    Result<std::vector<uint8_t>> code = Compile(scheduled, target);
    if (code.ok()) {
      *image = std::make_shared<const std::vector<uint8_t>>(std::move(*code));
      return OkStatus();
    }
    switch (code.status().code()) {
      case StatusCode::kInternal:  // the vendor's compiler refuses it
      case StatusCode::kInvalidArgument:
      case StatusCode::kUnimplemented:  // so does the emitter
        *failure = code.status();
        return OkStatus();
      default:  // another would fare no better
        return code.status().WithContext(fmt::format("compiling kernel '{}'", name));
    }
  }

  void RecordFailure(const std::string& name, const ScheduledKernel& scheduled,
                     const Status& failure) {
    state_.Record("schedule", name,
                  fmt::format("{} takes no part, since it does not compile: {}",
                              schedule::FormatSchedule(scheduled.record), failure.message()));
  }

  Status CollectRaces() {
    for (Item& item : items_) {
      const size_t count = item.records.size() + item.library_records.size();
      if (count < 2 || choices_.count(item.key) || races_.count(item.key)) continue;
      HY_TRY(GoesOn());
      const uint32_t device = item.key.first;
      Race& race = races_[item.key];
      race.function = &item.segment->function;
      race.name = item.segment->function.kernels[item.kernel].name;
      race.kernel = item.kernel;
      race.device = device;
      race.stored_as = IsShort(item) ? ShortKeyOf(item) : item.key.second;
      if (!IsShort(item)) race.cluster = item.cluster;
      if (!item.is_of_library) race.candidates.push_back(item.first);
      const size_t most = MostRacedOn(device);
      for (size_t i = 1; i < item.records.size() && i < most && !item.is_of_library; ++i) {
        HY_ASSIGN(ScheduledKernel next, schedule::BuildKernel(item.segment->function, item.kernel,
                                                              item.records[i], TargetOf(device)));
        race.candidates.push_back(std::move(next));
      }
      for (const ScheduleRecord& record : item.library_records) {
        HY_ASSIGN(ScheduledKernel next, schedule::BuildKernel(item.segment->function, item.kernel,
                                                              record, TargetOf(device)));
        race.candidates.push_back(std::move(next));
      }
      race.images.resize(race.candidates.size());
      race.failures.resize(race.candidates.size());
      race.same_code_as = FindSameCode(race.candidates);
    }
    return OkStatus();
  }

  Status CompileRaces() {
    std::vector<std::pair<Race*, size_t>> work;
    for (auto& [key, race] : races_) {
      for (size_t i = 0; i < race.candidates.size(); ++i) {
        if (race.same_code_as[i] == i) work.push_back({&race, i});
      }
    }
    std::atomic<size_t> done = 0;
    HY_TRY(ForEachInParallel(work.size(), [&](size_t index) -> Status {
      const auto [race, i] = work[index];
      HY_TRY(CompileCandidate(race->name, race->candidates[i], TargetOf(race->device),
                              &race->images[i], &race->failures[i]));
      state_.Advance(++done, 2 * work.size());
      return OkStatus();
    }));
    for (auto& [key, race] : races_) HY_TRY(FinishImages(race));
    for (const auto& [key, race] : races_) {
      const size_t failed =
          static_cast<size_t>(std::count_if(race.failures.begin(), race.failures.end(),
                                            [](const Status& failure) { return !failure.ok(); }));
      if (failed == race.candidates.size()) {
        return race.failures[0].WithContext(
            fmt::format("compiling kernel '{}', of whose {} schedules none compiles", race.name,
                        race.candidates.size()));
      }
      for (size_t i = 0; i < race.candidates.size(); ++i) {
        if (!race.failures[i].ok()) RecordFailure(race.name, race.candidates[i], race.failures[i]);
      }
    }
    return OkStatus();
  }

  // Gives each candidate its code, with its library calls.
  static Status FinishImages(Race& race) {
    const std::vector<std::shared_ptr<const std::vector<uint8_t>>> code = race.images;
    for (size_t i = 0; i < race.candidates.size(); ++i) {
      const size_t same = race.same_code_as[i];
      race.images[i] = code[same];
      race.failures[i] = race.failures[same];
      if (race.images[i] == nullptr) continue;
      HY_TRY(AddCalls(race.candidates[i], &race.images[i]));
    }
    return OkStatus();
  }

  static Status AddCalls(const ScheduledKernel& scheduled,
                         std::shared_ptr<const std::vector<uint8_t>>* image) {
    if (scheduled.library_calls.empty()) return OkStatus();
    HY_ASSIGN(std::vector<uint8_t> whole, AddLibraryCalls(**image, scheduled.library_calls));
    *image = std::make_shared<const std::vector<uint8_t>>(std::move(whole));
    return OkStatus();
  }

  // Content that the kernel takes: an index of any row where it reads indices, as a model would
  // give it, and of the first few where it computes them from what it reads.
  static int64_t LeastTooMuch(const std::map<loop::BufferId, loop::IndexBound>& bounds,
                              loop::BufferId buffer) {
    const int64_t otherwise = Measurer::Buffer().below;
    const auto found = bounds.find(buffer);
    if (found == bounds.end()) return otherwise;
    const auto& [extent, is_direct] = found->second;
    return is_direct ? extent : std::min(extent, otherwise);
  }

  Measurer::Candidate Describe(const Race& race, size_t index) const {
    const loop::Function& function = *race.function;
    const ScheduledKernel& scheduled = race.candidates[index];
    const auto bounds = loop::IndexBoundsOf(function, race.kernel);
    Measurer::Candidate candidate;
    candidate.code = *race.images[index];
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
            buffer.below = LeastTooMuch(bounds, binding.index);
            buffer.is_constant = source.role == loop::BufferRole::kConstant;
            buffer.bytes = (Hint(source.elements) * BitWidth(source.dtype) + 7) / 8;
            break;
          }
          case schedule::Binding::Kind::kWorkspace:
            buffer.bytes = Hint(scheduled.workspaces[binding.index].bytes);
            buffer.is_zero = scheduled.workspaces[binding.index].is_zero;
            break;
          case schedule::Binding::Kind::kConstant: {
            const schedule::PackedConstant& packed = scheduled.constants[binding.index];
            buffer.dtype = function.buffers[packed.buffer].dtype;
            buffer.below = LeastTooMuch(bounds, packed.buffer);
            buffer.bytes = packed.bytes;
            buffer.is_constant = true;
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
    std::vector<size_t> entrants;
    for (size_t i = 0; i < race.candidates.size(); ++i) {
      if (race.images[i] == nullptr) continue;
      candidates.push_back(Describe(race, i));
      entrants.push_back(i);
    }
    const Result<std::vector<double>> measured =
        state_.request->measurer->Measure(race.device, candidates);
    const StatusCode code = measured.status().code();
    if (code == StatusCode::kAborted || code == StatusCode::kDeviceLost) return measured.status();
    if (!measured.ok()) {
      // No content may suit the kernel, or the sizes assumed for symbols may not fit: no race then.
      choices_[key] = {
          race.candidates[entrants[0]].record,
          "first by the analytic model, since the race failed: " + measured.status().message(),
          race.images[entrants[0]], 0};
      return OkStatus();
    }
    std::vector<double> seconds(race.candidates.size(), std::numeric_limits<double>::infinity());
    for (size_t i = 0; i < entrants.size(); ++i) seconds[entrants[i]] = (*measured)[i];
    const size_t best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    const size_t ran = static_cast<size_t>(std::count_if(
        seconds.begin(), seconds.end(), [](double taken) { return std::isfinite(taken); }));
    choices_[key] = {
        race.candidates[best].record,
        fmt::format("fastest of {} in a race at {:.1f} us, the {} {}", ran, seconds[best] * 1e6,
                    race.candidates[0].library_calls.empty() ? "analytic model's choice"
                                                             : "library's own first choice",
                    !race.failures[0].ok()      ? "does not compile"
                    : std::isfinite(seconds[0]) ? fmt::format("took {:.1f} us", seconds[0] * 1e6)
                                                : "is refused by the device"),
        race.images[best], seconds[best]};
    const std::string schedule = schedule::FormatSchedule(race.candidates[best].record);
    state_.request->measurer->StoreChoice(race.device, race.stored_as, schedule, seconds[best]);
    if (race.cluster) {
      state_.request->measurer->StoreChoice(race.device, *race.cluster,
                                            place::FormatClusterTime({seconds[best], schedule}),
                                            seconds[best]);
    }
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
        Count(item.key.first, item.first, choice.seconds);
      }
      state_.Record("schedule", segment.function.kernels[item.kernel].name,
                    fmt::format("{}: {}.", schedule::FormatSchedule(item.first.record), reason));
      segment.kernels.push_back(std::move(item.first));
      segment.images.push_back(std::move(image));
    }
    RecordShare();
    return OkStatus();
  }

  // What an earlier race took, where that is known.
  double EarlierTimeOf(const Item& item) const {
    if (!item.cluster) return 0;
    const auto text = state_.request->measurer->FindChoice(item.key.first, *item.cluster);
    const auto time = text ? place::ParseClusterTime(*text) : std::nullopt;
    return time ? time->seconds : 0;
  }

  void Count(uint32_t device, const ScheduledKernel& scheduled, double seconds) {
    raced_seconds_ += seconds;
    for (const auto& [kernel, call] : scheduled.library_calls) {
      Library& library = libraries_[{device, call.kind}];
      ++library.wins;
      library.seconds += seconds;
    }
  }

  // Where the time of tuning went.
  void RecordRaces(double compile_seconds, double race_seconds) {
    size_t candidates = 0, compiled = 0;
    for (const auto& [key, race] : races_) {
      candidates += race.candidates.size();
      for (size_t i = 0; i < race.candidates.size(); ++i) compiled += race.same_code_as[i] == i;
    }
    if (candidates == 0) return;
    std::string text =
        fmt::format("{} with {} of code took {:.2f} s to compile and {:.2f} s to time",
                    Counted(candidates, "candidate"), Counted(compiled, "piece"), compile_seconds,
                    race_seconds);
    if (!proposals_.empty()) {
      text += fmt::format(", and {:.2f} s went into what libraries propose", proposal_seconds_);
    }
    state_.Record("schedule", Counted(races_.size(), "race"), text + ".");
  }

  void RecordShare() {
    for (const auto& [key, library] : libraries_) {
      if (!library.name) continue;
      const auto& [device, kind] = key;
      std::string text = fmt::format("{}: its {} won {} of {} kernels", *library.name,
                                     LibraryWork(kind), library.wins, items_.size());
      if (raced_seconds_ > 0) {
        text += fmt::format(", with {:.0f} % of the {:.1f} us that all kernels took in races",
                            100 * library.seconds / raced_seconds_, raced_seconds_ * 1e6);
      }
      state_.Record("schedule", state_.program.devices[device].name, text + ".");
    }
  }

  CompileState& state_;
  struct Library {
    std::optional<std::string> name;  // with version and file; nothing: there is none
    size_t wins = 0;
    double seconds = 0;
  };
  std::map<std::pair<uint32_t, GpuLibraryKind>, Library> libraries_;  // by device
  std::map<Key, std::vector<GpuLibraryCall>> proposals_;
  double proposal_seconds_ = 0;
  double raced_seconds_ = 0;
  std::vector<Item> items_;  // in execution order
  std::map<Key, Race> races_;
  std::map<Key, Choice> choices_;
};

}  // namespace

Status ScheduleKernels(CompileState& state) { return Chooser(state).Run(); }

}  // namespace halyard::pipeline
