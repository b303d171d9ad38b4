// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/driver.h"

#include "drivers/vulkan/capabilities.h"
#include "drivers/vulkan/device.h"
#include "drivers/vulkan/instance.h"
#include "drivers/vulkan/options.h"

namespace halyard::drivers::vulkan {
namespace {

class VulkanDriver final : public hal::Driver {
 public:
  explicit VulkanDriver(const VulkanInstance* instance) : instance_(instance) {}

  std::string_view name() const override { return "vulkan"; }

  Result<std::vector<hal::DeviceInfo>> EnumerateDevices() override {
    std::vector<hal::DeviceInfo> infos;
    for (const PhysicalDevice& device : instance_->devices()) {
      infos.push_back({fmt::format("vulkan:{}", infos.size()), std::string(device.name()),
                       FormatUuid(device.v11.deviceUUID), ReasonToLeaveOut(device)});
    }
    return infos;
  }

  std::vector<std::string> SkippedDevices() override { return instance_->skipped(); }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    const std::vector<PhysicalDevice>& devices = instance_->devices();
    if (ordinal >= devices.size()) {
      std::string skipped;
      for (const std::string& reason : instance_->skipped()) skipped += " " + reason;
      return NotFound("There is no Vulkan device {}; there are {}.{}", ordinal, devices.size(),
                      skipped);
    }
    HY_ASSIGN(VulkanOptions parsed, ParseVulkanOptions(options));
    HY_ASSIGN(Ref<VulkanDevice> device, VulkanDevice::Open(devices[ordinal], ordinal, parsed));
    return Ref<hal::Device>(std::move(device));
  }

 private:
  const VulkanInstance* instance_;
};

}  // namespace

Result<Ref<hal::Driver>> OpenVulkanDriver() {
  HY_ASSIGN(const VulkanInstance* instance, VulkanInstance::Get());
  return Ref<hal::Driver>(MakeRef<VulkanDriver>(instance));
}

}  // namespace halyard::drivers::vulkan
