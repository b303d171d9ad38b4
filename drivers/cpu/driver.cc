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
    const std::string name = id.brand.empty() ? "CPU" : id.brand;
    std::vector<hal::DeviceInfo> devices = {{"cpu:0", name, uuid}};
    HY_ASSIGN(const auto synthetic, SyntheticDevices());
    while (devices.size() <= synthetic.size()) {
      devices.push_back({fmt::format("cpu:{}", devices.size()), "synthetic device on " + name, "",
                         "it is synthetic"});
    }
    return devices;
  }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    HY_ASSIGN(const auto synthetic, SyntheticDevices());
    std::vector<hal::DeviceOption> all;
    if (ordinal >= 1 && ordinal <= synthetic.size()) all = synthetic[ordinal - 1];
    all.insert(all.end(), options.begin(), options.end());
    HY_ASSIGN(CpuOptions parsed, ParseCpuOptions(all));
    // One device over one node each: the others have numbers of their own.
    if (ordinal != 0 && parsed.synthetic == 0 && parsed.numa < 0) {
      return NotFound("There is no CPU device {}; there {}.", ordinal,
                      synthetic.empty() ? "is one" : fmt::format("are {}", synthetic.size() + 1));
    }
    HY_ASSIGN(Ref<CpuDevice> device, CpuDevice::Open(parsed, ordinal));
    return Ref<hal::Device>(std::move(device));
  }
};

}  // namespace

Result<Ref<hal::Driver>> OpenCpuDriver() { return Ref<hal::Driver>(MakeRef<CpuDriver>()); }

}  // namespace halyard::drivers::cpu
