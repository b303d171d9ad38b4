// SPDX-License-Identifier: Apache-2.0
// Driver: finds the devices of one API and opens them. It holds no device state itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hal/device.h"
#include "hal/ref.h"

namespace halyard::hal {

struct DeviceInfo {
  std::string path;  // "cpu:0"
  std::string name;  // what the vendor calls it
  std::string uuid;  // equal for the same silicon under two drivers; empty when unknown
  std::string left_out =
      {};  // why "auto" leaves it out, such as "it is synthetic"; empty: it does not
};

// One `key=value` of a device path such as "cpu:0?threads=2&discrete=7".
struct DeviceOption {
  std::string key;
  std::string value;
};

// Thread-safe.
class Driver : public RefCounted {
 public:
  virtual std::string_view name() const = 0;
  // False: only for those who name it; never offered to users or to placement.
  virtual bool is_listed() const { return true; }
  // In a stable order; empty when the API works and there is no device.
  virtual Result<std::vector<DeviceInfo>> EnumerateDevices() = 0;
  // A sentence for each device that the API shows and this driver cannot use: which, and why.
  virtual std::vector<std::string> SkippedDevices() { return {}; }
  // NOT_FOUND names how many devices there are; INVALID_ARGUMENT an unknown option and those known;
  // UNAVAILABLE why the device is among those skipped. Another failure: the device is there and
  // cannot be opened, as where its memory is full or another process has it alone.
  virtual Result<Ref<Device>> CreateDevice(uint32_t ordinal,
                                           std::span<const DeviceOption> options) = 0;
};

}  // namespace halyard::hal
