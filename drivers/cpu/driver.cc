// SPDX-License-Identifier: Apache-2.0
#include "drivers/cpu/driver.h"

#include <fstream>

#include "drivers/cpu/device.h"
#include "drivers/cpu/features.h"
#include "drivers/cpu/options.h"

namespace halyard::drivers::cpu {
namespace {

class CpuDriver final : public hal::Driver {
 public:
  std::string_view name() const override { return "cpu"; }

  Result<std::vector<hal::DeviceInfo>> EnumerateDevices() override {
    CpuId id = DetectCpu();
    std::ifstream stream("/etc/machine-id");
    std::string uuid;
    std::getline(stream, uuid);
    return std::vector<hal::DeviceInfo>{{"cpu:0", id.brand.empty() ? "CPU" : id.brand, uuid}};
  }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    if (ordinal != 0) return NotFound("There is no CPU device {}; there is one.", ordinal);
    HY_ASSIGN(CpuOptions parsed, ParseCpuOptions(options));
    HY_ASSIGN(Ref<CpuDevice> device, CpuDevice::Open(parsed));
    return Ref<hal::Device>(std::move(device));
  }
};

}  // namespace

Result<Ref<hal::Driver>> OpenCpuDriver() { return Ref<hal::Driver>(MakeRef<CpuDriver>()); }

}  // namespace halyard::drivers::cpu
