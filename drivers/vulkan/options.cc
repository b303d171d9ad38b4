// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/options.h"

#include "hal/device_options.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr hal::OptionRow<VulkanOptions> kOptionRows[] = {
    {"queues", &VulkanOptions::queues, 0, 64},
    {"memory_limit", &VulkanOptions::memory_limit, 0, INT64_MAX},
    {"spin_us", &VulkanOptions::spin_us, -1, 1000000},
    {"wait_limit_s", &VulkanOptions::wait_limit_s, -1, 1000000},
    {"lose_at", &VulkanOptions::lose_at, 0, INT64_MAX, true},
    {"hang_at", &VulkanOptions::hang_at, 0, INT64_MAX, true},
    {"fail_allocation", &VulkanOptions::fail_allocation, 0, INT64_MAX, true},
};

}  // namespace

Result<VulkanOptions> ParseVulkanOptions(std::span<const hal::DeviceOption> options) {
  VulkanOptions parsed;
  HY_TRY(hal::ParseOptions("Vulkan", kOptionRows, options, &parsed));
  return parsed;
}

}  // namespace halyard::drivers::vulkan
