// SPDX-License-Identifier: Apache-2.0
// Whether two devices are the same chip, seen by two drivers.
#pragma once

#include <span>
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

}  // namespace halyard::runtime
