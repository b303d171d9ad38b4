// SPDX-License-Identifier: Apache-2.0
// What the operating system tells of a PCI device, whatever its driver: the link, the host's memory
// node beside it, and what its hardware monitor reads.
#pragma once

#include <string>
#include <string_view>

#include "base/system_files.h"
#include "hal/capabilities.h"

namespace halyard::hal {

// Bytes per second of one direction before packets: 2.5 and 5 GT/s carry 8 of 10 bits, later
// generations 128 of 130 until 6.0. 0 for a generation that is not known here.
double PciePeakBytesPerSecond(int64_t generation, int64_t width);

// Fill what is still unknown. `address`: "0000:3b:00.0"; an empty one fills nothing.
void DescribePci(const SystemFiles& files, std::string_view address, Links* links);
void ReadPciState(const SystemFiles& files, std::string_view address, DeviceState* state);

}  // namespace halyard::hal
