// SPDX-License-Identifier: Apache-2.0
// What a device that was lost says of its fault, through VK_EXT_device_fault.
#pragma once

#include <string>

#include "drivers/vulkan/device_handle.h"

namespace halyard::drivers::vulkan {

bool TellsFaults(const DeviceHandle& device);

// "MMU fault: invalid write within 4096 bytes of 0x7f0000001000", on one line. Empty where the
// device does not tell. May be called only after the device answered VK_ERROR_DEVICE_LOST; any
// thread.
std::string DescribeFault(const DeviceHandle& device);

}  // namespace halyard::drivers::vulkan
