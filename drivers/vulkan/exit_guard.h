// SPDX-License-Identifier: Apache-2.0
// The end of the process: vendors' drivers tear themselves down in exit handlers of their own,
// before the destructors of static objects that were constructed before the driver was loaded. A
// device that such an object holds must not call its driver any more. So every device registers an
// exit handler of ours after its driver's; exit runs it first, and it takes the driver from all
// devices.
#pragma once

#include <memory>

#include "drivers/vulkan/device_handle.h"

namespace halyard::drivers::vulkan {

class Kernels;
class Scheduler;

// For a device that has just been opened; remembers it without keeping it alive. Thread-safe.
void GuardExit(const std::shared_ptr<DeviceHandle>& handle,
               const std::shared_ptr<Scheduler>& scheduler,
               const std::shared_ptr<Kernels>& kernels);

// The exit handler. Gives running work one second and the devices' threads another one, saves the
// pipeline caches and replaces the devices' functions by stubs; from then on the devices are lost.
// What did not end fails with DEVICE_LOST. Can be called again.
void ForgetDrivers();

// Whether ForgetDrivers was called in this process. The functions of the instance must not be
// called then.
bool AreDriversForgotten();

}  // namespace halyard::drivers::vulkan
