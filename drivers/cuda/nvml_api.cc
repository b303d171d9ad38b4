// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/nvml_api.h"

#include "base/dylib.h"
#include "base/env.h"

namespace halyard::drivers::cuda {

Result<std::shared_ptr<const NvmlApi>> NvmlApi::Load() {
  const std::string path = EnvString(EnvVar::kNvmlLibrary);
  HY_ASSIGN(DynamicLibrary library, DynamicLibrary::Open(path));
  auto api = std::make_shared<NvmlApi>();
#define HY_NVML_FIND(name, parameters)                               \
  if (Result<void*> symbol = library.FindSymbol(#name); symbol.ok()) \
    api->name = reinterpret_cast<decltype(api->name)>(*symbol);
  HY_NVML_FUNCTIONS(HY_NVML_FIND)
#undef HY_NVML_FIND
  if (!api->nvmlInit_v2 || !api->nvmlDeviceGetHandleByPciBusId_v2) {
    return Unavailable("Library '{}' lacks {}.", path,
                       api->nvmlInit_v2 ? "nvmlDeviceGetHandleByPciBusId_v2" : "nvmlInit_v2");
  }
  if (const nvmlReturn_t result = api->nvmlInit_v2(); result != NVML_SUCCESS) {
    return Unavailable("nvmlInit_v2 of library '{}' failed with NVML error {}.", path,
                       static_cast<int>(result));
  }
  return std::shared_ptr<const NvmlApi>(std::move(api));
}

}  // namespace halyard::drivers::cuda
