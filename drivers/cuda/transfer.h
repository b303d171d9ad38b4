// SPDX-License-Identifier: Apache-2.0
// Fills and copies in a stream.
#pragma once

#include "drivers/cuda/context.h"

namespace halyard::drivers::cuda {

// CUDA sets elements of 1, 2 and 4 bytes; a pattern of 8 becomes two fills of every other 4 bytes,
// unless it repeats.
struct FillPattern {
  uint32_t low = 0;
  uint32_t high = 0;  // used when is_split
  uint32_t element_bytes = 1;
  bool is_split = false;
};
FillPattern SplitPattern(uint64_t pattern, uint32_t pattern_bytes);

// Sets `size_bytes` from `target` on; with `is_every_other` 4 of every 8 bytes. The context is
// current.
Status EnqueueFill(Context& context, CUstream stream, CUdeviceptr target, int64_t size_bytes,
                   uint32_t value, uint32_t element_bytes, bool is_every_other);
Status EnqueueCopy(Context& context, CUstream stream, CUdeviceptr source, CUdeviceptr target,
                   int64_t size_bytes);

}  // namespace halyard::drivers::cuda
