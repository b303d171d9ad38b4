// SPDX-License-Identifier: Apache-2.0
#include "drivers/vulkan/device_fault.h"

#include <algorithm>
#include <vector>

namespace halyard::drivers::vulkan {
namespace {

// More than a report can use; a driver may have one for each unit of the device.
constexpr uint32_t kMostFaults = 16;

const char* FaultName(VkDeviceFaultAddressTypeEXT type) {
  switch (type) {
    case VK_DEVICE_FAULT_ADDRESS_TYPE_READ_INVALID_EXT:
      return "invalid read";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT:
      return "invalid write";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_EXECUTE_INVALID_EXT:
      return "invalid execution";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_UNKNOWN_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_INVALID_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_FAULT_EXT:
      return "instruction";
    default:
      return nullptr;  // the entry says nothing
  }
}

// Of an array that the driver wrote: until its end, and without the line breaks it may hold.
template <size_t kSize>
std::string OneLine(const char (&text)[kSize]) {
  std::string line(text, std::find(text, text + kSize, '\0'));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
  while (!line.empty() && (line.back() == ' ' || line.back() == '.')) line.pop_back();
  return line;
}

}  // namespace

bool TellsFaults(const DeviceHandle& device) {
  return static_cast<PFN_vkGetDeviceFaultInfoEXT>(device.vk.vkGetDeviceFaultInfoEXT) != nullptr;
}

std::string DescribeFault(const DeviceHandle& device) {
  if (!TellsFaults(device)) return "";
  auto counts = Typed<VkDeviceFaultCountsEXT>(VK_STRUCTURE_TYPE_DEVICE_FAULT_COUNTS_EXT);
  if (device.vk.vkGetDeviceFaultInfoEXT(device.device, &counts, nullptr) < VK_SUCCESS) return "";
  counts.addressInfoCount = std::min(counts.addressInfoCount, kMostFaults);
  counts.vendorInfoCount = std::min(counts.vendorInfoCount, kMostFaults);
  counts.vendorBinarySize = 0;
  std::vector<VkDeviceFaultAddressInfoEXT> addresses(counts.addressInfoCount);
  std::vector<VkDeviceFaultVendorInfoEXT> vendors(counts.vendorInfoCount);
  auto info = Typed<VkDeviceFaultInfoEXT>(VK_STRUCTURE_TYPE_DEVICE_FAULT_INFO_EXT);
  info.pAddressInfos = addresses.data();
  info.pVendorInfos = vendors.data();
  // INCOMPLETE, where there were more, is a success too.
  if (device.vk.vkGetDeviceFaultInfoEXT(device.device, &counts, &info) < VK_SUCCESS) return "";
  addresses.resize(std::min<size_t>(addresses.size(), counts.addressInfoCount));
  vendors.resize(std::min<size_t>(vendors.size(), counts.vendorInfoCount));

  std::string details;
  const auto add = [&](const std::string& detail) {
    details += (details.empty() ? "" : ", ") + detail;
  };
  for (const VkDeviceFaultAddressInfoEXT& address : addresses) {
    const char* name = FaultName(address.addressType);
    if (!name) continue;
    add(address.addressPrecision > 1
            ? fmt::format("{} within {} bytes of {:#x}", name, address.addressPrecision,
                          address.reportedAddress)
            : fmt::format("{} at {:#x}", name, address.reportedAddress));
  }
  for (const VkDeviceFaultVendorInfoEXT& vendor : vendors) {
    add(fmt::format("{} (code {:#x}, data {:#x})", OneLine(vendor.description),
                    vendor.vendorFaultCode, vendor.vendorFaultData));
  }
  const std::string description = OneLine(info.description);
  if (description.empty() || details.empty()) return description + details;
  return description + ": " + details;
}

}  // namespace halyard::drivers::vulkan
