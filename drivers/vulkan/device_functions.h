// SPDX-License-Identifier: Apache-2.0
// DeviceFunctions: the functions of a VkDevice that this driver calls, which can be replaced by
// stubs once the vendor's driver is about to go away (exit_guard.h).
#pragma once

#include <atomic>

#include "drivers/vulkan/vulkan_api.h"

namespace halyard::drivers::vulkan {

// All of them: what is not listed has no member below and cannot be called.
#define HY_VULKAN_DEVICE_FUNCTIONS(X)    \
  X(vkAllocateCommandBuffers)            \
  X(vkAllocateMemory)                    \
  X(vkBeginCommandBuffer)                \
  X(vkBindBufferMemory)                  \
  X(vkCmdBindPipeline)                   \
  X(vkCmdCopyBuffer)                     \
  X(vkCmdDispatch)                       \
  X(vkCmdPipelineBarrier)                \
  X(vkCmdPushConstants)                  \
  X(vkCmdResetQueryPool)                 \
  X(vkCmdWriteTimestamp)                 \
  X(vkCreateBuffer)                      \
  X(vkCreateCommandPool)                 \
  X(vkCreateComputePipelines)            \
  X(vkCreatePipelineCache)               \
  X(vkCreatePipelineLayout)              \
  X(vkCreateQueryPool)                   \
  X(vkCreateSemaphore)                   \
  X(vkCreateShaderModule)                \
  X(vkDestroyBuffer)                     \
  X(vkDestroyCommandPool)                \
  X(vkDestroyDevice)                     \
  X(vkDestroyPipeline)                   \
  X(vkDestroyPipelineCache)              \
  X(vkDestroyPipelineLayout)             \
  X(vkDestroyQueryPool)                  \
  X(vkDestroySemaphore)                  \
  X(vkDestroyShaderModule)               \
  X(vkDeviceWaitIdle)                    \
  X(vkEndCommandBuffer)                  \
  X(vkFlushMappedMemoryRanges)           \
  X(vkFreeMemory)                        \
  X(vkGetBufferDeviceAddress)            \
  X(vkGetBufferMemoryRequirements)       \
  X(vkGetDeviceFaultInfoEXT)             \
  X(vkGetDeviceQueue)                    \
  X(vkGetMemoryHostPointerPropertiesEXT) \
  X(vkGetPipelineCacheData)              \
  X(vkGetQueryPoolResults)               \
  X(vkGetSemaphoreCounterValue)          \
  X(vkInvalidateMappedMemoryRanges)      \
  X(vkMapMemory)                         \
  X(vkQueueSubmit)                       \
  X(vkResetCommandPool)                  \
  X(vkWaitSemaphores)

// One of the functions; called like it. Other threads may call while it is replaced.
template <typename Function>
class DeviceFunction {
 public:
  operator Function() const { return function_.load(std::memory_order_relaxed); }
  DeviceFunction& operator=(Function function) {
    function_.store(function, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<Function> function_{nullptr};
};

struct DeviceFunctions {
#define HY_MEMBER(name) DeviceFunction<PFN_##name> name;
  HY_VULKAN_DEVICE_FUNCTIONS(HY_MEMBER)
#undef HY_MEMBER

  // Null where the device lacks a function's extension.
  void Load(VkDevice device);
  // From now on every function does nothing, writes nothing and answers VK_ERROR_DEVICE_LOST, zero
  // or nothing. Thread-safe; calls that are already in the driver are not waited for.
  void Forget();
};

}  // namespace halyard::drivers::vulkan
