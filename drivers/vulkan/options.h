// SPDX-License-Identifier: Apache-2.0
// What can be chosen when a Vulkan device is opened.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "hal/driver.h"

namespace halyard::drivers::vulkan {

struct VulkanOptions {
  int64_t queues = 0;        // lanes for independent submissions; 0: what the hardware has, up to 4
  int64_t memory_limit = 0;  // bytes of all buffers together; 0: none of ours
  int64_t spin_us = -1;  // how long a waiting thread polls before it sleeps; -1: by kind of device
  // Seconds after which a device that holds work and ends none is lost. 0: never; -1: by kind of
  // device.
  int64_t wait_limit_s = -1;
  // Test mode: the submission of that number, counted from 1, is answered as if it had lost the
  // device. 0: never.
  int64_t lose_at = 0;
  // Test mode: the submission of that number waits for what never comes. 0: never.
  int64_t hang_at = 0;
  // Test mode: the allocation of that number, of buffers and of the driver's own, counted from 1,
  // is answered as if no memory were left. 0: never.
  int64_t fail_allocation = 0;
};

// INVALID_ARGUMENT names an unknown key or a bad value and what is allowed.
Result<VulkanOptions> ParseVulkanOptions(std::span<const hal::DeviceOption> options);

}  // namespace halyard::drivers::vulkan
