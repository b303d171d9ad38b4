// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/driver.h"

#include "drivers/cuda/capabilities.h"
#include "drivers/cuda/device.h"
#include "drivers/cuda/options.h"

namespace halyard::drivers::cuda {
namespace {

class CudaDriver final : public hal::Driver {
 public:
  explicit CudaDriver(std::shared_ptr<const CudaApi> api) : api_(std::move(api)) {}

  std::string_view name() const override { return "cuda"; }

  Result<std::vector<hal::DeviceInfo>> EnumerateDevices() override {
    HY_ASSIGN(int count, CountDevices());
    std::vector<hal::DeviceInfo> devices;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice device = 0;
      HY_CUDA_TRY(*api_, cuDeviceGet, &device, ordinal);
      char name[256] = "";
      HY_CUDA_TRY(*api_, cuDeviceGetName, name, sizeof(name), device);
      CUuuid uuid = {};
      HY_CUDA_TRY(*api_, cuDeviceGetUuid_v2, &uuid, device);
      devices.push_back({fmt::format("cuda:{}", ordinal), name, FormatUuid(uuid)});
    }
    return devices;
  }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    HY_ASSIGN(int count, CountDevices());
    if (ordinal >= static_cast<uint32_t>(count)) {
      return NotFound("There is no CUDA device {}; there are {}.", ordinal, count);
    }
    HY_ASSIGN(CudaOptions parsed, ParseCudaOptions(options));
    HY_ASSIGN(Ref<CudaDevice> device, CudaDevice::Open(api_, ordinal, parsed));
    return Ref<hal::Device>(std::move(device));
  }

 private:
  Result<int> CountDevices() const {
    int count = 0;
    HY_CUDA_TRY(*api_, cuDeviceGetCount, &count);
    return count;
  }

  const std::shared_ptr<const CudaApi> api_;
};

}  // namespace

Result<Ref<hal::Driver>> OpenCudaDriver() {
  HY_ASSIGN(std::shared_ptr<const CudaApi> api, CudaApi::Load());
  return Ref<hal::Driver>(MakeRef<CudaDriver>(std::move(api)));
}

}  // namespace halyard::drivers::cuda
