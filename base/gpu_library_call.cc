// SPDX-License-Identifier: Apache-2.0
#include "base/gpu_library_call.h"

namespace halyard {

std::string_view LibraryName(GpuLibraryKind kind) {
  switch (kind) {
    case GpuLibraryKind::kMatmul:
      return "cuBLASLt";
  }
  return "a library";
}

std::string FormatLibraryCall(const GpuLibraryCall& call) {
  return "the product " + FormatLibraryMatmul(call.matmul);
}

}  // namespace halyard
