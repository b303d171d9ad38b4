// SPDX-License-Identifier: Apache-2.0
#include "base/gpu_library_matmul.h"

#include "base/status.h"

namespace halyard {

std::string FormatLibraryMatmul(const GpuLibraryMatmul& matmul) {
  std::string text = fmt::format("{}x{}x{}", matmul.m, matmul.n, matmul.k);
  if (matmul.batch != 1) text += fmt::format(" batch {}", matmul.batch);
  text += fmt::format(" {}", FormatDType(static_cast<DType>(matmul.input_dtype)));
  if (matmul.output_dtype != matmul.input_dtype) {
    text += fmt::format(" to {}", FormatDType(static_cast<DType>(matmul.output_dtype)));
  }
  if (matmul.c.binding != kNoLibraryBinding) text += ", with a sum";
  if (matmul.bias.binding != kNoLibraryBinding) text += ", with bias";
  if (matmul.activation == GpuLibraryActivation::kGeluTanh) text += ", gelu";
  return text;
}

}  // namespace halyard
