// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/probe.h"

#include <algorithm>
#include <ctime>

#include "base/log.h"
#include "base/parallel.h"
#include "runtime/device_target.h"
#include "runtime/loaded_program.h"
#include "runtime/probe/prober.h"

namespace halyard::runtime {

namespace {

constexpr double kWarmSeconds = 0.3;  // of work, after which a GPU's clock is up again
constexpr double kLeastWarmSeconds = 0.02;
constexpr double kPrecision = 0.01;  // half of the interval of a median, over it
constexpr size_t kMostThreads = 8;   // that compile, each on all processors where it can
// About what parts take of the whole, for the progress.
constexpr std::pair<ProbePart, double> kPartWeights[] = {{kCrossings, 6},  {kLatencies, 10},
                                                         {kCopies, 16},    {kClasses, 40},
                                                         {kBandwidth, 12}, {kProducts, 16}};

// Whether a reading that failed so would fail the same way again: the device or the compiler cannot
// do it, or bytes arrive changed.
bool IsForGood(StatusCode code) {
  switch (code) {
    case StatusCode::kUnimplemented:
    case StatusCode::kIncompatible:
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
    case StatusCode::kOutOfMemory:
    case StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

Prober::Prober(Ref<hal::Device> device, const ProbeOptions& options, double share_begin,
               double share_end)
    : device_(std::move(device)),
      options_(options),
      share_begin_(share_begin),
      share_end_(share_end),
      start_(Now()),
      kernels_(device_, options.cache),
      part_start_(start_) {
  probe_.path = device_->path();
  probe_.name = device_->capabilities().identity.name.ValueOr("unknown");
  probe_.identity = IdentityOf(*device_);
  probe_.before = device_->ReadState();
  probe_.is_complete = true;
  probe_.lacks = 0;
  probe_.is_first_use = options_.is_short;
  kernels_.EndWhen([this] { return SecondsLeft() <= 0; });
}

double Prober::Now() const {
  if (options_.now) return options_.now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Prober::SecondsLeft() const { return start_ + options_.seconds_per_device - Now(); }

SampleOptions Prober::Limited(SampleOptions sampling) const {
  sampling.seconds_left = SecondsLeft();
  sampling.now = options_.now;
  return sampling;
}

void Prober::LeaveOutLate() {
  ++left_out_;
  CutShort(part_);
}

bool Prober::is_host() const {
  return device_->capabilities().identity.driver_name.ValueOr("") == "cpu" &&
         SharesHostMemory(*device_);
}

bool Prober::is_gpu() const {
  const hal::DeviceType type =
      device_->capabilities().identity.type.ValueOr(hal::DeviceType::kOther);
  return type == hal::DeviceType::kDiscreteGpu || type == hal::DeviceType::kIntegratedGpu ||
         type == hal::DeviceType::kVirtualGpu;
}

int64_t Prober::available_bytes() const {
  const hal::Memory& memory = device_->capabilities().memory;
  int64_t bytes = device_->ReadState().available_bytes.ValueOr(
      memory.available_bytes.ValueOr(int64_t{1} << 30));
  if (memory.limit_bytes.known()) bytes = std::min(bytes, memory.limit_bytes.value);
  return bytes;
}

void Prober::CutShort(uint32_t parts) {
  probe_.is_complete = false;
  probe_.lacks |= parts;
}

bool Prober::IsOver() const {
  return (options_.should_stop && options_.should_stop()) || SecondsLeft() < 0;
}

bool Prober::Begins(std::string_view what, double least_seconds) {
  if (is_stopped_ || (options_.should_stop && options_.should_stop())) {
    is_stopped_ = true;
    CutShort(part_);
    return false;
  }
  const double now = Now(), passed = now - start_;
  if (reading_start_ >= 0) {
    const double took = now - reading_start_;
    shortest_ = shortest_ < 0 ? took : std::min(shortest_, took);
    reading_start_ = -1;
  }
  if (passed + std::max(shortest_, least_seconds) > options_.seconds_per_device) {
    LeaveOutLate();
    return false;
  }
  reading_start_ = now;
  if (options_.progress) {
    options_.progress(fmt::format("{}: {}", probe_.path, what),
                      share_begin_ + ShareDone() * (share_end_ - share_begin_));
  }
  HY_LOG(kInfo, "probe of {}: {:.3f} s: {}", probe_.path, passed, what);
  ++part_begun_;
  return true;
}

void Prober::Enter(ProbePart part, size_t readings) {
  if (part == part_ && entered_ != 0) return;
  EndPart();
  part_ = part;
  entered_ |= part;
  part_readings_ = std::max<size_t>(readings, 1);
  part_begun_ = 0;
  part_start_ = Now();
  reading_start_ = shortest_ = -1;
  part_made_ = kernels_.seconds();
}

void Prober::EndPart() {
  if (entered_ == 0) return;
  probe_.part_times.push_back({part_, Now() - part_start_, kernels_.seconds() - part_made_});
}

double Prober::ShareDone() const {
  uint32_t wanted = options_.with_kernels ? kAllParts : uint32_t{kCopies};
  if (options_.is_short) wanted &= ~uint32_t{kBandwidth | kProducts};
  double done = 0, all = 0;
  for (const auto& [part, weight] : kPartWeights) {
    if ((wanted & part) == 0) continue;
    all += weight;
    if (part == part_) {
      done += weight *
              std::min(1.0, static_cast<double>(part_begun_) / static_cast<double>(part_readings_));
    } else if ((entered_ & part) != 0) {
      done += weight;
    }
  }
  return all > 0 ? done / all : 1;
}

SampleOptions Prober::Sampling(const DeviceTurn::Hold& turn, double seconds) const {
  SampleOptions sampling;
  sampling.seconds = seconds;
  sampling.precision = kPrecision;
  sampling.warm_seconds =
      is_gpu() ? std::max(kLeastWarmSeconds, turn.SecondsToWake(kWarmSeconds)) : kLeastWarmSeconds;
  return Limited(sampling);
}

void Prober::Add(Reading reading) {
  if (!reading.IsPlausible()) {
    probe_.notes.push_back(fmt::format("a reading of kind '{}' took no time and is left out",
                                       FormatReadingKind(reading.kind)));
    return;
  }
  reading.device = probe_.path;
  probe_.readings.push_back(std::move(reading));
}

Status Prober::Note(std::string_view what, const Status& status) {
  if (status.code() == StatusCode::kDeviceLost) return status;
  if (status.code() == StatusCode::kDeadlineExceeded) {
    LeaveOutLate();
    return OkStatus();
  }
  if (!IsForGood(status.code())) CutShort(part_);
  probe_.notes.push_back(fmt::format("{}: {}", what, status.message()));
  return OkStatus();
}

void Prober::End(const Status& status) {
  // Whatever follows is missing; what was before the part stays.
  CutShort(part_ | (kAllParts & ~entered_));
  probe_.notes.push_back(fmt::format("ended by: {}", status.ToLine()));
}

int64_t Prober::ReadClock() const { return device_->ReadState().clock_hz.ValueOr(0); }

DeviceProbe Prober::Finish() {
  EndPart();
  probe_.after = device_->ReadState();
  probe_.seconds = Now() - start_;
  if (left_out_ > 0) {
    probe_.notes.push_back(
        fmt::format("{} readings are left out: they would not end in the time of {:g} s.",
                    left_out_, options_.seconds_per_device));
  }
  return std::move(probe_);
}

namespace {

// To the host's device and to those with memory of their own that come later in the list.
Status ProbeCrossings(Prober& prober, std::span<const Ref<hal::Device>> devices, size_t index) {
  if (SharesHostMemory(prober.device())) return OkStatus();
  Ref<hal::Device> home = prober.options().home;
  for (const Ref<hal::Device>& device : devices) {
    if (home == nullptr && SharesHostMemory(*device)) home = device;
  }
  if (!prober.options().with_kernels) {
    prober.LeaveOut();
    return OkStatus();
  }
  if (home != nullptr) HY_TRY(ProbeCrossing(prober, home));
  for (size_t other = index + 1; other < devices.size(); ++other) {
    if (!SharesHostMemory(*devices[other])) HY_TRY(ProbeCrossing(prober, devices[other]));
  }
  return OkStatus();
}

// What a GPU is asked for from here on is compiled while it is measured, in the order in which it
// is measured; what the host's clock times waits until the threads rest. Before, nothing may
// disturb the host.
void BeginKernels(Prober& prober) {
  if (!prober.options().with_kernels || !prober.is_gpu()) return;
  std::vector<KernelJob> jobs = ClassJobs(prober);
  if (!prober.options().is_short) {
    const std::vector<KernelJob> first = BandwidthJobs(prober), last = ProductJobs(prober);
    jobs.insert(jobs.begin(), first.begin(), first.end());
    jobs.insert(jobs.end(), last.begin(), last.end());
  }
  prober.kernels().Begin(std::move(jobs),
                         std::clamp<size_t>(UsableProcessors() * 3 / 8, 1, kMostThreads),
                         [&prober] { return prober.IsOver(); });
}

Status ProbeAll(Prober& prober, std::span<const Ref<hal::Device>> devices, size_t index) {
  prober.Enter(kCrossings, devices.size());
  HY_TRY(ProbeCrossings(prober, devices, index));
  prober.Enter(kLatencies, 2);
  HY_TRY(ProbeLatencies(prober));
  if (!prober.options().is_short) HY_TRY(ProbeFirstTouch(prober));
  // The dearest parts come last, as the time may end; so do copies inside the host's memory, which
  // placement has no use for.
  const auto copy = [&]() -> Status {
    prober.Enter(kCopies, prober.is_host() ? 9 : 40);
    return ProbeCopies(prober);
  };
  if (!prober.is_host()) HY_TRY(copy());
  for (size_t other = 0; other < devices.size(); ++other) {
    const bool is_elsewhere =
        other != index && !SharesHostMemory(*devices[index]) && !SharesHostMemory(*devices[other]);
    if (is_elsewhere) HY_TRY(ProbeLink(prober, *devices[other]));
  }
  BeginKernels(prober);
  const auto stream = [&]() -> Status {
    prober.Enter(kBandwidth, prober.is_host() ? 12 : 6);
    return ProbeBandwidth(prober);
  };
  // A GPU's kernels for this are made at once; those of classes are made meanwhile.
  const bool streams_first = prober.is_gpu() && !prober.options().is_short;
  if (streams_first) HY_TRY(stream());
  prober.Enter(kClasses, ClassJobs(prober).size() * (prober.is_gpu() ? 2 : 1));
  HY_TRY(ProbeClasses(prober));
  if (prober.options().is_short) {
    for (const ProbePart part : {kBandwidth, kProducts}) {
      prober.Enter(part, 1);
      prober.LeaveOut();
    }
    return OkStatus();
  }
  if (!streams_first) HY_TRY(stream());
  prober.Enter(kProducts, ProductJobs(prober).size());
  HY_TRY(ProbeProducts(prober));
  return prober.is_host() ? copy() : OkStatus();
}

}  // namespace

Result<ProbeReport> Probe(std::span<const Ref<hal::Device>> devices, const ProbeOptions& options) {
  ProbeReport report;
  report.unix_seconds = static_cast<int64_t>(std::time(nullptr));
  const auto total = static_cast<double>(std::max<size_t>(devices.size(), 1));
  for (size_t i = 0; i < devices.size(); ++i) {
    Prober prober(devices[i], options, static_cast<double>(i) / total,
                  static_cast<double>(i + 1) / total);
    // A device that is lost leaves what it was measured to reach, and the others.
    if (const Status status = ProbeAll(prober, devices, i); !status.ok()) prober.End(status);
    report.devices.push_back(prober.Finish());
  }
  if (options.progress) options.progress("done", 1);
  return report;
}

}  // namespace halyard::runtime
