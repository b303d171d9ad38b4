// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/device_functions.h"

#include <type_traits>

namespace halyard::drivers::vulkan {
namespace {

template <typename R, typename... Arguments>
VKAPI_ATTR R VKAPI_CALL Nothing(Arguments...) {
  if constexpr (std::is_same_v<R, VkResult>) {
    return VK_ERROR_DEVICE_LOST;
  } else {
    return R();
  }
}

template <typename R, typename... Arguments>
void Replace(DeviceFunction<R(VKAPI_PTR*)(Arguments...)>& function) {
  function = &Nothing<R, Arguments...>;
}

}  // namespace

void DeviceFunctions::Load(VkDevice device) {
#define HY_LOAD(name) name = reinterpret_cast<PFN_##name>(vkGetDeviceProcAddr(device, #name));
  HY_VULKAN_DEVICE_FUNCTIONS(HY_LOAD)
#undef HY_LOAD
}

void DeviceFunctions::Forget() {
#define HY_REPLACE(name) Replace(name);
  HY_VULKAN_DEVICE_FUNCTIONS(HY_REPLACE)
#undef HY_REPLACE
}

}  // namespace halyard::drivers::vulkan
