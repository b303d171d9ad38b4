// SPDX-License-Identifier: Apache-2.0
// From a HAL device to what the compiler must know about it. The compiler never sees the HAL.
#pragma once

#include <string>

#include "compiler/target/target.h"
#include "hal/device.h"

namespace halyard::runtime {

// Unknown numbers keep Target's defaults.
Target TargetOf(const hal::Device& device);

// Whether the device is the host's processors in the host's memory: interpreted ops run there.
bool IsHostDevice(const hal::Device& device);

// What timings and placement depend on beside the target: name, model and driver of the device.
std::string IdentityOf(const hal::Device& device);

}  // namespace halyard::runtime
