// SPDX-License-Identifier: Apache-2.0
// Interleaved timing over the HAL: A B C A B C ..., a warm-up each, medians. On a GPU a submission
// takes longer than most kernels, so that many runs go into one recording there, and what the
// launch still adds is taken off; constants have several copies, since a model has read all its
// other weights before it comes to this one again.
#include "runtime/measurer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>

#include "base/hash.h"
#include "runtime/device_target.h"
#include "runtime/loaded_program.h"
#include "runtime/random_bytes.h"

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 30;
constexpr double kBudgetSeconds = 0.012;  // per candidate, beyond the minimum of rounds
constexpr double kMinSampleSeconds = 100e-6;
constexpr int kMaxRepeats = 256;
constexpr double kLeastSeconds = 1e-9;  // a clock may tick coarsely
constexpr double kHopeless = 2.0;       // times the best first sample
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRecordingSeconds = 150e-6;
constexpr int kMaxRunsOfRecording = 20;
constexpr int64_t kColdBytes = 128 << 20;  // more than the caches of a GPU keep
constexpr int64_t kLeastColdBytes = 64 << 10;
constexpr int64_t kContentBytes = 1 << 20;  // of random content, which repeats

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

enum class Content { kRandom, kZeros };

class Race {
 public:
  Race(hal::Device& device, DeviceTurn& turn, std::span<const Measurer::Candidate> candidates,
       Content content, const std::function<bool()>& should_stop)
      : device_(device),
        launch_(turn.launch),
        turn_(turn),
        candidates_(candidates),
        content_(content),
        should_stop_(should_stop) {}

