// SPDX-License-Identifier: Apache-2.0
// Which SPIR-V capabilities a device offers.
#pragma once

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/spirv_module.h"

namespace halyard::drivers::vulkan {

// INCOMPATIBLE names the first capability or version of the module that the device lacks.
Status CheckCapabilities(const SpirvModule& module, const DeviceHandle& device);

}  // namespace halyard::drivers::vulkan
