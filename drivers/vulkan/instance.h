// SPDX-License-Identifier: Apache-2.0
// VulkanInstance: the process's one VkInstance and the physical devices behind it. It is made at
// the first use and never destroyed, because drivers register things that outlive any owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/vulkan/physical_device.h"
#include "drivers/vulkan/vulkan_api.h"

namespace halyard::drivers::vulkan {

class VulkanInstance {
 public:
  // Thread-safe. UNAVAILABLE says which library, driver or call failed; a later call tries again.
  static Result<const VulkanInstance*> Get();

  VkInstance handle() const { return handle_; }
  // Those that this driver can use: discrete, integrated, virtual, then processors, each kind in
  // the order of PCI addresses.
  const std::vector<PhysicalDevice>& devices() const { return devices_; }
  // One sentence per device that it cannot use.
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  VulkanInstance() = default;
  Status Create();
  Status Enumerate();

  VkInstance handle_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
  std::vector<std::string> skipped_;
};

// Messages of the validation layer so far, warnings and errors. The layer is used when
// HALYARD_VALIDATE is set and the layer is installed; its messages are logged as errors.
int64_t ValidationMessageCount();
// Whether it is in use.
bool HasValidationLayer();

}  // namespace halyard::drivers::vulkan
