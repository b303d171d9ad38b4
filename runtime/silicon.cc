// SPDX-License-Identifier: Apache-2.0
#include "runtime/silicon.h"

namespace halyard::runtime {
namespace {

std::string SameSiliconAs(std::string_view path) {
  return fmt::format("it is the same silicon as '{}'", path);
}

}  // namespace

bool IsSameSilicon(const hal::Capabilities& a, const hal::Capabilities& b) {
  if (a.identity.uuid.known() && b.identity.uuid.known()) {
    return a.identity.uuid.value == b.identity.uuid.value;
  }
  if (a.partition.is_mig_enabled.ValueOr(false) || b.partition.is_mig_enabled.ValueOr(false)) {
    return false;
  }
  return a.identity.pci_address.known() && b.identity.pci_address.known() &&
         a.identity.pci_address.value == b.identity.pci_address.value;
}

void LeaveOutSeen(std::span<const hal::DeviceInfo> seen, std::vector<hal::DeviceInfo>& devices) {
  std::vector<hal::DeviceInfo> earlier(seen.begin(), seen.end());
  for (hal::DeviceInfo& device : devices) {
    // Drivers that know no UUID give zeros.
    const bool is_known = device.uuid.find_first_not_of("0-") != std::string::npos;
    for (const hal::DeviceInfo& other : earlier) {
      if (!is_known || !device.left_out.empty()) break;
      if (other.left_out.empty() && other.uuid == device.uuid) {
        device.left_out = SameSiliconAs(other.path);
      }
    }
    earlier.push_back(device);
  }
}

void ClosedDevices::Add(std::string_view path) { reasons_.insert(SameSiliconAs(path)); }

bool ClosedDevices::AreReplacedBy(const hal::DeviceInfo& device) {
  return reasons_.erase(device.left_out) > 0;
}

}  // namespace halyard::runtime
