// SPDX-License-Identifier: Apache-2.0
#define VOLK_IMPLEMENTATION
#include "drivers/vulkan/vulkan_api.h"

#include "base/dylib.h"

namespace halyard::drivers::vulkan {

std::string FormatVkResult(VkResult result) {
  switch (result) {
#define HY_CASE(name) \
  case name:          \
    return #name
    HY_CASE(VK_SUCCESS);
    HY_CASE(VK_NOT_READY);
    HY_CASE(VK_TIMEOUT);
    HY_CASE(VK_INCOMPLETE);
    HY_CASE(VK_ERROR_OUT_OF_HOST_MEMORY);
    HY_CASE(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    HY_CASE(VK_ERROR_INITIALIZATION_FAILED);
    HY_CASE(VK_ERROR_DEVICE_LOST);
    HY_CASE(VK_ERROR_MEMORY_MAP_FAILED);
    HY_CASE(VK_ERROR_LAYER_NOT_PRESENT);
    HY_CASE(VK_ERROR_EXTENSION_NOT_PRESENT);
    HY_CASE(VK_ERROR_FEATURE_NOT_PRESENT);
    HY_CASE(VK_ERROR_INCOMPATIBLE_DRIVER);
    HY_CASE(VK_ERROR_TOO_MANY_OBJECTS);
    HY_CASE(VK_ERROR_FRAGMENTATION);
    HY_CASE(VK_ERROR_INVALID_EXTERNAL_HANDLE);
    HY_CASE(VK_ERROR_INVALID_SHADER_NV);
#undef HY_CASE
    default:
      return fmt::format("VkResult {}", static_cast<int>(result));
  }
}

Status StatusFromVk(VkResult result, std::string_view call) {
  if (result >= VK_SUCCESS) [[likely]]
    return OkStatus();
  StatusCode code = StatusCode::kInternal;
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      code = StatusCode::kDeviceLost;
      break;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_FRAGMENTATION:
      code = StatusCode::kOutOfMemory;
      break;
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      code = StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  return Status(code, fmt::format("{} answered {}.", call, FormatVkResult(result)));
}

Status LoadVulkan() {
  static const Status status = []() -> Status {
    HY_ASSIGN(DynamicLibrary library, DynamicLibrary::Open("libvulkan.so.1"));
    HY_ASSIGN(auto find, library.FindFunction<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr"));
    volkInitializeCustom(find);
    return OkStatus();
  }();
  return status;
}

}  // namespace halyard::drivers::vulkan
