// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/options.h"

#include <charconv>

namespace halyard::drivers::vulkan {
namespace {

struct OptionRow {
  std::string_view key;
  int64_t VulkanOptions::*member;
  int64_t min;
  int64_t max;
};

constexpr OptionRow kRows[] = {
    {"queues", &VulkanOptions::queues, 0, 64},
    {"memory_limit", &VulkanOptions::memory_limit, 0, INT64_MAX},
    {"spin_us", &VulkanOptions::spin_us, -1, 1000000},
    {"lose_at", &VulkanOptions::lose_at, 0, INT64_MAX},
};

}  // namespace

Result<VulkanOptions> ParseVulkanOptions(std::span<const hal::DeviceOption> options) {
  VulkanOptions parsed;
  for (const hal::DeviceOption& option : options) {
    const OptionRow* row = nullptr;
    std::string known;
    for (const OptionRow& candidate : kRows) {
      if (candidate.key == option.key) row = &candidate;
      known += known.empty() ? "" : ", ";
      known += candidate.key;
    }
    if (!row) {
      return InvalidArgument("The Vulkan driver has no option '{}'; it has: {}.", option.key,
                             known);
    }
    int64_t value = 0;
    const char* end = option.value.data() + option.value.size();
    auto [stop, error] = std::from_chars(option.value.data(), end, value);
    if (error != std::errc() || stop != end || value < row->min || value > row->max) {
      return InvalidArgument(
          "Option '{}' of the Vulkan driver is '{}'; it takes a whole number from {} to {}.",
          option.key, option.value, row->min, row->max);
    }
    parsed.*(row->member) = value;
  }
  return parsed;
}

}  // namespace halyard::drivers::vulkan