  Result<std::vector<double>> Run() {
    HY_ASSIGN(semaphore_, device_.CreateSemaphore(0));
    HY_TRY(MakeBuffers());
    if (TargetOf(device_).kind != TargetKind::kCpu) HY_TRY(ChooseRuns());
    Status refusal;
    size_t refused = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Status prepared = Prepare(candidates_[i]);
      if (prepared.ok()) continue;
      refusal =
          prepared.WithContext(fmt::format("preparing candidate {} of {}", i, candidates_.size()));
      if (!IsOfTheCode(prepared)) return refusal;
      commands_.resize(i + 1);
      ++refused;
    }
    if (refused == candidates_.size()) return refusal;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!commands_[i]) {
        repeats_.push_back(0);
        samples_.push_back({kNever});
        continue;
      }
      HY_TRY(GoesOn());
      HY_TRY(Time(i, 1));  // warm-up: first touch, page faults, code into caches
      HY_ASSIGN(const double once, Time(i, 1));
      repeats_.push_back(static_cast<int>(
          std::clamp(kMinSampleSeconds / std::max(once * runs_, 1e-9), 1.0, double{kMaxRepeats})));
      samples_.push_back({once});
    }
    // A candidate far behind keeps its single sample; the others get the time.
    const double best = std::min_element(samples_.begin(), samples_.end())->front();
    std::vector<bool> is_hopeless;
    for (std::vector<double>& samples : samples_) {
      is_hopeless.push_back(samples.front() > kHopeless * best);
      if (!is_hopeless.back()) samples.clear();
    }
    double spent = 0;
    for (int round = 0; round < kMaxRounds; ++round) {
      if (round >= kMinRounds && spent > kBudgetSeconds * static_cast<double>(candidates_.size()))
        break;
      for (size_t i = 0; i < candidates_.size(); ++i) {
        if (is_hopeless[i]) continue;
        HY_TRY(GoesOn());
        const Clock::time_point start = Clock::now();
        HY_ASSIGN(const double seconds, Time(i, repeats_[i]));
        samples_[i].push_back(seconds);
        spent += SecondsSince(start);
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& samples : samples_) {
      std::nth_element(samples.begin(),
                       samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2), samples.end());
      medians.push_back(samples[samples.size() / 2]);
    }
    return medians;
  }

 private:
  Status GoesOn() const {
    if (should_stop_ && should_stop_()) return Aborted("The race was stopped.");
    return OkStatus();
  }

  // Whether the device refuses the code: it may take another candidate's.
  static bool IsOfTheCode(const Status& failure) {
    return failure.code() == StatusCode::kIncompatible || failure.code() == StatusCode::kDataLoss ||
           failure.code() == StatusCode::kInternal;
  }

  // As many runs in a recording as take a while, and copies of constants for them.
  Status ChooseRuns() {
    for (const Measurer::Candidate& candidate : candidates_) {
      const Status prepared = Prepare(candidate);
      if (prepared.ok()) break;
      if (!IsOfTheCode(prepared)) return prepared.WithContext("preparing a candidate");
    }
    if (commands_.empty()) return OkStatus();  // the caller finds out why
    HY_TRY(Time(0, 1));
    HY_ASSIGN(const double once, Time(0, 1));
    commands_.clear();
    runs_ = static_cast<int>(std::clamp(kRecordingSeconds / once, 1.0, 1.0 * kMaxRunsOfRecording));
    for (size_t b = 0; b < sizes_.size(); ++b) {
      if (!is_constant_[b] || sizes_[b] < kLeastColdBytes) continue;
      const int64_t copies = std::min<int64_t>(kColdBytes / sizes_[b], runs_);
      while (static_cast<int64_t>(buffers_[b].size()) < copies) {
        auto copy =
            device_.AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(sizes_[b], 1));
        if (!copy.ok()) break;  // warmer than in a model, but a race all the same
        HY_TRY(Queue([&](const hal::Ordering& ordering) {
          return device_.QueueCopy(0, ordering, {buffers_[b][0].get(), 0, sizes_[b]},
                                   {copy->get(), 0, sizes_[b]});
        }));
        buffers_[b].push_back(std::move(*copy));
      }
    }
    return WaitForQueued();
  }

  // Candidates share buffers of equal place, so that memory and page placement do not differ.
  Status MakeBuffers() {
    for (const Measurer::Candidate& candidate : candidates_) {
      sizes_.resize(std::max(sizes_.size(), candidate.buffers.size()));
      dtypes_.resize(sizes_.size(), DType::kInvalid);
      is_constant_.resize(sizes_.size(), false);
      below_.resize(sizes_.size(), std::numeric_limits<int64_t>::max());
      for (size_t b = 0; b < candidate.buffers.size(); ++b) {
        if (candidate.buffers[b].is_zero) continue;  // of its own, below
        sizes_[b] = std::max(sizes_[b], candidate.buffers[b].bytes);
        if (candidate.buffers[b].is_constant) is_constant_[b] = true;
        below_[b] = std::min(below_[b], candidate.buffers[b].below);
        if (candidate.buffers[b].dtype != DType::kInvalid) dtypes_[b] = candidate.buffers[b].dtype;
      }
    }
    std::mt19937 random(1);
    for (size_t b = 0; b < sizes_.size(); ++b) {
      HY_ASSIGN(auto buffer,
                device_.AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(sizes_[b], 1)));
      if (dtypes_[b] != DType::kInvalid && content_ == Content::kRandom) {
        HY_TRY(FillWithRandom(random, dtypes_[b], below_[b], sizes_[b], *buffer));
      } else {
        HY_TRY(FillWithZeros(sizes_[b], *buffer));
      }
      buffers_.emplace_back();
      buffers_.back().push_back(std::move(buffer));
    }
    return OkStatus();
  }

  // What the host makes is small, and the device repeats it: the buffers of all races of a model
  // have gigabytes.
  Status FillWithRandom(std::mt19937& random, DType dtype, int64_t below, int64_t size_bytes,
                        hal::Buffer& buffer) {
    std::vector<uint8_t> bytes(static_cast<size_t>(std::min(size_bytes, kContentBytes)));
    FillRandom(random, dtype, bytes, below);
    int64_t done = static_cast<int64_t>(bytes.size());
    HY_TRY(Upload(device_, bytes, {&buffer, 0, done}));
    while (done < size_bytes) {
      const int64_t more = std::min(done, size_bytes - done);
      HY_TRY(Queue([&](const hal::Ordering& ordering) {
        return device_.QueueCopy(0, ordering, {&buffer, 0, more}, {&buffer, done, more});
      }));
      done += more;
    }
    return WaitForQueued();
  }

  Status FillWithZeros(int64_t size_bytes, hal::Buffer& buffer) {
    if (size_bytes == 0) return OkStatus();
    HY_TRY(Queue([&](const hal::Ordering& ordering) {
      return device_.QueueFill(0, ordering, {&buffer, 0, size_bytes}, 0, 1);
    }));
    return WaitForQueued();
  }

  // Behind what was queued before.
  template <typename Enqueue>
  Status Queue(Enqueue enqueue) {
    const hal::SemaphorePoint wait{semaphore_.get(), value_};
    const hal::SemaphorePoint signal{semaphore_.get(), value_ + 1};
    HY_TRY(enqueue({{&wait, 1}, {&signal, 1}}));
    ++value_;
    return OkStatus();
  }

  Status WaitForQueued() {
    const hal::SemaphorePoint last{semaphore_.get(), value_};
    return device_.Wait({&last, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout);
  }

  // Nothing else is ever written where a candidate counts on zeros.
  Result<Ref<hal::Buffer>> NewZeros(int64_t bytes) {
    HY_ASSIGN(auto buffer,
              device_.AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(bytes, 1)));
    HY_TRY(FillWithZeros(bytes, *buffer));
    return buffer;
  }

  Status Prepare(const Measurer::Candidate& candidate) {
    hal::ExecutableSource source;
    source.format = device_.capabilities().executable_formats.empty()
                        ? std::string_view("cpu-image")
                        : std::string_view(device_.capabilities().executable_formats.front());
    source.code = candidate.code;
    source.name = "candidate";
    // The driver may compile; others can time meanwhile.
    turn_.Give();
    auto loaded = device_.LoadExecutable(source);
    turn_.Take();
    HY_ASSIGN(auto executable, std::move(loaded));
    HY_ASSIGN(auto commands, device_.CreateCommandBuffer());
    std::vector<hal::Buffer*> zeros(candidate.buffers.size(), nullptr);
    for (size_t b = 0; b < candidate.buffers.size(); ++b) {
      if (!candidate.buffers[b].is_zero) continue;
      HY_ASSIGN(auto buffer, NewZeros(candidate.buffers[b].bytes));
      zeros[b] = buffer.get();
      zeros_.push_back(std::move(buffer));
    }
    for (int run = 0; run < runs_; ++run) {
      HY_TRY(RecordRun(candidate, *executable, zeros, run, *commands));
    }
    HY_TRY(commands->Finish());
    commands_.push_back(std::move(commands));
    return OkStatus();
  }

  Status RecordRun(const Measurer::Candidate& candidate, hal::Executable& executable,
                   const std::vector<hal::Buffer*>& zeros, int run, hal::CommandBuffer& commands) {
    for (size_t d = 0; d < candidate.dispatches.size(); ++d) {
      const Measurer::Dispatch& dispatch = candidate.dispatches[d];
      if (d > 0 || run > 0) HY_TRY(commands.Barrier());
      hal::DispatchCommand command;
      command.executable = &executable;
      HY_ASSIGN(command.entry, executable.FindEntry(dispatch.entry));
      for (int axis = 0; axis < 3; ++axis) command.grid[axis] = dispatch.grid[axis];
      std::vector<hal::CommandRange> bindings;
      for (const uint32_t index : dispatch.buffers) {
        if (index >= candidate.buffers.size()) {
          return InvalidArgument("A candidate binds buffer {} of {}.", index,
                                 candidate.buffers.size());
        }
        const std::vector<Ref<hal::Buffer>>& copies = buffers_[index];
        hal::Buffer* buffer = zeros[index];
        if (buffer == nullptr) buffer = copies[static_cast<size_t>(run) % copies.size()].get();
        bindings.push_back(hal::CommandRange::Direct(buffer, 0, candidate.buffers[index].bytes));
      }
      command.bindings = bindings;
      command.scalars = dispatch.scalars;
      command.label = dispatch.entry;
      HY_TRY(commands.Dispatch(command));
    }
    return OkStatus();
  }

  // Seconds of one run of a candidate, in the mean over `repeats` recordings, one after the other.
  Result<double> Time(size_t index, int repeats) {
    const auto time = MakeRef<hal::CommandTime>();
    const Clock::time_point start = Clock::now();
    for (int r = 0; r < repeats; ++r) {
      const hal::SemaphorePoint wait{semaphore_.get(), value_};
      const hal::SemaphorePoint signal{semaphore_.get(), value_ + 1};
      hal::SubmitInfo info;
      info.ordering.waits = {&wait, 1};
      info.ordering.signals = {&signal, 1};
      info.ordering.caller_waits = true;
      info.commands = commands_[index].get();
      info.time = time.get();
      HY_TRY(device_.Submit(0, info));
      ++value_;
      HY_TRY(device_.Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    }
    const double passed = SecondsSince(start) / repeats;
    const double seconds = static_cast<double>(time->nanoseconds()) * 1e-9 / repeats;
    if (!has_clock_) has_clock_ = seconds > 0;
    if (!*has_clock_) return passed / runs_;
    const auto dispatches = static_cast<int>(candidates_[index].dispatches.size()) * runs_;
    return std::max(launch_.Without(seconds, dispatches) / runs_, kLeastSeconds);
  }

  hal::Device& device_;
  LaunchTime& launch_;
  DeviceTurn::Hold turn_;
  std::optional<bool> has_clock_;  // whether the device's counts, for all candidates alike
  std::span<const Measurer::Candidate> candidates_;
  const Content content_;
  const std::function<bool()>& should_stop_;
  std::vector<int64_t> sizes_;
  std::vector<DType> dtypes_;
  std::vector<bool> is_constant_;
  std::vector<int64_t> below_;
  std::vector<std::vector<Ref<hal::Buffer>>> buffers_;  // by place: copies
  std::vector<Ref<hal::Buffer>> zeros_;
  int runs_ = 1;  // in a recording
  std::vector<Ref<hal::CommandBuffer>> commands_;
  std::vector<int> repeats_;
  std::vector<std::vector<double>> samples_;
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
};

}  // namespace

