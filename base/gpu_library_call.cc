// SPDX-License-Identifier: Apache-2.0
#include "base/gpu_library_call.h"

namespace halyard {

std::string_view LibraryName(GpuLibraryKind kind) {
  switch (kind) {
    case GpuLibraryKind::kMatmul:
      return "cuBLASLt";
    case GpuLibraryKind::kConvolution:
      return "cuDNN";
  }
  return "a library";
}

std::string_view LibraryWork(GpuLibraryKind kind) {
  switch (kind) {
    case GpuLibraryKind::kMatmul:
      return "matrix products";
    case GpuLibraryKind::kConvolution:
      return "convolutions";
  }
  return "work";
}

std::string FormatLibraryCall(const GpuLibraryCall& call) {
  if (call.kind == GpuLibraryKind::kConvolution) {
    return "the convolution " + FormatLibraryConvolution(call.convolution);
  }
  return "the product " + FormatLibraryMatmul(call.matmul);
}

}  // namespace halyard
