// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/options.h"

#include <charconv>

#include "base/env.h"

namespace halyard::drivers::cuda {
namespace {

struct OptionRow {
  std::string_view key;
  int64_t CudaOptions::*member;
  int64_t min;
  int64_t max;
};

constexpr OptionRow kRows[] = {
    {"compute_queues", &CudaOptions::compute_queues, 1, 64},
    {"copy_queues", &CudaOptions::copy_queues, 1, 64},
    {"memory_bytes", &CudaOptions::memory_bytes, 0, INT64_MAX},
    {"graph_commands", &CudaOptions::graph_commands, 1, INT64_MAX},
    {"dependent_launch", &CudaOptions::dependent_launch, 0, 1},
    {"poll_us", &CudaOptions::poll_us, 0, 1000000},
};

}  // namespace

Result<CudaOptions> ParseCudaOptions(std::span<const hal::DeviceOption> options) {
  CudaOptions parsed;
  parsed.is_serial = EnvFlag(EnvVar::kValidate);
  for (const hal::DeviceOption& option : options) {
    const OptionRow* row = nullptr;
    std::string known;
    for (const OptionRow& candidate : kRows) {
      if (candidate.key == option.key) row = &candidate;
      known += known.empty() ? "" : ", ";
      known += candidate.key;
    }
    if (!row) {
      return InvalidArgument("The CUDA driver has no option '{}'; it has: {}.", option.key, known);
    }
    int64_t value = 0;
    const char* end = option.value.data() + option.value.size();
    auto [stop, error] = std::from_chars(option.value.data(), end, value);
    if (error != std::errc() || stop != end || value < row->min || value > row->max) {
      return InvalidArgument(
          "Option '{}' of the CUDA driver is '{}'; it takes a whole number from {} to {}.",
          option.key, option.value, row->min, row->max);
    }
    parsed.*(row->member) = value;
  }
  return parsed;
}

}  // namespace halyard::drivers::cuda
