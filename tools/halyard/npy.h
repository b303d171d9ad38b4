// SPDX-License-Identifier: Apache-2.0
// Reading and writing of NumPy's .npy files (version 1 to 3, C order, little-endian). BF16 and
// smaller types have no name there and are refused.
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

// Bytes of one element of a dtype with whole bytes; 0 for others.
size_t ElementBytes(hy_dtype dtype);
std::string FormatDims(const int64_t* dims, size_t rank);

// Throw CommandError that names the file.
Tensor ReadNpy(const std::string& path);
void WriteNpy(const std::string& path, hy_dtype dtype, const std::vector<int64_t>& dims,
              const void* data, size_t size_bytes);

}  // namespace halyard::tools
