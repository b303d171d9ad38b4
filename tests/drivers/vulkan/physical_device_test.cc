// SPDX-License-Identifier: Apache-2.0
// Which devices are used and which of their queues, on devices made up for it.
#include "drivers/vulkan/physical_device.h"

#include <gtest/gtest.h>

namespace halyard::drivers::vulkan {
namespace {

VkQueueFamilyProperties Family(VkQueueFlags flags, uint32_t count) {
  VkQueueFamilyProperties family = {};
  family.queueFlags = flags;
  family.queueCount = count;
  family.minImageTransferGranularity = {1, 1, 1};
  return family;
}

PhysicalDevice SoundDevice() {
  PhysicalDevice device;
  device.api_version = VK_API_VERSION_1_2;
  device.features.v12.timelineSemaphore = VK_TRUE;
  device.features.v12.bufferDeviceAddress = VK_TRUE;
  device.features.v12.shaderInt8 = VK_TRUE;
  device.features.v12.storageBuffer8BitAccess = VK_TRUE;
  device.features.base.features.shaderInt64 = VK_TRUE;
  device.queue_families = {Family(VK_QUEUE_COMPUTE_BIT, 1)};
  return device;
}

TEST(VulkanPhysicalDevice, ReasonsToSkipNameWhatIsMissing) {
  EXPECT_EQ(ReasonToSkip(SoundDevice()), "");
  PhysicalDevice device = SoundDevice();
  device.api_version = VK_API_VERSION_1_1;
  EXPECT_EQ(ReasonToSkip(device), "it has Vulkan 1.1; 1.2 is needed.");
  device = SoundDevice();
  device.features.v12.timelineSemaphore = VK_FALSE;
  EXPECT_EQ(ReasonToSkip(device), "it lacks the feature timelineSemaphore.");
  device = SoundDevice();
  device.features.v12.bufferDeviceAddress = VK_FALSE;
  EXPECT_EQ(ReasonToSkip(device), "it lacks the feature bufferDeviceAddress.");
  device = SoundDevice();
  device.features.base.features.shaderInt64 = VK_FALSE;
  EXPECT_EQ(ReasonToSkip(device), "it lacks the feature shaderInt64.");
  device = SoundDevice();
  device.features.v12.shaderInt8 = VK_FALSE;
  EXPECT_EQ(ReasonToSkip(device), "it lacks the feature shaderInt8.");
  device = SoundDevice();
  device.features.v12.storageBuffer8BitAccess = VK_FALSE;
  EXPECT_EQ(ReasonToSkip(device), "it lacks the feature storageBuffer8BitAccess.");
  device = SoundDevice();
  device.queue_families = {Family(VK_QUEUE_GRAPHICS_BIT, 1), Family(VK_QUEUE_COMPUTE_BIT, 0)};
  EXPECT_EQ(ReasonToSkip(device), "it has no queue for computing.");
}

TEST(VulkanPhysicalDevice, AutoTakesGpusAlone) {
  PhysicalDevice device = SoundDevice();
  for (const auto type :
       {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
        VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU}) {
    device.properties.deviceType = type;
    EXPECT_EQ(ReasonToLeaveOut(device), "");
  }
  device.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
  EXPECT_EQ(ReasonToLeaveOut(device), "it is the processor, which 'cpu:0' is too");
  device.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  EXPECT_NE(ReasonToLeaveOut(device), "");
}

TEST(VulkanPhysicalDevice, FamiliesForOnePurposeAreChosen) {
  PhysicalDevice device = SoundDevice();
  const VkQueueFlags copy = VK_QUEUE_TRANSFER_BIT, compute = VK_QUEUE_COMPUTE_BIT | copy;
  device.queue_families = {Family(compute | VK_QUEUE_GRAPHICS_BIT, 16)};
  EXPECT_EQ(ComputeFamily(device), 0u);
  EXPECT_EQ(TransferFamily(device), 0u);
  // A video family copies as well, but is not for that.
  device.queue_families.push_back(Family(copy | VK_QUEUE_VIDEO_DECODE_BIT_KHR, 1));
  EXPECT_EQ(TransferFamily(device), 0u);
  device.queue_families.push_back(Family(compute, 8));
  EXPECT_EQ(ComputeFamily(device), 2u);
  EXPECT_EQ(TransferFamily(device), 2u);
  device.queue_families.push_back(Family(copy | VK_QUEUE_SPARSE_BINDING_BIT, 2));
  EXPECT_EQ(TransferFamily(device), 3u);
}

TEST(VulkanPhysicalDevice, OnlyFeaturesThatKernelsUseAreEnabled) {
  PhysicalDevice device = SoundDevice();
  device.features.base.features.robustBufferAccess = VK_TRUE;
  device.features.base.features.geometryShader = VK_TRUE;
  device.features.matrix.cooperativeMatrix = VK_TRUE;
  device.features.matrix.cooperativeMatrixRobustBufferAccess = VK_TRUE;
  Features on = FeaturesToEnable(device);
  EXPECT_FALSE(on.base.features.robustBufferAccess);
  EXPECT_FALSE(on.base.features.geometryShader);
  EXPECT_TRUE(on.base.features.shaderInt64);
  EXPECT_TRUE(on.v12.timelineSemaphore);
  EXPECT_TRUE(on.matrix.cooperativeMatrix);
  EXPECT_FALSE(on.matrix.cooperativeMatrixRobustBufferAccess);
}

}  // namespace
}  // namespace halyard::drivers::vulkan
