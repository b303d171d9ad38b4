// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/cudnn_api.h"

#include <algorithm>

#include "base/dylib.h"
#include "base/env.h"
#include "base/nvidia_libraries.h"

namespace halyard::drivers::cuda {
namespace {

constexpr uint64_t kOldestCudnn = 91900;  // that was tried

Result<std::shared_ptr<const CudnnApi>> LoadFrom(const DynamicLibrary& library) {
  auto api = std::make_shared<CudnnApi>();
  api->library = library.path();
#define HY_CUDNN_FIND(result, name, parameters)                                            \
  {                                                                                        \
    Result<void*> symbol = library.FindSymbol(#name);                                      \
    if (!symbol.ok()) return Unavailable("Library '{}' lacks {}.", library.path(), #name); \
    api->name = reinterpret_cast<decltype(api->name)>(*symbol);                            \
  }
  HY_CUDNN_FUNCTIONS(HY_CUDNN_FIND)
#undef HY_CUDNN_FIND
  api->version = api->cudnnGetVersion();
  if (api->version < kOldestCudnn) {
    return Unavailable("Library '{}' is cuDNN {}; Halyard takes {} and newer.", library.path(),
                       FormatCudnnVersion(api->version), FormatCudnnVersion(kOldestCudnn));
  }
  return std::shared_ptr<const CudnnApi>(std::move(api));
}

}  // namespace

std::string FormatCudnnVersion(uint64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<std::shared_ptr<const CudnnApi>> CudnnApi::Load() {
  const std::string named = EnvString(EnvVar::kCudnnLibrary);
  if (!named.empty()) {
    HY_ASSIGN(const DynamicLibrary library, DynamicLibrary::Open(named));
    return LoadFrom(library);
  }
  // Python packages are often newer than what the system has, and the first is the only one to be
  // opened: the parts of a release find each other by names that all releases share.
  constexpr std::string_view kVersions[] = {"9"};
  std::vector<std::string> candidates = NvidiaLibraryCandidates("libcudnn", kVersions);
  std::stable_partition(candidates.begin(), candidates.end(), [](const std::string& candidate) {
    return candidate.find('/') != candidate.npos;
  });
  const Result<DynamicLibrary> library = DynamicLibrary::OpenFirst(candidates);
  if (library.ok()) return LoadFrom(*library);
  return Unavailable(
      "cuDNN was not found; install it, or name it in HALYARD_CUDNN_LIBRARY. Tried: {}.",
      fmt::join(candidates, ", "));
}

Status CudnnApi::Check(cudnnStatus_t status, const char* function) const {
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  StatusCode code = StatusCode::kInternal;
  const int category = static_cast<int>(status) / 1000;
  if (category == 1) code = StatusCode::kUnavailable;
  if (category == 2 || category == 3) code = StatusCode::kIncompatible;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = StatusCode::kOutOfMemory;
  }
  const char* name = cudnnGetErrorString(status);
  char reason[256] = "";
  cudnnGetLastErrorString(reason, sizeof(reason));
  reason[sizeof(reason) - 1] = '\0';
  std::string text =
      fmt::format("{} failed with {}", function,
                  name != nullptr ? name : fmt::format("status {}", static_cast<int>(status)));
  if (reason[0] != '\0') text += fmt::format(" ({})", reason);
  return Status(code, text + ".");
}

}  // namespace halyard::drivers::cuda
