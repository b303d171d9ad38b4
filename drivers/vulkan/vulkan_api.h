// SPDX-License-Identifier: Apache-2.0
// The Vulkan API as this driver sees it: functions found at run time through volk, and its results
// as Status. Nothing links to the Vulkan loader.
#pragma once

#include <volk.h>

#include <string_view>

#include "base/status.h"
#include "drivers/vulkan/extension_structs.h"

namespace halyard::drivers::vulkan {

// "VK_ERROR_DEVICE_LOST", or the number.
std::string FormatVkResult(VkResult result);

// OK for every success code. DEVICE_LOST, OUT_OF_MEMORY, UNAVAILABLE (no driver, no layer, no
// extension) or INTERNAL otherwise; the sentence names the call and its answer.
Status StatusFromVk(VkResult result, std::string_view call);

// Opens libvulkan.so.1 and finds the global functions, once. UNAVAILABLE says what is missing.
Status LoadVulkan();

// A structure that is empty but for its type.
template <typename T>
T Typed(VkStructureType type) {
  T value = {};
  value.sType = type;
  return value;
}

// Puts `next` at the front of the chain that starts at `base`.
template <typename Base, typename Next>
void Chain(Base* base, Next* next) {
  next->pNext = base->pNext;
  base->pNext = next;
}

}  // namespace halyard::drivers::vulkan
