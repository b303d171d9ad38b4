// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/cublaslt_api.h"

#include "base/dylib.h"
#include "base/env.h"
#include "base/nvidia_libraries.h"

namespace halyard::drivers::cuda {
namespace {

// Older releases number themselves otherwise and lack layouts that we set.
constexpr uint64_t kOldestVersion = 120000;

}  // namespace

std::string FormatCublasLtVersion(uint64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<std::shared_ptr<const CublasLtApi>> CublasLtApi::Load() {
  const std::string named = EnvString(EnvVar::kCublasLtLibrary);
  Result<DynamicLibrary> library = Unavailable("not opened");
  if (!named.empty()) {
    library = DynamicLibrary::Open(named);
    if (!library.ok()) return library.status();
  } else {
    constexpr std::string_view kVersions[] = {"13", "12"};
    const std::vector<std::string> candidates = NvidiaLibraryCandidates("libcublasLt", kVersions);
    library = DynamicLibrary::OpenFirst(candidates);
    if (!library.ok()) {
      return Unavailable(
          "cuBLASLt was not found; install it, or name it in HALYARD_CUBLASLT_LIBRARY. Tried: {}.",
          fmt::join(candidates, ", "));
    }
  }
  auto api = std::make_shared<CublasLtApi>();
  api->library = library->path();
#define HY_CUBLASLT_FIND(result, name, parameters)                                          \
  {                                                                                         \
    Result<void*> symbol = library->FindSymbol(#name);                                      \
    if (!symbol.ok()) return Unavailable("Library '{}' lacks {}.", library->path(), #name); \
    api->name = reinterpret_cast<decltype(api->name)>(*symbol);                             \
  }
  HY_CUBLASLT_FUNCTIONS(HY_CUBLASLT_FIND)
#undef HY_CUBLASLT_FIND
  api->version = api->cublasLtGetVersion();
  if (api->version < kOldestVersion) {
    return Unavailable("Library '{}' is cuBLASLt {}; Halyard takes {} and newer.", library->path(),
                       FormatCublasLtVersion(api->version), FormatCublasLtVersion(kOldestVersion));
  }
  return std::shared_ptr<const CublasLtApi>(std::move(api));
}

Status CublasLtApi::Check(cublasStatus_t status, const char* function) const {
  if (status == CUBLAS_STATUS_SUCCESS) return OkStatus();
  StatusCode code = StatusCode::kInternal;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = StatusCode::kOutOfMemory;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH ||
      status == CUBLAS_STATUS_INVALID_VALUE) {
    code = StatusCode::kIncompatible;
  }
  const char* name = cublasLtGetStatusName(status);
  return Status(code,
                fmt::format("{} failed with {}.", function,
                            name ? name : fmt::format("status {}", static_cast<int>(status))));
}

}  // namespace halyard::drivers::cuda
