// SPDX-License-Identifier: Apache-2.0
// Tensors of the command: what it reads from .npy and .pb files, passes to the library and writes
// back.
#pragma once

#include <halyard.h>

#include <cstdint>
#include <string>
#include <vector>

namespace halyard::tools {

struct Tensor {
  hy_dtype dtype = HY_DTYPE_INVALID;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
  int64_t elements() const;
};

// Bytes of one element; 0 for dtypes whose elements the command only carries as bytes.
size_t ElementBytes(hy_dtype dtype);
std::string FormatDims(const int64_t* dims, size_t rank);
std::string FormatType(const Tensor& tensor);  // "f32[1, 3]"

// Reads .npy or .pb, by the end of the name. Throws CommandError that names the file.
Tensor ReadTensor(const std::string& path);
// f32 as f16, rounded to nearest, and f16 as f32; only these.
Tensor ToF16(const Tensor& tensor);
Tensor ToF32(const Tensor& tensor);
// As a file of NumPy has it, with a dtype that NumPy knows.
Tensor AsWritten(const Tensor& tensor);
// Throws CommandError when the disk refuses.
void WriteNpy(const std::string& path, const Tensor& tensor);

}  // namespace halyard::tools
