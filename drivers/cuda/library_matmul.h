// SPDX-License-Identifier: Apache-2.0
// Products that cuBLASLt computes (library_call.h): its handle of one device; a product as its
// descriptors is in the source.
#pragma once

#include <memory>
#include <vector>

#include "drivers/cuda/cublaslt_api.h"
#include "drivers/cuda/library_call.h"

namespace halyard::drivers::cuda {

// cuBLASLt in the context of one device. Of its proposals, sums that pass through a narrower type
// than f32 are left out.
class MatmulLibrary final : public VendorLibrary {
 public:
  static Result<std::unique_ptr<VendorLibrary>> Open(Context& context, uint64_t device_hash);
  ~MatmulLibrary() override;

  std::string Describe() const override;
  Result<std::unique_ptr<LibraryCall>> Create(const GpuLibraryCall& call,
                                              uint32_t binding_count) override;
  Result<std::vector<GpuLibraryCall>> Propose(const GpuLibraryCall& wanted, size_t most) override;

  const CublasLtApi& api() const { return *api_; }
  cublasLtHandle_t handle() const { return handle_; }

 private:
  MatmulLibrary(std::shared_ptr<const CublasLtApi> api, Context& context, uint64_t device_hash)
      : VendorLibrary(context, device_hash), api_(std::move(api)) {}

  const std::shared_ptr<const CublasLtApi> api_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace halyard::drivers::cuda
