// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/first_probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>

#include "base/env.h"
#include "runtime/device_target.h"
#include "runtime/probe/store.h"

namespace halyard::runtime {
namespace {

// Two probes at once disturb each other; the second of two compiles finds what the first one
// stored.
std::mutex first_probe_mutex;

}  // namespace

std::string ProbeAtFirstUse(const FirstProbeJob& job) {
  const int64_t milliseconds = EnvInt(EnvVar::kFirstProbe);
  if (job.devices.size() < 2 || job.cache_folder.empty() || milliseconds == 0) return "";
  if (!Cache::Open(job.cache_folder).ok()) return "";  // it could not be kept
  const std::lock_guard lock(first_probe_mutex);
  const Result<ProbeReport> stored = LoadProbes(job.cache_folder);
  if (!stored.ok()) return "";
  ProbeOptions options;
  std::vector<Ref<hal::Device>> missing;
  std::vector<std::string> names;
  for (const Ref<hal::Device>& device : job.devices) {
    if (options.home == nullptr && IsHostDevice(*device)) options.home = device;
    if (stored->Find(device->path(), IdentityOf(*device)) != nullptr) continue;
    missing.push_back(device);
    names.push_back(fmt::format("'{}'", device->path()));
  }
  if (missing.empty()) return "";
  options.seconds_per_device =
      static_cast<double>(milliseconds) * 1e-3 / static_cast<double>(missing.size());
  options.is_short = true;
  options.tune = false;
  options.cache = job.cache;
  options.should_stop = job.should_stop;
  const Result<ProbeReport> report = Probe(missing, options);
  if (!report.ok() || (job.should_stop && job.should_stop())) return "";
  if (!StoreProbes(job.cache_folder, *report).ok()) return "";
  double seconds = 0;
  std::string late;  // what the time did not last for; no short probe has bandwidth and products
  for (const DeviceProbe& probe : report->devices) {
    seconds += probe.seconds;
    const uint32_t parts = probe.lacks & ~uint32_t{kBandwidth | kProducts};
    if (parts == 0) continue;
    late += fmt::format("{}{} of '{}'", late.empty() ? "" : ", ", FormatParts(parts), probe.path);
  }
  if (!late.empty()) late = fmt::format(" It did not last for all: {}.", late);
  return fmt::format(
      "{} had no probe and {} measured for {:.1f} s, once; `halyard devices --probe` measures "
      "more, and "
      "HALYARD_FIRST_PROBE_MS=0 nothing.{}",
      fmt::join(names, ", "), names.size() == 1 ? "was" : "were", seconds, late);
}

}  // namespace halyard::runtime
