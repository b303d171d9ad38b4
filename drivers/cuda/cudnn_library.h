// SPDX-License-Identifier: Apache-2.0
// cuDNN of one device, and what its graph interface is made of: descriptors with attributes. A
// graph of operations with an engine that computes it is a plan; what graph stands for a record is
// in library_convolution.h.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "drivers/cuda/cudnn_api.h"
#include "drivers/cuda/library_call.h"

namespace halyard::drivers::cuda {

// Owns one of the library's descriptors. Attributes are set, then it is finished and only read.
class CudnnDescriptor {
 public:
  static Result<CudnnDescriptor> Create(const CudnnApi& api, cudnnBackendDescriptorType_t type);
  CudnnDescriptor() = default;
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { *this = std::move(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
             const void* values);
  Status Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values);
  Status Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other);
  Status Finish();
  // How many of at most `room` values it wrote.
  Result<int64_t> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t room, void* values) const;
  Status GetOne(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                void* value) const;

  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  const CudnnApi* api_ = nullptr;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

// A graph of operations, with the descriptors that it is made of.
struct CudnnGraph {
  std::vector<CudnnDescriptor> parts;  // the last is the graph
  const CudnnDescriptor& graph() const { return parts.back(); }
};

// The library of one device. Its handle is made when the first plan needs it, which takes a while.
class CudnnLibrary final : public VendorLibrary {
 public:
  static Result<std::unique_ptr<VendorLibrary>> Open(Context& context, uint64_t device_hash);
  ~CudnnLibrary() override;

  std::string Describe() const override;
  Result<std::unique_ptr<LibraryCall>> Create(const GpuLibraryCall& call,
                                              uint32_t binding_count) override;
  // Engines whose sums are wider than what they add, that give the same bits each time and, in f32,
  // that use no matrix unit.
  Result<std::vector<GpuLibraryCall>> Propose(const GpuLibraryCall& wanted, size_t most) override;

  const CudnnApi& api() const { return *api_; }
  // Puts a plan onto the stream. One at a time: the handle has one stream.
  Status Execute(const CudnnDescriptor& plan, const CudnnDescriptor& pack, CUstream stream);

 private:
  CudnnLibrary(std::shared_ptr<const CudnnApi> api, Context& context, uint64_t device_hash)
      : VendorLibrary(context, device_hash), api_(std::move(api)) {}
  // The context is current.
  Result<cudnnHandle_t> handle();
  Result<CudnnDescriptor> MakePlan(const CudnnDescriptor& configuration);

  const std::shared_ptr<const CudnnApi> api_;
  std::mutex mutex_;  // the handle and every use of it
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace halyard::drivers::cuda
