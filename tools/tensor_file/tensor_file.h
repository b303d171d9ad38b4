// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NumPy's .npy (versions 1.0 to 3.0) and ONNX's TensorProto (.pb). For the
// command and the tests; files are hostile until checked, and no memory is asked for before the
// file is known to hold so many bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "compiler/graph/tensor.h"

namespace halyard::tensor_file {

inline constexpr int64_t kDefaultMaxBytes = int64_t{1} << 36;

// By the end of the name: ".npy" or ".pb". A failure is one sentence that names the file.
Result<graph::Tensor> ReadTensorFile(const std::string& path, int64_t max_bytes = kDefaultMaxBytes);

// NPY from memory. Little-endian booleans, integers and floats of 16 to 64 bits; Fortran order
// becomes C order; big-endian, complex, text, object and structured types are refused.
Result<graph::Tensor> ParseNpy(std::span<const uint8_t> bytes);

// What stands before the elements of an NPY file.
struct NpyHead {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  bool is_fortran = false;
  size_t start = 0;        // of the elements, in the file
  int64_t size_bytes = 0;  // of the elements
};
inline constexpr size_t kMostNpyHeadBytes = 12 + (64 << 10);
// `first`: the file's first kMostNpyHeadBytes, or all of it where it has fewer. What the head says
// is checked against `file_bytes`, so that nothing else of a file that is wrong is read.
Result<NpyHead> ParseNpyHead(std::span<const uint8_t> first, uint64_t file_bytes);
// The tensor of the head's elements.
graph::Tensor MakeNpyTensor(NpyHead head, std::vector<uint8_t> elements);
// A TensorProto from memory; external data are refused.
Result<graph::Tensor> ParseTensorProto(std::span<const uint8_t> bytes);

// With the dtype that NumPy has for it, without loss: bf16 and the 8-bit floats become f32, 4-bit
// integers 8 bits, and the others stay.
Result<graph::Tensor> WidenForNumpy(graph::Tensor tensor);
// Version 1.0, or 2.0 where the header needs it, of the widened tensor.
Result<std::string> FormatNpy(const graph::Tensor& tensor);
// The file appears whole or not at all: it is written beside its place and renamed.
Status WriteNpyFile(const std::string& path, const graph::Tensor& tensor);

}  // namespace halyard::tensor_file
