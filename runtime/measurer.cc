// SPDX-License-Identifier: Apache-2.0
// Interleaved timing over the HAL: A B C A B C ..., a warm-up each, medians.
#include "runtime/measurer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/hash.h"
#include "runtime/device_target.h"
#include "runtime/loaded_program.h"

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMinRounds = 5;
constexpr int kMaxRounds = 30;
constexpr double kBudgetSeconds = 0.012;  // per candidate, beyond the minimum of rounds
constexpr double kMinSampleSeconds = 100e-6;
constexpr int kMaxRepeats = 256;
constexpr double kHopeless = 2.0;  // times the best first sample

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Content that is no special case: floats in [-1, 1), integers in [0, 4), which index almost any
// tensor.
void FillRandomBlock(std::mt19937& random, DType dtype, std::span<uint8_t> bytes) {
  const auto unit = [&] { return static_cast<float>(random()) / 2147483648.0f - 1.0f; };
  switch (dtype) {
    case DType::kF32:
      for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const float value = unit();
        std::memcpy(&bytes[i], &value, 4);
      }
      break;
    case DType::kF64:
      for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const double value = unit();
        std::memcpy(&bytes[i], &value, 8);
      }
      break;
    case DType::kF16:  // 0.5 to 1
      for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] = 0x38 + (random() & 3);
      break;
    case DType::kBF16:  // 0.5 to 1
      for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] = 0x3f;
      break;
    case DType::kBool:
      for (uint8_t& byte : bytes) byte = random() & 1;
      break;
    default: {
      const size_t width = std::max<size_t>(1, static_cast<size_t>(BitWidth(dtype)) / 8);
      for (size_t i = 0; i < bytes.size(); i += width) bytes[i] = random() & 3;
      break;
    }
  }
}

// A random block repeated: kernels do not see that it repeats, and making every byte anew would cost
// more than the measurement.
void FillRandom(std::mt19937& random, DType dtype, std::span<uint8_t> bytes) {
  constexpr size_t kBlockBytes = 64 << 10;
  FillRandomBlock(random, dtype, bytes.first(std::min(bytes.size(), kBlockBytes)));
  for (size_t done = kBlockBytes; done < bytes.size(); done += kBlockBytes) {
    std::memcpy(&bytes[done], bytes.data(), std::min(kBlockBytes, bytes.size() - done));
  }
}

class Race {
 public:
  Race(hal::Device& device, std::span<const Measurer::Candidate> candidates)
      : device_(device), candidates_(candidates) {}

