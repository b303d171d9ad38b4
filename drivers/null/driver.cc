// SPDX-License-Identifier: Apache-2.0
#include "drivers/null/driver.h"

#include "drivers/null/device.h"

namespace halyard::drivers::null {
namespace {

class NullDriver final : public hal::Driver {
 public:
  std::string_view name() const override { return "null"; }
  bool is_listed() const override { return false; }

  Result<std::vector<hal::DeviceInfo>> EnumerateDevices() override {
    return std::vector<hal::DeviceInfo>{{"null:0", "Null device", "", "it runs nothing"}};
  }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    if (ordinal != 0) return NotFound("There is no null device {}; there is one.", ordinal);
    if (!options.empty()) {
      return InvalidArgument("The null driver has no option '{}'; it has none.", options[0].key);
    }
    return Ref<hal::Device>(MakeRef<NullDevice>());
  }
};

}  // namespace

Result<Ref<hal::Driver>> OpenNullDriver() { return Ref<hal::Driver>(MakeRef<NullDriver>()); }

}  // namespace halyard::drivers::null
