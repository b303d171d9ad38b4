// SPDX-License-Identifier: Apache-2.0
// A convolution that a vendor's library may compute (base/gpu_library_call.h), over pictures of two
// dimensions; one of lines has one row.
//
//   y(n, k, p, q) = z(n, k, p, q) + bias(k) +
//       sum over c, r, s of x(n, c, p * stride[0] + r * dilation[0] - pad_before[0],
//                              q * stride[1] + s * dilation[1] - pad_before[1]) * w(k, c, r, s)
//
// x is 0 outside its rows and columns. Sums are in f32, and y is rounded once. z and bias may be
// absent.
#pragma once

#include <cstdint>
#include <string>

#include "base/gpu_library_matmul.h"

namespace halyard {

// One operand: a binding of the entry and places in it, in elements. Strides are of images,
// channels, rows and columns; of w: of output channels, input channels, rows and columns.
struct GpuLibraryTensor {
  uint32_t binding = kNoLibraryBinding;
  uint32_t reserved = 0;
  int64_t offset = 0;
  int64_t strides[4] = {};
  friend bool operator==(const GpuLibraryTensor&, const GpuLibraryTensor&) = default;
};

struct GpuLibraryConvolution {
  int64_t images = 0, input_channels = 0, output_channels = 0;
  // Of rows and columns.
  int64_t input[2] = {}, window[2] = {}, output[2] = {};
  int64_t stride[2] = {1, 1}, dilation[2] = {1, 1};
  int64_t pad_before[2] = {}, pad_after[2] = {};
  uint32_t input_dtype = 0;   // DType of x and w: f32, f16 or bf16
  uint32_t output_dtype = 0;  // DType of y, z and bias: that of x and w, or f32
  GpuLibraryActivation activation = GpuLibraryActivation::kNone;  // nothing else
  uint32_t reserved = 0;
  GpuLibraryTensor x, w, y, z, bias;  // bias: strides mean nothing
  friend bool operator==(const GpuLibraryConvolution&, const GpuLibraryConvolution&) = default;
};
static_assert(sizeof(GpuLibraryTensor) == 48 && sizeof(GpuLibraryConvolution) == 392);

// "32x64x56x56 by 64x64x3x3 stride 1 pad 1 f16, with bias", for messages.
std::string FormatLibraryConvolution(const GpuLibraryConvolution& convolution);

}  // namespace halyard
