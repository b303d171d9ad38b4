// SPDX-License-Identifier: Apache-2.0
// DeviceHandle: a VkDevice with its functions, which the other files of this driver share. It knows
// nothing of the HAL.
#pragma once

#include <memory>
#include <string>

#include "drivers/vulkan/device_functions.h"
#include "drivers/vulkan/physical_device.h"

namespace halyard::drivers::vulkan {

// Immutable after Open but for the end of the process (exit_guard.h); everything made from it dies
// before it.
struct DeviceHandle {
  static Result<std::shared_ptr<DeviceHandle>> Open(const PhysicalDevice& physical,
                                                    uint32_t queue_count);
  ~DeviceHandle();

  const PhysicalDevice* physical = nullptr;
  Features features;  // enabled
  VkDevice device = VK_NULL_HANDLE;
  DeviceFunctions vk;
  uint32_t compute_family = 0;
  uint32_t transfer_family = 0;  // may be the same
  uint32_t compute_queues = 0;   // made, at most what was asked for
};

}  // namespace halyard::drivers::vulkan
