// SPDX-License-Identifier: Apache-2.0
// That the Vulkan validation layer is heard, without which its silence in the conformance suite
// would mean nothing. In a process of its own, because the suite counts its messages.
#include <cstdlib>

#include "drivers/vulkan/device_handle.h"
#include "drivers/vulkan/instance.h"
#include "tests/drivers/vulkan/vulkan_fixture.h"

namespace halyard::drivers::vulkan {
namespace {

void MisuseAndExit() {
  setenv("HALYARD_VALIDATE", "1", 1);
  setenv("HALYARD_LOG", "off", 1);
  const VulkanInstance* instance = Must(VulkanInstance::Get());
  auto handle = Must(DeviceHandle::Open(instance->devices().at(0), 1));
  bool was_silent = HasValidationLayer() && ValidationMessageCount() == 0;
  VkBufferCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;  // of no bytes and for no use
  VkBuffer buffer = VK_NULL_HANDLE;
  (void)handle->vk.vkCreateBuffer(handle->device, &info, nullptr, &buffer);
  std::exit(was_silent && ValidationMessageCount() > 0 ? 0 : 1);
}

TEST(VulkanValidationLayer, IsUsedAndHeard) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(MisuseAndExit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace halyard::drivers::vulkan
