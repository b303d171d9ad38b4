// SPDX-License-Identifier: Apache-2.0
// What a Vulkan device says about itself as hal::Capabilities.
#pragma once

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/memory.h"
#include "hal/capabilities.h"

namespace halyard::drivers::vulkan {

// `memory_limit_bytes` 0: none of ours.
hal::Capabilities DescribeVulkan(const DeviceHandle& device, const MemoryPools& memory,
                                 uint32_t lane_count, int64_t memory_limit_bytes);

// What the system tells of the device's bus and monitors, and Vulkan of its memory.
hal::DeviceState ReadVulkanState(const PhysicalDevice& physical);

// The identity that CUDA's driver gives the same silicon: "8f2b...-...".
std::string FormatUuid(const uint8_t (&uuid)[VK_UUID_SIZE]);

}  // namespace halyard::drivers::vulkan
