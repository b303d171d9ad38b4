// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/library_call.h"

#include <algorithm>

#include "base/dtype.h"
#include "drivers/cuda/cudnn_library.h"
#include "drivers/cuda/library_matmul.h"

namespace halyard::drivers::cuda {
namespace {

constexpr int64_t kRangeAlignment = 64;  // of every binding (CudaBuffer::kAlignment)

}  // namespace

VendorLibrary::~VendorLibrary() {
  Context::Current current(context_);
  if (capture_stream_) context_.api().cuStreamDestroy_v2(capture_stream_);
}

Status VendorLibrary::OpenCapture() {
  const CudaApi& cuda = context_.api();
  if (!cuda.cuStreamBeginCapture_v2 || !cuda.cuStreamEndCapture || !cuda.cuGraphAddChildGraphNode ||
      !cuda.cuGraphExecChildGraphNodeSetParams) {
    return Unavailable("Library '{}' lacks stream capture, which library calls need.",
                       cuda.library);
  }
  return context_.Check(cuda.cuStreamCreate(&capture_stream_, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate", "opening a library");
}

// Relaxed: the library may load code while it is captured, and other threads are not disturbed.
Result<CUgraph> VendorLibrary::Capture(LibraryCall& call, std::span<const uint64_t> addresses) {
  const CudaApi& cuda = context_.api();
  std::lock_guard lock(capture_mutex_);
  HY_TRY(
      context_.Check(cuda.cuStreamBeginCapture_v2(capture_stream_, CU_STREAM_CAPTURE_MODE_RELAXED),
                     "cuStreamBeginCapture", "a library call"));
  const Status status = call.Enqueue(addresses, capture_stream_);
  CUgraph graph = nullptr;
  const Status ended = context_.Check(cuda.cuStreamEndCapture(capture_stream_, &graph),
                                      "cuStreamEndCapture", "a library call");
  if (!status.ok() || !ended.ok()) {
    if (graph) cuda.cuGraphDestroy(graph);
    return status.ok() ? ended : status;
  }
  return graph;
}

Result<std::unique_ptr<VendorLibrary>> OpenVendorLibrary(GpuLibraryKind kind, Context& context,
                                                         uint64_t device_hash) {
  switch (kind) {
    case GpuLibraryKind::kMatmul:
      return MatmulLibrary::Open(context, device_hash);
    case GpuLibraryKind::kConvolution:
      return CudnnLibrary::Open(context, device_hash);
  }
  return DataLoss("A library record has the kind {}.", static_cast<uint32_t>(kind));
}

Status CheckLibraryWorkspace(const GpuLibraryCall& call, uint32_t binding_count) {
  const GpuLibraryChoice& choice = call.choice;
  if (choice.workspace_bytes < 0 || choice.workspace_bytes > int64_t{1} << 40 ||
      (choice.workspace_bytes > 0 && call.workspace_binding >= binding_count)) {
    return DataLoss("A library record has {} bytes of workspace in binding {} of {}.",
                    choice.workspace_bytes, call.workspace_binding, binding_count);
  }
  return OkStatus();
}

void* LibraryWorkspace(const GpuLibraryCall& call, std::span<const uint64_t> addresses) {
  if (call.choice.workspace_bytes == 0) return nullptr;
  constexpr uint64_t kUnit = kLibraryWorkspaceAlignment;
  return reinterpret_cast<void*>((addresses[call.workspace_binding] + kUnit - 1) / kUnit * kUnit);
}

int64_t LibraryAlignment(int64_t offset, uint32_t dtype) {
  const auto bytes =
      static_cast<uint64_t>(offset) * static_cast<uint64_t>(BitWidth(DType(dtype)) / 8);
  const uint64_t lowest = bytes & (~bytes + 1);
  return lowest == 0 ? kRangeAlignment : std::min(static_cast<int64_t>(lowest), kRangeAlignment);
}

}  // namespace halyard::drivers::cuda
