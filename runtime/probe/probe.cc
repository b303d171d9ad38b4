// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/probe.h"

#include <algorithm>
#include <ctime>

#include "runtime/device_target.h"
#include "runtime/loaded_program.h"
#include "runtime/probe/prober.h"

namespace halyard::runtime {

namespace {

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
      start_(std::chrono::steady_clock::now()) {
  probe_.path = device_->path();
  probe_.name = device_->capabilities().identity.name.ValueOr("unknown");
  probe_.identity = IdentityOf(*device_);
  probe_.before = device_->ReadState();
  probe_.is_complete = true;
  probe_.lacks = 0;
  probe_.is_first_use = options_.is_short;
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

bool Prober::Begins(std::string_view what) {
  if (is_stopped_ || (options_.should_stop && options_.should_stop())) {
    is_stopped_ = true;
    CutShort(part_);
    return false;
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  if (passed.count() > options_.seconds_per_device) {
    ++left_out_;
    CutShort(part_);
    return false;
  }
  if (options_.progress) {
    const double done = std::min(passed.count() / options_.seconds_per_device, 1.0);
    options_.progress(fmt::format("{}: {}", probe_.path, what),
                      share_begin_ + done * (share_end_ - share_begin_));
  }
  return true;
}

void Prober::Add(Reading reading) {
  reading.device = probe_.path;
  probe_.readings.push_back(std::move(reading));
}

Status Prober::Note(std::string_view what, const Status& status) {
  if (status.code() == StatusCode::kDeviceLost) return status;
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
  probe_.after = device_->ReadState();
  probe_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (left_out_ > 0) {
    probe_.notes.push_back(fmt::format("{} readings are left out: the time of {:g} s was over.",
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

Status ProbeAll(Prober& prober, std::span<const Ref<hal::Device>> devices, size_t index) {
  prober.Enter(kCrossings);
  HY_TRY(ProbeCrossings(prober, devices, index));
  prober.Enter(kLatencies);
  HY_TRY(ProbeLatencies(prober));
  if (!prober.options().is_short) HY_TRY(ProbeFirstTouch(prober));
  // The dearest parts come last, as the time may end; so do copies inside the host's memory, which
  // placement has no use for.
  const auto copy = [&]() -> Status {
    prober.Enter(kCopies);
    return ProbeCopies(prober);
  };
  if (!prober.is_host()) HY_TRY(copy());
  for (size_t other = 0; other < devices.size(); ++other) {
    const bool is_elsewhere =
        other != index && !SharesHostMemory(*devices[index]) && !SharesHostMemory(*devices[other]);
    if (is_elsewhere) HY_TRY(ProbeLink(prober, *devices[other]));
  }
  prober.Enter(kClasses);
  HY_TRY(ProbeClasses(prober));
  if (prober.options().is_short) {
    for (const ProbePart part : {kBandwidth, kProducts}) {
      prober.Enter(part);
      prober.LeaveOut();
    }
    return OkStatus();
  }
  prober.Enter(kBandwidth);
  HY_TRY(ProbeBandwidth(prober));
  prober.Enter(kProducts);
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