HalMeasurer::HalMeasurer(std::vector<Ref<hal::Device>> devices, std::shared_ptr<Cache> cache,
                         std::function<bool()> should_stop,
                         std::vector<std::shared_ptr<DeviceTurn>> turns)
    : devices_(std::move(devices)),
      turns_(std::move(turns)),
      cache_(std::move(cache)),
      should_stop_(std::move(should_stop)) {
  for (const Ref<hal::Device>& device : devices_)
    identities_.push_back(HashString(IdentityOf(*device)));
  for (size_t i = turns_.size(); i < devices_.size(); ++i)
    turns_.push_back(std::make_shared<DeviceTurn>(devices_[i]));
}

Result<std::vector<double>> HalMeasurer::Measure(uint32_t device,
                                                 std::span<const Candidate> candidates) {
  if (device >= devices_.size()) {
    return InvalidArgument("A measurement names device {}; there are {}.", device, devices_.size());
  }
  if (candidates.empty()) return std::vector<double>();
  const Clock::time_point start = Clock::now();
  const auto race = [&](Content content) {
    return Race(*devices_[device], *turns_[device], candidates, content, should_stop_).Run();
  };
  auto result = race(Content::kRandom);
  // An index that a kernel computes can be anything; 0 is one of every table.
  if (result.status().code() == StatusCode::kOutOfRange) result = race(Content::kZeros);
  has_run_short_ |= result.status().code() == StatusCode::kOutOfMemory;
  seconds_ += SecondsSince(start);
  candidate_count_ += candidates.size();
  return result;
}

