// SPDX-License-Identifier: Apache-2.0
// VulkanDriver: every device that the Vulkan loader shows and that has what kernels need.
#pragma once

#include "hal/driver.h"

namespace halyard::drivers::vulkan {

// UNAVAILABLE: no loader, no driver behind it, or one that fails; the sentence says which.
Result<Ref<hal::Driver>> OpenVulkanDriver();

}  // namespace halyard::drivers::vulkan
