// SPDX-License-Identifier: Apache-2.0
// Turns a TensorProto into dtype, dims and a source of bytes in our format (little-endian,
// row-major, packed). Raw and 32/64-bit word data stay ranges of the file; only varint-coded data
// are decoded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/import/onnx_proto.h"

namespace halyard::onnx {

// The dtype of an ONNX element type. UNIMPLEMENTED for strings, complex numbers and the small
// floats that Halyard has not; INVALID_ARGUMENT for a number that ONNX does not know.
Result<DType> DTypeOf(int64_t tensor_data_type);
// "float32 (1)" for messages.
std::string FormatTensorDataType(int64_t tensor_data_type);

// The files with external data of one model. A location is a relative path below the folder,
// without `..`. Whatever symbolic links it passes through, the file it names must lie inside the
// folder or, where the model's own file is a link, beside what that leads to: a cache that keeps
// files by their hashes shows a model as links into one folder (decision 35).
class ExternalFiles {
 public:
  // An empty folder: external data is refused. `model` is the path of the model's file; empty: it
  // is none.
  explicit ExternalFiles(std::string folder, std::string model = "")
      : folder_(std::move(folder)), model_(std::move(model)) {}
  // Opens a file once and remembers it.
  Result<std::shared_ptr<const graph::ByteSource>> Open(const std::string& location);

 private:
  std::string folder_, model_;
  std::map<std::string, std::shared_ptr<const graph::ByteSource>> opened_;
};

struct TensorBytes {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> dims;
  std::shared_ptr<const graph::ByteSource> bytes;
};

// `file` is the source that the proto was read from; the result keeps it. `what` names the tensor
// in messages: "Initialiser 'w'". `external` may be null: external data is refused.
Result<TensorBytes> ResolveTensor(const TensorProto& tensor, std::string_view what,
                                  const std::shared_ptr<const graph::ByteSource>& file,
                                  ExternalFiles* external, const Limits& limits = {});

}  // namespace halyard::onnx
