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

inline void ApplyLibraryCall(const GpuLibraryCall& call, const std::vector<uint8_t*>& bindings) {
  ApplyLibraryMatmul(call.matmul, bindings);
}

}  // namespace halyard
