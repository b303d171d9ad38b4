// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files, and the TensorProto form.
#include "tools/tensor_file/tensor_file.h"

#include <algorithm>

#include "base/output_file.h"
#include "compiler/graph/constants.h"
#include "compiler/import/onnx_tensor.h"

namespace halyard::tensor_file {
namespace {

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Status In(const std::string& path, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", path, status.ToLine()));
}

}  // namespace

namespace {

Result<graph::Tensor> ReadTensorProto(const std::shared_ptr<const graph::ByteSource>& source,
                                      int64_t max_bytes) {
  HY_ASSIGN(const onnx::TensorProto proto, onnx::ReadTensor(*source));
  HY_ASSIGN(onnx::TensorBytes tensor, onnx::ResolveTensor(proto, "The tensor", source, nullptr));
  // The size was checked against the file, so this cannot ask for more than it holds, but for
  // 8-fold varints.
  HY_ASSIGN(auto data, graph::ReadAll(*tensor.bytes, max_bytes));
  return graph::Tensor{tensor.dtype, std::move(tensor.dims), std::move(data)};
}

Result<graph::Tensor> ReadNpy(const graph::ByteSource& file, int64_t max_bytes) {
  std::vector<uint8_t> first(static_cast<size_t>(
      std::min<int64_t>(file.size_bytes(), static_cast<int64_t>(kMostNpyHeadBytes))));
  HY_TRY(file.Read(0, first));
  HY_ASSIGN(NpyHead head, ParseNpyHead(first, static_cast<uint64_t>(file.size_bytes())));
  if (head.size_bytes > max_bytes) {
    return OutOfRange("The elements take {} bytes; the limit is {}.", head.size_bytes, max_bytes);
  }
  std::vector<uint8_t> elements(static_cast<size_t>(head.size_bytes));
  HY_TRY(file.Read(static_cast<int64_t>(head.start), elements));
  return MakeNpyTensor(std::move(head), std::move(elements));
}

}  // namespace

Result<graph::Tensor> ParseTensorProto(std::span<const uint8_t> bytes) {
  return ReadTensorProto(graph::BorrowBytes(bytes), INT64_MAX);
}

Result<graph::Tensor> ReadTensorFile(const std::string& path, int64_t max_bytes) {
  const bool is_npy = EndsWith(path, ".npy");
  if (!is_npy && !EndsWith(path, ".pb")) {
    return InvalidArgument("{}: The name ends neither in .npy nor in .pb.", path);
  }
  HY_ASSIGN(const auto file, graph::OpenFile(path));
  // What is wrong with a file of any size is found before its elements are read.
  auto tensor = is_npy ? ReadNpy(*file, max_bytes) : ReadTensorProto(file, max_bytes);
  if (!tensor.ok()) return In(path, tensor.status());
  return tensor;
}

Status WriteNpyFile(const std::string& path, const graph::Tensor& tensor) {
  HY_ASSIGN(const std::string text, FormatNpy(tensor));
  return WriteOutputFile(path, text);
}

}  // namespace halyard::tensor_file
