// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files, and the TensorProto form.
#include "tools/tensor_file/tensor_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

Result<graph::Tensor> ParseTensorProto(std::span<const uint8_t> bytes) {
  const auto source = graph::BorrowBytes(bytes);
  HY_ASSIGN(const onnx::TensorProto proto, onnx::ReadTensor(*source));
  HY_ASSIGN(onnx::TensorBytes tensor, onnx::ResolveTensor(proto, "The tensor", source, nullptr));
  // The size was checked against the file, so this cannot ask for more than it holds, but for
  // 8-fold varints.
  HY_ASSIGN(auto data, graph::ReadAll(*tensor.bytes, INT64_MAX));
  return graph::Tensor{tensor.dtype, std::move(tensor.dims), std::move(data)};
}

Result<graph::Tensor> ReadTensorFile(const std::string& path, int64_t max_bytes) {
  const bool is_npy = EndsWith(path, ".npy");
  if (!is_npy && !EndsWith(path, ".pb")) {
    return InvalidArgument("{}: The name ends neither in .npy nor in .pb.", path);
  }
  HY_ASSIGN(const auto file, graph::OpenFile(path));
  const auto bytes = graph::ReadAll(*file, max_bytes);
  if (!bytes.ok()) return In(path, bytes.status());
  auto tensor = is_npy ? ParseNpy(*bytes) : ParseTensorProto(*bytes);
  if (!tensor.ok()) return In(path, tensor.status());
  return tensor;
}

Status WriteNpyFile(const std::string& path, const graph::Tensor& tensor) {
  HY_ASSIGN(const std::string text, FormatNpy(tensor));
  const std::string temporary = fmt::format("{}.{}.part", path, ::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (file == nullptr)
    return Unavailable("{}: It cannot be written: {}.", path, std::strerror(errno));
  bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  is_written = std::fclose(file) == 0 && is_written;
  if (!is_written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    return Unavailable("{}: It cannot be written: {}.", path, reason);
  }
  return OkStatus();
}

}  // namespace halyard::tensor_file
