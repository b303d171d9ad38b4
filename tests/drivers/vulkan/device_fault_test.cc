// SPDX-License-Identifier: Apache-2.0
// A device that is lost and tells why: the reason stands in the error, and in the device's state.
#include "drivers/vulkan/device_fault.h"

#include "drivers/vulkan/device.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

constexpr char kFault[] =
    "MMU fault: invalid write within 4096 bytes of 0x7f0000001000, invalid read at 0x10, shader "
    "unit (code 0x2a, data 0x7)";

// As a driver answers: first how many there are, then as many as there is room for.
VKAPI_ATTR VkResult VKAPI_CALL TellFault(VkDevice, VkDeviceFaultCountsEXT* counts,
                                         VkDeviceFaultInfoEXT* info) {
  const VkDeviceFaultAddressInfoEXT addresses[] = {
      {VK_DEVICE_FAULT_ADDRESS_TYPE_NONE_EXT, 0, 0},
      {VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT, 0x7f0000001000, 4096},
      {VK_DEVICE_FAULT_ADDRESS_TYPE_READ_INVALID_EXT, 0x10, 1},
  };
  if (!info) {
    counts->addressInfoCount = 3;
    counts->vendorInfoCount = 1;
    counts->vendorBinarySize = 4000;
    return VK_SUCCESS;
  }
  EXPECT_EQ(counts->vendorBinarySize, 0u) << "nothing is there to write it to";
  std::strcpy(info->description, "MMU fault.\n");
  std::copy_n(addresses, counts->addressInfoCount, info->pAddressInfos);
  std::strcpy(info->pVendorInfos[0].description, "shader\nunit");
  info->pVendorInfos[0].vendorFaultCode = 42;
  info->pVendorInfos[0].vendorFaultData = 7;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL TellNothing(VkDevice, VkDeviceFaultCountsEXT*,
                                           VkDeviceFaultInfoEXT*) {
  return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VKAPI_ATTR VkResult VKAPI_CALL NeverAsked(VkDevice, VkDeviceFaultCountsEXT*,
                                          VkDeviceFaultInfoEXT*) {
  ADD_FAILURE() << "only a lost device may be asked";
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL LoseAtSubmit(VkQueue, uint32_t, const VkSubmitInfo*, VkFence) {
  return VK_ERROR_DEVICE_LOST;
}

class VulkanDeviceFaultTest : public VulkanTest {
 protected:
  DeviceFunctions& functions() {
    return const_cast<DeviceHandle&>(static_cast<VulkanDevice*>(device_.get())->handle()).vk;
  }
  // What comes of a fill.
  Status Fill() {
    Ref<hal::Buffer> buffer = Must(device_->AllocateBuffer(hal::MemoryKind::kDevice, 4096));
    Ref<hal::Semaphore> done = NewSemaphore();
    hal::SemaphorePoint signal{done.get(), 1};
    HY_TRY(device_->QueueFill(0, {{}, {&signal, 1}}, {buffer.get(), 0, 4096}, 0, 1));
    return WaitFor(done, 1);
  }
};

TEST_F(VulkanDeviceFaultTest, ReasonOfALossIsTold) {
  Use();
  functions().vkGetDeviceFaultInfoEXT = &TellFault;
  EXPECT_EQ(device_->ReadState().faults.value, "none");
  functions().vkQueueSubmit = &LoseAtSubmit;
  EXPECT_FAILS(Fill(), kDeviceLost, std::string("Its driver reports: ") + kFault + ".");
  EXPECT_EQ(device_->ReadState().faults.value, kFault);
  EXPECT_EQ(device_->ReadState().faults.source, hal::Source::kApi);
}

TEST_F(VulkanDeviceFaultTest, ADriverWithoutAReason) {
  Use();
  functions().vkGetDeviceFaultInfoEXT = &TellNothing;
  functions().vkQueueSubmit = &LoseAtSubmit;
  const Status status = Fill();
  EXPECT_EQ(status.code(), StatusCode::kDeviceLost);
  EXPECT_EQ(status.ToString().find("reports"), std::string::npos) << status.ToString();
  EXPECT_EQ(device_->ReadState().faults.value, "none");
}

// A loss that is made up, as tests do, is none that the driver knows of.
TEST_F(VulkanDeviceFaultTest, OnlyALostDeviceIsAsked) {
  Use("?lose_at=1");
  functions().vkGetDeviceFaultInfoEXT = &NeverAsked;
  EXPECT_FAILS(Fill(), kDeviceLost, "was lost at its submission 1");
}

TEST_F(VulkanDeviceFaultTest, WithoutTheExtensionFaultsAreUnknown) {
  Use();
  functions().vkGetDeviceFaultInfoEXT = nullptr;
  EXPECT_FALSE(TellsFaults(static_cast<VulkanDevice*>(device_.get())->handle()));
  EXPECT_FALSE(device_->ReadState().faults.known());
}

}  // namespace
}  // namespace halyard::drivers::vulkan
