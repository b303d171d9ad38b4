// SPDX-License-Identifier: Apache-2.0
// What a library record says (base/gpu_library_call.h), computed element by element in double.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/gpu_library_call.h"

namespace halyard {

inline double FloatAt(const uint8_t* bytes, DType dtype, int64_t index) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes + index * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes + index * 2, 2);
  return dtype == DType::kF16 ? F32FromF16(half) : F32FromBF16(half);
}

inline void StoreFloat(uint8_t* bytes, DType dtype, int64_t index, double value) {
  const auto single = static_cast<float>(value);
  const uint16_t half = dtype == DType::kF16 ? F16FromF32(single) : BF16FromF32(single);
  if (dtype == DType::kF32) {
    std::memcpy(bytes + index * 4, &single, 4);
  } else {
    std::memcpy(bytes + index * 2, &half, 2);
  }
}

// `bindings`: of the entry that the record stands for.
inline void ApplyLibraryMatmul(const GpuLibraryMatmul& matmul,
                               const std::vector<uint8_t*>& bindings) {
  const auto input = static_cast<DType>(matmul.input_dtype);
  const auto output = static_cast<DType>(matmul.output_dtype);
  const auto place = [](const GpuLibraryOperand& o, int64_t row, int64_t col, int64_t batch) {
    return o.offset + row * o.row_stride + col * o.col_stride + batch * o.batch_stride;
  };
  const auto at = [&](const GpuLibraryOperand& o, DType dtype, int64_t row, int64_t col,
                      int64_t batch) {
    return FloatAt(bindings[o.binding], dtype, place(o, row, col, batch));
  };
  for (int64_t batch = 0; batch < matmul.batch; ++batch) {
    for (int64_t i = 0; i < matmul.m; ++i) {
      for (int64_t j = 0; j < matmul.n; ++j) {
        double value = 0;
        for (int64_t l = 0; l < matmul.k; ++l) {
          value += at(matmul.a, input, i, l, batch) * at(matmul.b, input, l, j, batch);
        }
        if (matmul.c.binding != kNoLibraryBinding) value += at(matmul.c, output, i, j, batch);
        if (matmul.bias.binding != kNoLibraryBinding) {
          value += FloatAt(bindings[matmul.bias.binding], output, matmul.bias.offset + i);
        }
        if (matmul.activation == GpuLibraryActivation::kGeluTanh) {
          const double inner = 0.7978845608028654 * (value + 0.044715 * value * value * value);
          value = value / 2 * (1 + std::tanh(inner));
        }
        StoreFloat(bindings[matmul.d.binding], output, place(matmul.d, i, j, batch), value);
      }
    }
  }
}

// One result of a convolution, before it is rounded; y is not needed.
inline double LibraryConvolutionAt(const GpuLibraryConvolution& c,
                                   const std::vector<uint8_t*>& bindings, int64_t n, int64_t k,
                                   int64_t p, int64_t q) {
  const auto input = static_cast<DType>(c.input_dtype);
  const auto output = static_cast<DType>(c.output_dtype);
  const auto at = [&](const GpuLibraryTensor& t, DType dtype, int64_t a, int64_t b, int64_t d,
                      int64_t e) {
    return FloatAt(
        bindings[t.binding], dtype,
        t.offset + a * t.strides[0] + b * t.strides[1] + d * t.strides[2] + e * t.strides[3]);
  };
  double value = 0;
  for (int64_t i = 0; i < c.input_channels; ++i) {
    for (int64_t r = 0; r < c.window[0]; ++r) {
      for (int64_t s = 0; s < c.window[1]; ++s) {
        const int64_t row = p * c.stride[0] + r * c.dilation[0] - c.pad_before[0];
        const int64_t column = q * c.stride[1] + s * c.dilation[1] - c.pad_before[1];
        const bool is_inside = row >= 0 && row < c.input[0] && column >= 0 && column < c.input[1];
        value += (is_inside ? at(c.x, input, n, i, row, column) : 0) * at(c.w, input, k, i, r, s);
      }
    }
  }
  if (c.z.binding != kNoLibraryBinding) value += at(c.z, output, n, k, p, q);
  if (c.bias.binding != kNoLibraryBinding) {
    value += FloatAt(bindings[c.bias.binding], output, c.bias.offset + k);
  }
  return value;
}

inline void ApplyLibraryConvolution(const GpuLibraryConvolution& c,
                                    const std::vector<uint8_t*>& bindings) {
  const auto output = static_cast<DType>(c.output_dtype);
  for (int64_t n = 0; n < c.images; ++n) {
    for (int64_t k = 0; k < c.output_channels; ++k) {
      for (int64_t p = 0; p < c.output[0]; ++p) {
        for (int64_t q = 0; q < c.output[1]; ++q) {
          StoreFloat(bindings[c.y.binding], output,
                     c.y.offset + n * c.y.strides[0] + k * c.y.strides[1] + p * c.y.strides[2] +
                         q * c.y.strides[3],
                     LibraryConvolutionAt(c, bindings, n, k, p, q));
        }
      }
    }
  }
}

inline void ApplyLibraryCall(const GpuLibraryCall& call, const std::vector<uint8_t*>& bindings) {
  if (call.kind == GpuLibraryKind::kConvolution) {
    ApplyLibraryConvolution(call.convolution, bindings);
  } else {
    ApplyLibraryMatmul(call.matmul, bindings);
  }
}

}  // namespace halyard
