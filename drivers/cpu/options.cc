// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/options.h"

#include <algorithm>

#include "base/env.h"
#include "hal/device_options.h"
#include "hal/registry.h"

namespace halyard::drivers::cpu {
namespace {

constexpr hal::OptionRow<CpuOptions> kOptionRows[] = {
    {"threads", &CpuOptions::threads, 0, 4096},
    {"queues", &CpuOptions::queues, 1, 1024},
    {"memory_bytes", &CpuOptions::memory_bytes, 0, INT64_MAX},
    {"spin_us", &CpuOptions::spin_us, 0, 1000000},
    {"numa", &CpuOptions::numa, -1, 1023},
    {"discrete", &CpuOptions::discrete, 0, INT64_MAX, true},
    {"synthetic", &CpuOptions::synthetic, 0, 1, true},
    {"speed_percent", &CpuOptions::speed_percent, 1, 100, true},
    {"link_bytes_per_s", &CpuOptions::link_bytes_per_s, 0, INT64_MAX / 2, true},
    {"link_latency_us", &CpuOptions::link_latency_us, 0, 10000000, true},
    {"lose_at", &CpuOptions::lose_at, 0, INT64_MAX, true},
};

}  // namespace

Result<std::vector<std::vector<hal::DeviceOption>>> SyntheticDevices() {
  std::vector<std::vector<hal::DeviceOption>> devices;
  const std::string list = EnvString(EnvVar::kSyntheticDevices);
  if (list.empty()) return devices;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(';', at), list.size());
    const std::string options = list.substr(at, end - at);
    at = end + 1;
    if (options.empty() && at > list.size()) break;  // a list may end with ';'
    auto path = hal::ParseDevicePath(options.empty() ? "cpu" : "cpu?" + options);
    const Status status = path.ok() ? ParseCpuOptions(path->options).status() : path.status();
    if (!status.ok()) {
      return InvalidArgument("HALYARD_SYNTHETIC_DEVICES describes device cpu:{} as '{}': {}",
                             devices.size() + 1, options, status.message());
    }
    devices.push_back(std::move(path->options));
    devices.back().push_back({"synthetic", "1"});
  }
  return devices;
}

Result<CpuOptions> ParseCpuOptions(std::span<const hal::DeviceOption> options) {
  CpuOptions parsed;
  parsed.threads = EnvInt(EnvVar::kThreads);
  parsed.spin_us = EnvInt(EnvVar::kSpin);
  HY_TRY(hal::ParseOptions("CPU", kOptionRows, options, &parsed));
  return parsed;
}

}  // namespace halyard::drivers::cpu
