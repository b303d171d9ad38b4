// SPDX-License-Identifier: Apache-2.0
// A convolution (base/gpu_library_convolution.h) as a graph of cuDNN's.
#pragma once

#include <span>

#include "drivers/cuda/cudnn_library.h"

namespace halyard::drivers::cuda {

// DATA_LOSS for sizes, strides and bindings that are none. `binding_count` may be
// kNoLibraryBinding: of a record that is not bound yet.
Status CheckLibraryConvolution(const GpuLibraryConvolution& convolution, uint32_t binding_count);

// The graph for `handle`, which may not be used meanwhile.
Result<CudnnGraph> MakeConvolutionGraph(const CudnnApi& api, cudnnHandle_t handle,
                                        const GpuLibraryConvolution& convolution);

// What the tensors of that graph are called, and where they lie.
struct CudnnPointers {
  std::vector<int64_t> names;
  std::vector<void*> places;
};
CudnnPointers PlacesOf(const GpuLibraryConvolution& convolution,
                       std::span<const uint64_t> addresses);

}  // namespace halyard::drivers::cuda
