// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/driver.h"

#include "drivers/cuda/capabilities.h"
#include "drivers/cuda/device.h"
#include "drivers/cuda/options.h"

namespace halyard::drivers::cuda {
namespace {

constexpr int kOldestComputeCapability = 75;  // mma.sync; what generated code relies on
constexpr int kComputeModeProhibited = 2;     // CU_COMPUTEMODE_PROHIBITED

class CudaDriver final : public hal::Driver {
 public:
  explicit CudaDriver(std::shared_ptr<const CudaApi> api) : api_(std::move(api)) {}

  std::string_view name() const override { return "cuda"; }

  Result<std::vector<hal::DeviceInfo>> EnumerateDevices() override {
    HY_ASSIGN(const Listing listing, ListDevices());
    return listing.devices;
  }

  std::vector<std::string> SkippedDevices() override {
    const Result<Listing> listing = ListDevices();
    return listing.ok() ? listing->skipped : std::vector<std::string>();
  }

  Result<Ref<hal::Device>> CreateDevice(uint32_t ordinal,
                                        std::span<const hal::DeviceOption> options) override {
    HY_ASSIGN(int count, CountDevices());
    if (ordinal >= static_cast<uint32_t>(count)) {
      return NotFound("There is no CUDA device {}; there are {}.", ordinal, count);
    }
    CUdevice handle = 0;
    HY_CUDA_TRY(*api_, cuDeviceGet, &handle, static_cast<int>(ordinal));
    if (const std::string reason = ReasonToSkip(static_cast<int>(ordinal), handle); !reason.empty())
      return Unavailable("{}", reason);
    HY_ASSIGN(CudaOptions parsed, ParseCudaOptions(options));
    HY_ASSIGN(Ref<CudaDevice> device, CudaDevice::Open(api_, ordinal, parsed));
    return Ref<hal::Device>(std::move(device));
  }

 private:
  struct Listing {
    std::vector<hal::DeviceInfo> devices;
    std::vector<std::string> skipped;
  };

  Result<Listing> ListDevices() const {
    HY_ASSIGN(const int count, CountDevices());
    Listing listing;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice device = 0;
      HY_CUDA_TRY(*api_, cuDeviceGet, &device, ordinal);
      char name[256] = "";
      HY_CUDA_TRY(*api_, cuDeviceGetName, name, sizeof(name), device);
      CUuuid uuid = {};
      HY_CUDA_TRY(*api_, cuDeviceGetUuid_v2, &uuid, device);
      std::string reason = ReasonToSkip(ordinal, device);
      if (reason.empty()) {
        listing.devices.push_back({fmt::format("cuda:{}", ordinal), name, FormatUuid(uuid)});
      } else {
        listing.skipped.push_back(std::move(reason));
      }
    }
    if (count <= 0)
      listing.skipped.push_back(fmt::format("Library '{}' shows no GPU.", api_->library));
    return listing;
  }

  // Empty: the device can be used, or does not tell and is tried.
  std::string ReasonToSkip(int ordinal, CUdevice device) const {
    int major = 0, minor = 0, mode = 0;
    char name[256] = "";
    api_->cuDeviceGetName(name, sizeof(name), device);
    if (api_->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
            CUDA_SUCCESS &&
        api_->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ==
            CUDA_SUCCESS &&
        major * 10 + minor < kOldestComputeCapability) {
      return fmt::format(
          "'{}' (cuda:{}) has compute capability {}.{}; Halyard needs {}.{} or newer.", name,
          ordinal, major, minor, kOldestComputeCapability / 10, kOldestComputeCapability % 10);
    }
    if (api_->cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) ==
            CUDA_SUCCESS &&
        mode == kComputeModeProhibited) {
      return fmt::format(
          "'{}' (cuda:{}) is in compute mode 'prohibited'; `nvidia-smi -c 0` ends it.", name,
          ordinal);
    }
    return "";
  }

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
