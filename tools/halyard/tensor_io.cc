// SPDX-License-Identifier: Apache-2.0
// Conversion between the files' tensors and the command's.
#include "tools/halyard/tensor_io.h"

#include <cstring>
#include <new>

#include "base/float16.h"
#include "base/quantity.h"
#include "tools/halyard/command.h"
#include "tools/tensor_file/tensor_file.h"

namespace halyard::tools {

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

size_t ElementBytes(hy_dtype dtype) {
  if (dtype == HY_DTYPE_F8E4M3 || dtype == HY_DTYPE_F8E5M2) return 0;  // no value form here
  const int bits = BitWidth(static_cast<DType>(dtype));
  return bits % 8 == 0 ? static_cast<size_t>(bits) / 8 : 0;
}

std::string FormatDims(const int64_t* dims, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

std::string FormatType(const Tensor& tensor) {
  return std::string(FormatDType(static_cast<DType>(tensor.dtype))) +
         FormatDims(tensor.dims.data(), tensor.dims.size());
}

Tensor ReadTensor(const std::string& path) {
  Result<graph::Tensor> file = InvalidArgument("nothing was read");
  try {
    file = tensor_file::ReadTensorFile(path);
  } catch (const std::bad_alloc&) {
    throw CommandError(kSystemFailure,
                       path + ": the tensor takes more memory than this machine gives");
  }
  if (!file.ok()) throw CommandError(kBadModel, file.status().ToLine());
  if (file->dims.size() > HY_MAX_RANK) {
    throw CommandError(kBadModel, path + ": the tensor has " +
                                      Counted(file->dims.size(), "dimension") + "; at most " +
                                      std::to_string(HY_MAX_RANK) + " are passed");
  }
  return {static_cast<hy_dtype>(file->dtype), std::move(file->dims), std::move(file->bytes)};
}

namespace {

template <typename From, typename To>
Tensor Converted(const Tensor& tensor, hy_dtype dtype, To (*convert)(From)) {
  const auto count = static_cast<size_t>(tensor.elements());
  Tensor out{dtype, tensor.dims, std::vector<uint8_t>(count * sizeof(To))};
  for (size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, tensor.bytes.data() + i * sizeof(From), sizeof(From));
    const To to = convert(from);
    std::memcpy(out.bytes.data() + i * sizeof(To), &to, sizeof(To));
  }
  return out;
}

}  // namespace

Tensor ToF16(const Tensor& tensor) { return Converted(tensor, HY_DTYPE_F16, F16FromF32); }
Tensor ToF32(const Tensor& tensor) { return Converted(tensor, HY_DTYPE_F32, F32FromF16); }

Tensor AsWritten(const Tensor& tensor) {
  auto wide =
      tensor_file::WidenForNumpy({static_cast<DType>(tensor.dtype), tensor.dims, tensor.bytes});
  if (!wide.ok()) throw CommandError(kSystemFailure, wide.status().ToLine());
  return {static_cast<hy_dtype>(wide->dtype), std::move(wide->dims), std::move(wide->bytes)};
}

void WriteNpy(const std::string& path, const Tensor& tensor) {
  const graph::Tensor file{static_cast<DType>(tensor.dtype), tensor.dims, tensor.bytes};
  const Status status = tensor_file::WriteNpyFile(path, file);
  if (!status.ok()) throw CommandError(kSystemFailure, status.ToLine());
}

}  // namespace halyard::tools