  Result<std::vector<double>> Run() {
    HY_ASSIGN(semaphore_, device_.CreateSemaphore(0));
    HY_TRY(MakeBuffers());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      HY_TRY_CONTEXT(Prepare(candidates_[i]), "preparing candidate {} of {}", i,
                     candidates_.size());
    }
    for (size_t i = 0; i < candidates_.size(); ++i) {
      HY_TRY(Time(i, 1));  // warm-up: first touch, page faults, code into caches
      HY_ASSIGN(const double once, Time(i, 1));
      repeats_.push_back(static_cast<int>(
          std::clamp(kMinSampleSeconds / std::max(once, 1e-9), 1.0, double{kMaxRepeats})));
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
        HY_ASSIGN(const double seconds, Time(i, repeats_[i]));
        samples_[i].push_back(seconds / repeats_[i]);
        spent += seconds;
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
  // Candidates share buffers of equal place, so that memory and page placement do not differ.
  Status MakeBuffers() {
    for (const Measurer::Candidate& candidate : candidates_) {
      sizes_.resize(std::max(sizes_.size(), candidate.buffers.size()));
      dtypes_.resize(sizes_.size(), DType::kInvalid);
      for (size_t b = 0; b < candidate.buffers.size(); ++b) {
        sizes_[b] = std::max(sizes_[b], candidate.buffers[b].bytes);
        if (candidate.buffers[b].dtype != DType::kInvalid) dtypes_[b] = candidate.buffers[b].dtype;
      }
    }
    std::mt19937 random(1);
    for (size_t b = 0; b < sizes_.size(); ++b) {
      HY_ASSIGN(auto buffer,
                device_.AllocateBuffer(hal::MemoryKind::kDevice, std::max<int64_t>(sizes_[b], 1)));
      std::vector<uint8_t> bytes(static_cast<size_t>(sizes_[b]));
      if (dtypes_[b] != DType::kInvalid) FillRandom(random, dtypes_[b], bytes);
      if (auto mapped = SharesHostMemory(device_) ? buffer->Map(0, sizes_[b])
                                                  : Result<uint8_t*>(Unavailable("not mapped"));
          mapped.ok()) {
        if (!bytes.empty()) std::memcpy(*mapped, bytes.data(), bytes.size());
      } else {
        HY_TRY(Upload(device_, bytes, {buffer.get(), 0, sizes_[b]}));
      }
      buffers_.push_back(std::move(buffer));
    }
    return OkStatus();
  }

  Status Prepare(const Measurer::Candidate& candidate) {
    hal::ExecutableSource source;
    source.format = device_.capabilities().executable_formats.empty()
                        ? std::string_view("cpu-image")
                        : std::string_view(device_.capabilities().executable_formats.front());
    source.code = candidate.code;
    source.name = "candidate";
    HY_ASSIGN(auto executable, device_.LoadExecutable(source));
    HY_ASSIGN(auto commands, device_.CreateCommandBuffer());
    for (size_t d = 0; d < candidate.dispatches.size(); ++d) {
      const Measurer::Dispatch& dispatch = candidate.dispatches[d];
      if (d > 0) HY_TRY(commands->Barrier());
      hal::DispatchCommand command;
      command.executable = executable.get();
      HY_ASSIGN(command.entry, executable->FindEntry(dispatch.entry));
      for (int axis = 0; axis < 3; ++axis) command.grid[axis] = dispatch.grid[axis];
      std::vector<hal::CommandRange> bindings;
      for (const uint32_t index : dispatch.buffers) {
        if (index >= candidate.buffers.size()) {
          return InvalidArgument("A candidate binds buffer {} of {}.", index,
                                 candidate.buffers.size());
        }
        bindings.push_back(
            hal::CommandRange::Direct(buffers_[index].get(), 0, candidate.buffers[index].bytes));
      }
      command.bindings = bindings;
      command.scalars = dispatch.scalars;
      command.label = dispatch.entry;
      HY_TRY(commands->Dispatch(command));
    }
    HY_TRY(commands->Finish());
    commands_.push_back(std::move(commands));
    return OkStatus();
  }

  // Seconds for `repeats` runs of a candidate, one after the other.
  Result<double> Time(size_t index, int repeats) {
    const Clock::time_point start = Clock::now();
    for (int r = 0; r < repeats; ++r) {
      const hal::SemaphorePoint wait{semaphore_.get(), value_};
      const hal::SemaphorePoint signal{semaphore_.get(), value_ + 1};
      hal::SubmitInfo info;
      info.ordering.waits = {&wait, 1};
      info.ordering.signals = {&signal, 1};
      info.ordering.caller_waits = true;
      info.commands = commands_[index].get();
      HY_TRY(device_.Submit(0, info));
      ++value_;
      HY_TRY(device_.Wait({&signal, 1}, hal::WaitMode::kAll, hal::kInfiniteTimeout));
    }
    return SecondsSince(start);
  }

  hal::Device& device_;
  std::span<const Measurer::Candidate> candidates_;
  std::vector<int64_t> sizes_;
  std::vector<DType> dtypes_;
  std::vector<Ref<hal::Buffer>> buffers_;
  std::vector<Ref<hal::CommandBuffer>> commands_;
  std::vector<int> repeats_;
  std::vector<std::vector<double>> samples_;
  Ref<hal::Semaphore> semaphore_;
  uint64_t value_ = 0;
};

}  // namespace

HalMeasurer::HalMeasurer(std::vector<Ref<hal::Device>> devices, std::shared_ptr<Cache> cache)
    : devices_(std::move(devices)), cache_(std::move(cache)) {
  for (const Ref<hal::Device>& device : devices_)
    identities_.push_back(HashString(IdentityOf(*device)));
}

Result<std::vector<double>> HalMeasurer::Measure(uint32_t device,
                                                 std::span<const Candidate> candidates) {
  if (device >= devices_.size()) {
    return InvalidArgument("A measurement names device {}; there are {}.", device, devices_.size());
  }
  if (candidates.empty()) return std::vector<double>();
  const Clock::time_point start = Clock::now();
  auto result = Race(*devices_[device], candidates).Run();
  seconds_ += SecondsSince(start);
  candidate_count_ += candidates.size();
  return result;
}

std::optional<std::string> HalMeasurer::FindChoice(uint32_t device, uint64_t key) {
  if (device >= devices_.size()) return std::nullopt;
  if (cache_) return cache_->FindTiming(identities_[device], key);
  const auto found = choices_.find({identities_[device], key});
  if (found == choices_.end()) return std::nullopt;
  return found->second;
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
