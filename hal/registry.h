// SPDX-License-Identifier: Apache-2.0
// DriverRegistry: the drivers that a process may open, by name. Which ones exist is decided by
// drivers/init.cc alone; nothing registers itself.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "hal/driver.h"

namespace halyard::hal {

// Thread-safe. Opens a driver at most once and remembers the outcome, a failure included.
class DriverRegistry {
 public:
  // Opens the vendor's library. The failure says which library, which symbol or which call failed.
  using Factory = std::function<Result<Ref<Driver>>()>;

  // INVALID_ARGUMENT when the name is taken.
  Status Register(std::string name, Factory factory);
  // In the order of registration.
  std::vector<std::string> names() const;
  // INVALID_ARGUMENT lists the known names; otherwise what the factory answered.
  Result<Ref<Driver>> Open(std::string_view name);
  // "cpu", "cpu:1", "cpu:0?threads=2&discrete=7". Wrapped in the validation layer when
  // HALYARD_VALIDATE is set.
  Result<Ref<Device>> OpenDevice(std::string_view path);

 private:
  struct Entry {
    std::string name;
    Factory factory;
    bool is_open = false;
    Ref<Driver> driver;
    Status status;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

// "name[:ordinal][?key=value&...]"; the ordinal defaults to 0.
struct DevicePath {
  std::string driver;
  uint32_t ordinal = 0;
  std::vector<DeviceOption> options;
};
Result<DevicePath> ParseDevicePath(std::string_view text);
std::string FormatDevicePath(const DevicePath& path);

}  // namespace halyard::hal
