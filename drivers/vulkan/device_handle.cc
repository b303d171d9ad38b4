// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/device_handle.h"

#include <algorithm>

namespace halyard::drivers::vulkan {

Result<std::shared_ptr<DeviceHandle>> DeviceHandle::Open(const PhysicalDevice& physical,
                                                         uint32_t queue_count) {
  auto made = std::make_shared<DeviceHandle>();
  made->physical = &physical;
  made->compute_family = ComputeFamily(physical);
  made->transfer_family = TransferFamily(physical);
  made->compute_queues =
      std::min(queue_count, physical.queue_families[made->compute_family].queueCount);
  made->features = FeaturesToEnable(physical);
  LinkFeatures(physical, &made->features);
  std::vector<const char*> extensions = ExtensionsToEnable(physical);

  const std::vector<float> priorities(made->compute_queues, 1.0f);
  VkDeviceQueueCreateInfo queues[2] = {};
  queues[0].sType = queues[1].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queues[0].queueFamilyIndex = made->compute_family;
  queues[0].queueCount = made->compute_queues;
  queues[1].queueFamilyIndex = made->transfer_family;
  queues[1].queueCount = 1;
  queues[0].pQueuePriorities = queues[1].pQueuePriorities = priorities.data();
  auto info = Typed<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  info.pNext = &made->features.base;
  info.queueCreateInfoCount = made->transfer_family == made->compute_family ? 1 : 2;
  info.pQueueCreateInfos = queues;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult result = vkCreateDevice(physical.handle, &info, nullptr, &made->device);
  if (result != VK_SUCCESS) made->device = VK_NULL_HANDLE;
  HY_TRY_CONTEXT(StatusFromVk(result, "vkCreateDevice"), "opening '{}'", physical.name());
  made->vk.Load(made->device);
  if (!made->features.fault.deviceFault) made->vk.vkGetDeviceFaultInfoEXT = nullptr;
  return made;
}

DeviceHandle::~DeviceHandle() {
  if (device != VK_NULL_HANDLE) vk.vkDestroyDevice(device, nullptr);
}

}  // namespace halyard::drivers::vulkan
