// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/cuda_api.h"

#include "base/dylib.h"
#include "base/env.h"

namespace halyard::drivers::cuda {
namespace {

// What stands in the way of cuInit, in words that help.
std::string_view HintFor(CUresult error) {
  switch (error) {
    case CUDA_ERROR_NO_DEVICE:
      return " The driver finds no GPU that this process may use.";
    case CUDA_ERROR_STUB_LIBRARY:
      return " This is the toolkit's stub for linking, not a driver.";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return " The library and the kernel module are of different driver versions.";
    case CUDA_ERROR_UNKNOWN:
      return " Often the kernel module is not loaded or /dev/nvidia* cannot be opened.";
    default:
      return "";
  }
}

}  // namespace

Result<std::shared_ptr<const CudaApi>> CudaApi::Load() {
  const std::string path = EnvString(EnvVar::kCudaLibrary);
  HY_ASSIGN(DynamicLibrary library, DynamicLibrary::Open(path));
  auto api = std::make_shared<CudaApi>();
  api->library = path;
  std::string missing;
  int missing_count = 0;
  auto find = [&](const char* name) -> void* {
    Result<void*> symbol = library.FindSymbol(name);
    return symbol.ok() ? *symbol : nullptr;
  };
#define HY_CUDA_FIND(name, parameters) \
  api->name = reinterpret_cast<decltype(api->name)>(find(#name));
  HY_CUDA_FUNCTIONS(HY_CUDA_FIND)
  HY_CUDA_OPTIONAL_FUNCTIONS(HY_CUDA_FIND)
#undef HY_CUDA_FIND
  const auto takes_kernel_ir = reinterpret_cast<int (*)()>(find("halyard_takes_kernel_ir"));
  api->halyard_takes_kernel_ir = takes_kernel_ir && takes_kernel_ir() != 0;
  // The version first: an old driver lacks symbols because it is old.
  if (api->cuDriverGetVersion) {
    CUresult result = api->cuDriverGetVersion(&api->driver_version);
    if (result != CUDA_SUCCESS) {
      return Unavailable("cuDriverGetVersion of library '{}' failed with {}.{}", path,
                         api->FormatError(result), HintFor(result));
    }
    if (api->driver_version < kOldestDriver) {
      return Unavailable("Library '{}' is a driver for CUDA {}.{}; Halyard needs {}.{} or newer.",
                         path, api->driver_version / 1000, api->driver_version % 1000 / 10,
                         kOldestDriver / 1000, kOldestDriver % 1000 / 10);
    }
  }
#define HY_CUDA_REQUIRE(name, parameters) \
  if (!api->name && missing_count++ < 3) missing += missing.empty() ? #name : ", " #name;
  HY_CUDA_FUNCTIONS(HY_CUDA_REQUIRE)
#undef HY_CUDA_REQUIRE
  if (missing_count > 3) missing += fmt::format(" and {} more functions", missing_count - 3);
  if (missing_count > 0) return Unavailable("Library '{}' lacks {}.", path, missing);
  CUresult result = api->cuInit(0);
  if (result != CUDA_SUCCESS) {
    return Unavailable("cuInit of library '{}' failed with {}.{}", path, api->FormatError(result),
                       HintFor(result));
  }
  return std::shared_ptr<const CudaApi>(std::move(api));
}

std::string CudaApi::FormatError(CUresult error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName && cuGetErrorName(error, &name) != CUDA_SUCCESS) name = nullptr;
  if (cuGetErrorString && cuGetErrorString(error, &text) != CUDA_SUCCESS) text = nullptr;
  std::string label = name ? name : fmt::format("CUDA error {}", static_cast<int>(error));
  return text ? fmt::format("{} ({})", label, text) : label;
}

bool IsSticky(CUresult error) {
  switch (error) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

Status CudaApi::Check(CUresult error, const char* function) const {
  if (error == CUDA_SUCCESS) return OkStatus();
  StatusCode code = StatusCode::kInternal;
  if (IsSticky(error)) code = StatusCode::kDeviceLost;
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      code = StatusCode::kOutOfMemory;
      break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED:
      code = StatusCode::kIncompatible;
      break;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
      code = StatusCode::kDataLoss;
      break;
    case CUDA_ERROR_NOT_FOUND:
      code = StatusCode::kNotFound;
      break;
    default:
      break;
  }
  return Status(code, fmt::format("{} failed with {}.", function, FormatError(error)));
}

}  // namespace halyard::drivers::cuda
