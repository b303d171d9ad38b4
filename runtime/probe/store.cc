// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/store.h"

#include <algorithm>
#include <filesystem>

#include "base/output_file.h"
#include "base/regular_file.h"
#include "runtime/device_target.h"

namespace halyard::runtime {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;
// A device that is opened with other options, or has another driver now, keeps its earlier probes.
constexpr int64_t kMaxProbesOfPath = 8;

std::string PathOf(const std::string& folder) { return folder + "/" + kProbeFileName; }

// NOT_FOUND when there is none; otherwise a file that cannot be read is a damaged one.
Result<std::string> ReadText(const std::string& path) {
  auto text = ReadRegularFile(path, kMaxFileBytes);
  if (text.ok() || text.status().code() == StatusCode::kNotFound) return text;
  return DataLoss("{}", text.status().message());
}

bool IsSameDevice(const DeviceProbe& a, const DeviceProbe& b) {
  return a.path == b.path && a.identity == b.identity;
}

// Of one path, the probe that came first makes room for the new one.
void AddProbe(ProbeReport& stored, const DeviceProbe& probe) {
  const auto has_path = [&](const DeviceProbe& other) { return other.path == probe.path; };
  auto& devices = stored.devices;
  if (std::count_if(devices.begin(), devices.end(), has_path) >= kMaxProbesOfPath) {
    devices.erase(std::find_if(devices.begin(), devices.end(), has_path));
  }
  devices.push_back(probe);
}

}  // namespace

Result<ProbeReport> LoadProbes(const std::string& cache_folder) {
  std::error_code error;  // who only reads makes no folder
  if (!std::filesystem::exists(cache_folder, error) && !error) return ProbeReport();
  HY_TRY(Cache::Open(cache_folder));
  auto text = ReadText(PathOf(cache_folder));
  if (!text.ok()) {
    if (text.status().code() == StatusCode::kNotFound) return ProbeReport();
    return text.status();
  }
  auto report = ParseProbeReport(*text);
  HY_TRY_CONTEXT(report, "reading '{}'", PathOf(cache_folder));
  return report;
}

Result<ProbeReport> StoreProbes(const std::string& cache_folder, const ProbeReport& report,
                                std::vector<std::string>* notes) {
  HY_TRY(Cache::Open(cache_folder));
  ProbeReport stored;
  // A damaged file is replaced.
  if (auto old = LoadProbes(cache_folder); old.ok()) {
    stored = std::move(*old);
  } else if (old.status().code() != StatusCode::kDataLoss) {
    return old.status();
  }
  bool is_changed = false;
  for (const DeviceProbe& probe : report.devices) {
    const auto same = [&](const DeviceProbe& other) { return IsSameDevice(other, probe); };
    const auto at = std::find_if(stored.devices.begin(), stored.devices.end(), same);
    if (at == stored.devices.end()) {
      AddProbe(stored, probe);
    } else if (const uint32_t lost = probe.lacks & ~at->lacks; lost != 0) {
      if (notes != nullptr) {
        notes->push_back(
            fmt::format("the earlier probe of '{}' stays in the cache: the one of now lacks {}",
                        probe.path, FormatParts(lost)));
      }
      continue;
    } else {
      *at = probe;
    }
    is_changed = true;
  }
  if (!is_changed) return stored;
  stored.unix_seconds = report.unix_seconds;
  ++stored.snapshot;
  RemoveUnlessRegular(PathOf(cache_folder));
  HY_TRY(WriteOutputFile(PathOf(cache_folder), FormatProbeReport(stored)));
  return stored;
}

Result<ProbeReport> ProbeOrLoad(std::span<const Ref<hal::Device>> devices, ProbeOptions options,
                                const std::string& cache_folder, bool again,
                                std::vector<std::string>* notes) {
  ProbeReport stored;
  if (!cache_folder.empty()) {
    if (auto loaded = LoadProbes(cache_folder); loaded.ok()) {
      stored = std::move(*loaded);
    } else {
      const char* advice = options.stored_only ? "; `halyard devices --probe` measures anew" : "";
      notes->push_back(
          fmt::format("stored probes are not used: {}{}", loaded.status().ToLine(), advice));
    }
    if (!options.stored_only) {
      if (auto cache = Cache::Open(cache_folder); cache.ok()) options.cache = std::move(*cache);
    }
  }
  uint32_t wanted = options.with_kernels ? kAllParts : uint32_t{kCopies};
  if (options.stored_only) wanted = 0;  // what there is
  std::vector<Ref<hal::Device>> missing;
  for (const Ref<hal::Device>& device : devices) {
    const DeviceProbe* known = stored.Find(device->path(), IdentityOf(*device));
    // A short one has not the whole of any part.
    const bool is_short = known && known->is_first_use && !options.is_short && wanted != 0;
    if (again || !known || is_short || (known->lacks & wanted) != 0) {
      missing.push_back(device);
    }
  }
  if (!options.stored_only && !missing.empty()) {
    // Links between two devices belong to both, so all are there when one is measured.
    HY_ASSIGN(ProbeReport fresh, Probe(missing, options));
    if (!cache_folder.empty()) {
      auto now = StoreProbes(cache_folder, fresh, notes);
      if (now.ok()) {
        stored = std::move(*now);
      } else {
        notes->push_back(std::string(now.status().message()));
      }
    }
    // What was measured now is what is shown, also where the store keeps an earlier one.
    for (DeviceProbe& probe : fresh.devices) {
      std::erase_if(stored.devices, [&](const DeviceProbe& p) { return IsSameDevice(p, probe); });
      stored.devices.push_back(std::move(probe));
    }
    stored.unix_seconds = fresh.unix_seconds;
  }
  // Only what was asked for, in its order.
  ProbeReport out;
  out.snapshot = stored.snapshot;
  out.unix_seconds = stored.unix_seconds;
  for (const Ref<hal::Device>& device : devices) {
    const DeviceProbe* probe = stored.Find(device->path(), IdentityOf(*device));
    if (probe) out.devices.push_back(*probe);
  }
  return out;
}

}  // namespace halyard::runtime
