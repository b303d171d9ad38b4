// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/options.h"

#include <charconv>

#include "base/env.h"

namespace halyard::drivers::cpu {
namespace {

struct OptionRow {
  std::string_view key;
  int64_t CpuOptions::*member;
  int64_t min;
  int64_t max;
};

constexpr OptionRow kRows[] = {
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
  for (const hal::DeviceOption& option : options) {
    const OptionRow* row = nullptr;
    std::string known;
    for (const OptionRow& candidate : kRows) {
      if (candidate.key == option.key) row = &candidate;
      known += known.empty() ? "" : ", ";
      known += candidate.key;
    }
    if (!row) {
      return InvalidArgument("The CPU driver has no option '{}'; it has: {}.", option.key, known);
    }
    int64_t value = 0;
    const char* end = option.value.data() + option.value.size();
    auto [stop, error] = std::from_chars(option.value.data(), end, value);
    if (error != std::errc() || stop != end || value < row->min || value > row->max) {
      return InvalidArgument(
          "Option '{}' of the CPU driver is '{}'; it takes a whole number from {} to {}.",
          option.key, option.value, row->min, row->max);
    }
    parsed.*(row->member) = value;
  }
  return parsed;
}

}  // namespace halyard::drivers::cpu
