// SPDX-License-Identifier: Apache-2.0
// The .npy format: magic, version, a header that is a Python dictionary, then the elements.
#include "tools/halyard/npy.h"

#include <cctype>
#include <cstring>
#include <fstream>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

struct TypeName {
  const char* name;
  hy_dtype dtype;
  size_t bytes;
};
constexpr TypeName kTypes[] = {
    {"|b1", HY_DTYPE_BOOL, 1}, {"|i1", HY_DTYPE_I8, 1},  {"|u1", HY_DTYPE_U8, 1},
    {"<i2", HY_DTYPE_I16, 2},  {"<u2", HY_DTYPE_U16, 2}, {"<i4", HY_DTYPE_I32, 4},
    {"<u4", HY_DTYPE_U32, 4},  {"<i8", HY_DTYPE_I64, 8}, {"<u8", HY_DTYPE_U64, 8},
    {"<f2", HY_DTYPE_F16, 2},  {"<f4", HY_DTYPE_F32, 4}, {"<f8", HY_DTYPE_F64, 8},
};

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = size_t{1} << 16;

[[noreturn]] void Fail(const std::string& path, const std::string& why) {
  throw CommandError(kBadModel, path + ": " + why);
}

// What follows "'key':" in the header.
std::string_view ValueOf(const std::string& path, std::string_view header, std::string_view key) {
  const size_t at = header.find("'" + std::string(key) + "'");
  const size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos)
    Fail(path, "the .npy header has no '" + std::string(key) + "'");
  std::string_view value = header.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  return value;
}

}  // namespace

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

size_t ElementBytes(hy_dtype dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.bytes;
  }
  return dtype == HY_DTYPE_BF16 ? 2 : 0;
}

std::string FormatDims(const int64_t* dims, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

Tensor ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) Fail(path, "the file cannot be opened");
  const auto file_bytes = static_cast<uint64_t>(file.tellg());
  file.seekg(0);
  char head[12] = {};
  file.read(head, 10);
  if (file.gcount() != 10 || std::memcmp(head, kMagic, 6) != 0)
    Fail(path, "this is not a .npy file");
  size_t header_bytes = static_cast<unsigned char>(head[8]) | static_cast<unsigned char>(head[9])
                                                                  << 8;
  if (head[6] > 1) {
    file.read(head + 10, 2);
    header_bytes |= static_cast<size_t>(static_cast<unsigned char>(head[10])) << 16 |
                    static_cast<size_t>(static_cast<unsigned char>(head[11])) << 24;
  }
  if (head[6] < 1 || head[6] > 3 || header_bytes > kMaxHeaderBytes) {
    Fail(path, "the .npy header has an unknown version or is too long");
  }
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  if (!file) Fail(path, "the file ends within its header");
  Tensor tensor;
  const std::string_view type = ValueOf(path, header, "descr");
  for (const TypeName& known : kTypes) {
    if (type.substr(1, 3) == known.name) tensor.dtype = known.dtype;
  }
  if (tensor.dtype == HY_DTYPE_INVALID) {
    Fail(path, "the .npy type " + std::string(type.substr(0, 5)) + " is not supported");
  }
  if (ValueOf(path, header, "fortran_order").substr(0, 5) != "False") {
    Fail(path, "the elements stand in Fortran order; C order is needed");
  }
  std::string_view shape = ValueOf(path, header, "shape");
  if (shape.empty() || shape[0] != '(') Fail(path, "the .npy header has no shape");
  uint64_t count = 1;
  for (shape.remove_prefix(1); !shape.empty() && shape[0] != ')';) {
    if (std::isdigit(static_cast<unsigned char>(shape[0])) == 0) {
      shape.remove_prefix(1);
      continue;
    }
    uint64_t dim = 0;
    while (!shape.empty() && std::isdigit(static_cast<unsigned char>(shape[0])) != 0) {
      if (__builtin_mul_overflow(dim, uint64_t{10}, &dim) || dim > uint64_t{1} << 48) {
        Fail(path, "a dimension is too large");
      }
      dim += static_cast<uint64_t>(shape[0] - '0');
      shape.remove_prefix(1);
    }
    if (__builtin_mul_overflow(count, dim, &count)) Fail(path, "the shape is too large");
    tensor.dims.push_back(static_cast<int64_t>(dim));
  }
  if (tensor.dims.size() > HY_MAX_RANK) Fail(path, "the tensor has too many dimensions");
  uint64_t bytes = 0;
  const auto at = static_cast<uint64_t>(file.tellg());
  if (__builtin_mul_overflow(count, uint64_t{ElementBytes(tensor.dtype)}, &bytes) ||
      bytes > file_bytes - at) {
    Fail(path, "the shape " + FormatDims(tensor.dims.data(), tensor.dims.size()) +
                   " needs more bytes than the file has");
  }
  tensor.bytes.resize(bytes);
  file.read(reinterpret_cast<char*>(tensor.bytes.data()), static_cast<std::streamsize>(bytes));
  if (!file && bytes > 0) Fail(path, "reading the elements fails");
  return tensor;
}

void WriteNpy(const std::string& path, hy_dtype dtype, const std::vector<int64_t>& dims,
              const void* data, size_t size_bytes) {
  const char* name = nullptr;
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) name = type.name;
  }
  if (name == nullptr) Fail(path, "its dtype has no .npy form");
  std::string shape = "(";
  for (const int64_t dim : dims) shape += std::to_string(dim) + ",";
  std::string header =
      std::string("{'descr': '") + name + "', 'fortran_order': False, 'shape': " + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(kMagic, 6);
  const char version_and_size[] = {1, 0, static_cast<char>(header.size() & 0xff),
                                   static_cast<char>(header.size() >> 8)};
  file.write(version_and_size, 4);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size_bytes));
  file.flush();
  if (!file) throw CommandError(kSystemFailure, path + ": writing fails");
}

}  // namespace halyard::tools
