// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/options.h"

#include "base/env.h"
#include "hal/device_options.h"

namespace halyard::drivers::cpu {
namespace {

constexpr hal::OptionRow<CpuOptions> kRows[] = {
    {"threads", &CpuOptions::threads, 0, 4096},
    {"queues", &CpuOptions::queues, 1, 1024},
    {"memory_bytes", &CpuOptions::memory_bytes, 0, INT64_MAX},
    {"spin_us", &CpuOptions::spin_us, 0, 1000000},
    {"numa", &CpuOptions::numa, -1, 1023},
    {"discrete", &CpuOptions::discrete, 0, INT64_MAX},
};

}  // namespace

Result<CpuOptions> ParseCpuOptions(std::span<const hal::DeviceOption> options) {
  CpuOptions parsed;
  parsed.threads = EnvInt(EnvVar::kThreads, 0, 0, 4096);
  parsed.spin_us = EnvInt(EnvVar::kSpin, parsed.spin_us, 0, 1000000);
  HY_TRY(hal::ParseOptions("CPU", kRows, options, &parsed));
  return parsed;
}

}  // namespace halyard::drivers::cpu
