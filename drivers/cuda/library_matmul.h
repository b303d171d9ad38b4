// SPDX-License-Identifier: Apache-2.0
// Products that cuBLASLt computes in place of a kernel of ours (base/gpu_library_matmul.h): its
// handle of one device, and one product as its descriptors. Capturing into graphs is here too; when
// and where is in replay.h.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/gpu_library_matmul.h"
#include "drivers/cuda/context.h"
#include "drivers/cuda/cublaslt_api.h"

namespace halyard::drivers::cuda {

// cuBLASLt in the context of one device. Thread-safe. Made when the first program asks for it.
class MatmulLibrary {
 public:
  // UNAVAILABLE says why there is none. The context outlives the library; `device_hash`: of what
  // GpuLibraryChoice says.
  static Result<std::unique_ptr<MatmulLibrary>> Open(Context& context, uint64_t device_hash);
  ~MatmulLibrary();

  const CublasLtApi& api() const { return *api_; }
  Context& context() const { return context_; }
  cublasLtHandle_t handle() const { return handle_; }
  uint64_t device_hash() const { return device_hash_; }

  // What `enqueue` puts onto the stream that it is given, as a graph; the caller destroys it. The
  // context is current. One at a time.
  template <typename Enqueue>
  Result<CUgraph> Capture(Enqueue enqueue) {
    std::lock_guard lock(capture_mutex_);
    HY_TRY(BeginCapture());
    const Status status = enqueue(capture_stream_);
    CUgraph graph = nullptr;
    const Status ended = EndCapture(&graph);
    if (!status.ok() || !ended.ok()) {
      if (graph) context_.api().cuGraphDestroy(graph);
      return status.ok() ? ended : status;
    }
    return graph;
  }

 private:
  MatmulLibrary(std::shared_ptr<const CublasLtApi> api, Context& context, uint64_t device_hash);
  Status BeginCapture();
  Status EndCapture(CUgraph* out_graph);

  const std::shared_ptr<const CublasLtApi> api_;
  Context& context_;
  const uint64_t device_hash_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex capture_mutex_;  // the stream
  CUstream capture_stream_ = nullptr;
};

// One product. Thread-safe.
class LibraryMatmul {
 public:
  // What a record says is checked: sizes, strides, bindings. INCOMPATIBLE where the library has
  // another version, was asked on another device, or does not take the algorithm any more.
  static Result<std::unique_ptr<LibraryMatmul>> Create(MatmulLibrary& library,
                                                       const GpuLibraryMatmul& matmul,
                                                       uint32_t binding_count);
  // The product with each of the algorithms that the library proposes, best first, at most `most`;
  // none where it knows none. Sums that pass through a narrower type than f32 are left out.
  static Result<std::vector<GpuLibraryMatmul>> Propose(MatmulLibrary& library,
                                                       const GpuLibraryMatmul& wanted, size_t most);
  ~LibraryMatmul();

  // Puts it onto the stream. `addresses`: of the entry's bindings. The context is current.
  Status Enqueue(std::span<const uint64_t> addresses, CUstream stream);
  // The same as a graph, which the caller destroys.
  Result<CUgraph> Capture(std::span<const uint64_t> addresses);

 private:
  LibraryMatmul(MatmulLibrary& library, const GpuLibraryMatmul& matmul)
      : library_(library), matmul_(matmul) {}
  Status CreateDescriptors();
  Status CheckAlgorithm();

  MatmulLibrary& library_;
  const GpuLibraryMatmul matmul_;
  std::mutex mutex_;  // the pointer to the bias, which stands in the descriptor
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
};

}  // namespace halyard::drivers::cuda
