// SPDX-License-Identifier: Apache-2.0
// Whether two devices are the same chip, seen by two drivers.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/capabilities.h"
#include "hal/driver.h"

namespace halyard::runtime {

// By UUID, and by PCI address where a UUID is missing. A device cut into instances has one address
// and several UUIDs, so an address alone never joins those. On doubt they are two.
bool IsSameSilicon(const hal::Capabilities& a, const hal::Capabilities& b);

// "auto" counts no chip twice: marks those of `devices` as left out whose UUID an earlier one of
// them, or one of `seen`, has that "auto" takes. Devices without a UUID are taken.
void LeaveOutSeen(std::span<const hal::DeviceInfo> seen, std::vector<hal::DeviceInfo>& devices);

// Devices that "auto" wanted and could not open. The next way to such a chip takes its place.
class ClosedDevices {
 public:
  void Add(std::string_view path);
  // Whether `device` was left out because of one of them, for which no other has come in yet.
  bool AreReplacedBy(const hal::DeviceInfo& device);

 private:
  std::set<std::string> reasons_;  // why other ways to them were left out
};

}  // namespace halyard::runtime