Result<std::vector<GpuLibraryCall>> HalMeasurer::ProposeLibraryCalls(uint32_t device,
                                                                     const GpuLibraryCall& wanted,
                                                                     size_t most) {
  if (device >= devices_.size()) {
    return InvalidArgument("A library call is for device {}; there are {}.", device,
                           devices_.size());
  }
  return devices_[device]->ProposeLibraryCalls(wanted, most);
}

Result<std::string> HalMeasurer::DescribeLibrary(uint32_t device, GpuLibraryKind kind) {
  if (device >= devices_.size()) {
    return InvalidArgument("A library is for device {}; there are {}.", device, devices_.size());
  }
  return devices_[device]->DescribeLibrary(kind);
}

std::optional<std::string> HalMeasurer::FindChoice(uint32_t device, uint64_t key) {
  if (device >= devices_.size()) return std::nullopt;
  if (cache_) return cache_->FindTiming(identities_[device], key);
  const auto found = choices_.find({identities_[device], key});
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

std::optional<place::Timing> HalMeasurer::FindTime(uint32_t device, uint64_t key) {
  const std::optional<std::string> record = FindChoice(device, key);
  const auto time = record ? place::ParseClusterTime(*record) : std::nullopt;
  if (!time) return std::nullopt;
  return place::Timing{time->seconds, place::StartSigma(place::Source::kMeasured)};
}

void HalMeasurer::StoreChoice(uint32_t device, uint64_t key, std::string_view record,
                              double seconds) {
  if (device >= devices_.size()) return;
  if (cache_)
    cache_->StoreTiming(identities_[device], key, record, seconds);
  else
    choices_[{identities_[device], key}] = record;
}

}  // namespace halyard::runtime
