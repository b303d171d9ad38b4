// SPDX-License-Identifier: Apache-2.0
#include "drivers/cuda/transfer.h"

namespace halyard::drivers::cuda {

FillPattern SplitPattern(uint64_t pattern, uint32_t pattern_bytes) {
  FillPattern parts;
  parts.low = static_cast<uint32_t>(pattern);
  parts.high = static_cast<uint32_t>(pattern >> 32);
  parts.element_bytes = pattern_bytes < 4 ? pattern_bytes : 4;
  parts.is_split = pattern_bytes == 8 && parts.low != parts.high;
  if (pattern_bytes < 4) parts.low &= (1u << 8 * pattern_bytes) - 1;
  return parts;
}

Status EnqueueFill(Context& context, CUstream stream, CUdeviceptr target, int64_t size_bytes,
                   uint32_t value, uint32_t element_bytes, bool is_every_other) {
  const CudaApi& api = context.api();
  const auto count = static_cast<size_t>(size_bytes / element_bytes);
  if (count == 0) return OkStatus();
  if (is_every_other) {
    return context.Check(api.cuMemsetD2D32Async(target, 8, value, 1, count / 2, stream),
                         "cuMemsetD2D32Async", "a fill");
  }
  switch (element_bytes) {
    case 1:
      return context.Check(
          api.cuMemsetD8Async(target, static_cast<unsigned char>(value), count, stream),
          "cuMemsetD8Async", "a fill");
    case 2:
      return context.Check(
          api.cuMemsetD16Async(target, static_cast<unsigned short>(value), count, stream),
          "cuMemsetD16Async", "a fill");
    default:
      return context.Check(api.cuMemsetD32Async(target, value, count, stream), "cuMemsetD32Async",
                           "a fill");
  }
}

Status EnqueueCopy(Context& context, CUstream stream, CUdeviceptr source, CUdeviceptr target,
                   int64_t size_bytes) {
  if (size_bytes == 0) return OkStatus();
  return context.Check(
      context.api().cuMemcpyAsync(target, source, static_cast<size_t>(size_bytes), stream),
      "cuMemcpyAsync", "a copy");
}

}  // namespace halyard::drivers::cuda
