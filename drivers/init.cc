// SPDX-License-Identifier: Apache-2.0
// The only file that names all drivers: a new driver is one folder and one line here.
#include "drivers/init.h"

#include "drivers/cpu/driver.h"
#include "drivers/cuda/driver.h"
#include "drivers/null/driver.h"
#include "drivers/vulkan/driver.h"

namespace halyard {

Status RegisterAllDrivers(hal::DriverRegistry* registry) {
  HY_TRY(registry->Register("cpu", &drivers::cpu::OpenCpuDriver));
  HY_TRY(registry->Register("cuda", &drivers::cuda::OpenCudaDriver));
  HY_TRY(registry->Register("vulkan", &drivers::vulkan::OpenVulkanDriver));
  HY_TRY(registry->Register("null", &drivers::null::OpenNullDriver));
  return OkStatus();
}

}  // namespace halyard
