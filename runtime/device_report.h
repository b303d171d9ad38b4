// SPDX-License-Identifier: Apache-2.0
// What `halyard devices` prints of one device: capabilities and state, each value with its source.
#pragma once

#include <string>

#include "base/status.h"
#include "hal/device.h"
#include "runtime/report.h"

namespace halyard::runtime {

// Text or JSON (the "device" of docs/devices.schema.json). UNIMPLEMENTED for other formats. Opens
// the vendor's library of matrix products, whose version is a note.
Result<std::string> MakeDeviceReport(hal::Device& device, ReportFormat format);

}  // namespace halyard::runtime
