// SPDX-License-Identifier: Apache-2.0
// A product of matrices that a vendor's library may compute (base/gpu_library_call.h).
//
//   D(i, j) = activation(sum over l of A(i, l) * B(l, j) + C(i, j) + bias(i))     for each batch
//
// Sums are in f32, and D is rounded once. D and C lie with i contiguous; of the two strides of A
// and of B one is 1. C and bias may be absent.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace halyard {

inline constexpr uint32_t kNoLibraryBinding = UINT32_MAX;

// What one operand is: a binding of the entry and places in it, in elements.
struct GpuLibraryOperand {
  uint32_t binding = kNoLibraryBinding;
  uint32_t reserved = 0;
  int64_t offset = 0;
  int64_t row_stride = 1;  // between neighbouring rows
  int64_t col_stride = 0;
  int64_t batch_stride = 0;
  friend bool operator==(const GpuLibraryOperand&, const GpuLibraryOperand&) = default;
};

enum class GpuLibraryActivation : uint32_t {
  kNone = 0,
  // Of no library: cuBLASLt 13.1 in f32, and engines of cuDNN 9.19, make zeros of NaN (on an
  // H200).
  kRelu = 1,
  kGeluTanh = 2,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};

struct GpuLibraryMatmul {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  uint32_t input_dtype = 0;   // DType of A and B: f32, f16 or bf16
  uint32_t output_dtype = 0;  // DType of C, D and bias: that of A and B, or f32
  GpuLibraryActivation activation = GpuLibraryActivation::kNone;
  uint32_t reserved = 0;
  GpuLibraryOperand a, b, c, d, bias;  // bias: strides mean nothing
  friend bool operator==(const GpuLibraryMatmul&, const GpuLibraryMatmul&) = default;
};
static_assert(sizeof(GpuLibraryOperand) == 40 && sizeof(GpuLibraryMatmul) == 248);

// "512x768x768 f16 with bias, gelu", for messages.
std::string FormatLibraryMatmul(const GpuLibraryMatmul& matmul);

}  // namespace halyard
