// SPDX-License-Identifier: Apache-2.0
// Every size is checked against the bytes that are really there before memory is asked for.
#include "compiler/import/onnx_tensor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/quantity.h"
#include "compiler/graph/constants.h"

namespace halyard::onnx {
namespace {

using graph::ByteSource;

struct DataTypeRow {
  std::string_view name;
  DType dtype;  // kInvalid: known to ONNX, not to Halyard
};
constexpr DataTypeRow kDataTypes[] = {
    {"undefined", DType::kInvalid},
    {"float32", DType::kF32},
    {"uint8", DType::kU8},
    {"int8", DType::kI8},
    {"uint16", DType::kU16},
    {"int16", DType::kI16},
    {"int32", DType::kI32},
    {"int64", DType::kI64},
    {"string", DType::kInvalid},
    {"bool", DType::kBool},
    {"float16", DType::kF16},
    {"float64", DType::kF64},
    {"uint32", DType::kU32},
    {"uint64", DType::kU64},
    {"complex64", DType::kInvalid},
    {"complex128", DType::kInvalid},
    {"bfloat16", DType::kBF16},
    {"float8e4m3fn", DType::kF8E4M3},
    {"float8e4m3fnuz", DType::kInvalid},
    {"float8e5m2", DType::kF8E5M2},
    {"float8e5m2fnuz", DType::kInvalid},
    {"uint4", DType::kU4},
    {"int4", DType::kI4},
    {"float4e2m1", DType::kInvalid},
    {"float8e8m0", DType::kInvalid},
    {"uint2", DType::kInvalid},
    {"int2", DType::kInvalid},
    {"float6e2m3", DType::kInvalid},
    {"float6e3m2", DType::kInvalid},
};
constexpr int64_t kDataTypeCount = std::size(kDataTypes);

// A closed descriptor at the end of a scope.
struct Descriptor {
  explicit Descriptor(int value) : value(value) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void Reset(int next) {
    if (value >= 0) ::close(value);
    value = next;
  }
  int Release() { return std::exchange(value, -1); }
  int value;
};

Result<std::string> RealPath(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return NotFound("'{}': {}.", Printable(path), std::strerror(errno));
  std::string out(resolved);
  std::free(resolved);
  return out;
}

// The folder, with its '/', of the file that a link leads to; empty where the path is no link.
std::string FolderBehindLink(const std::string& path) {
  struct stat status = {};
  if (path.empty() || ::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return "";
  const Result<std::string> target = RealPath(path);
  return target.ok() ? target->substr(0, target->rfind('/') + 1) : "";
}

Result<int64_t> ParseSize(std::string_view what, const StringStringEntryProto& entry) {
  int64_t value = 0;
  const char* end = entry.value.data() + entry.value.size();
  const auto [stop, error] = std::from_chars(entry.value.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    return InvalidArgument("{} has external data with {} '{}'; it must be a number of at least 0.",
                           what, entry.key, Printable(entry.value));
  }
  return value;
}

Result<std::shared_ptr<const ByteSource>> ExternalBytes(const TensorProto& tensor,
                                                        std::string_view what,
                                                        ExternalFiles* external,
                                                        int64_t size_bytes) {
  std::optional<std::string> location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const StringStringEntryProto& entry : tensor.external_data) {
    if (entry.key == "location") location = entry.value;
    if (entry.key == "offset") {
      HY_ASSIGN(offset, ParseSize(what, entry));
    }
    if (entry.key == "length") {
      HY_ASSIGN(length, ParseSize(what, entry));
    }
  }
  if (!location.has_value())
    return InvalidArgument("{} has external data without a location.", what);
  if (external == nullptr) {
    return InvalidArgument("{} has external data in '{}'; a single tensor file cannot have any.",
                           what, Printable(*location));
  }
  if (length.has_value() && *length != size_bytes) {
    return InvalidArgument("{} has external data of {}; its type and shape need {}.", what,
                           Counted(*length, "byte"), size_bytes);
  }
  HY_ASSIGN(auto file, external->Open(*location));
  if (offset > file->size_bytes() || size_bytes > file->size_bytes() - offset) {
    return OutOfRange("{} needs bytes {} to {} + {} of '{}', which has {} bytes.", what, offset,
                      offset, size_bytes, Printable(*location), file->size_bytes());
  }
  return graph::RangeOf(std::move(file), offset, size_bytes);
}

int64_t TotalSize(const std::vector<ByteRange>& ranges) {
  int64_t total = 0;  // ranges lie inside one file, so the sum may repeat but never overlap
  for (const ByteRange& range : ranges) total += range.size;
  return total;
}

// Fixed-size words in one piece stay a range of the file; otherwise the pieces are joined.
Result<std::shared_ptr<const ByteSource>> JoinRanges(
    const std::vector<ByteRange>& ranges, const std::shared_ptr<const ByteSource>& file) {
  if (ranges.size() == 1) return graph::RangeOf(file, ranges[0].offset, ranges[0].size);
  std::vector<uint8_t> bytes(static_cast<size_t>(TotalSize(ranges)));
  size_t done = 0;
  for (const ByteRange& range : ranges) {
    const auto size = static_cast<size_t>(range.size);
    HY_TRY(file->Read(range.offset, std::span(bytes).subspan(done, size)));
    done += size;
  }
  return graph::OwnBytes(std::move(bytes));
}

// Varints, each stored in its low `width` bytes.
Result<std::shared_ptr<const ByteSource>> DecodeVarints(
    const std::vector<ByteRange>& ranges, std::string_view what, std::string_view field,
    int64_t count, int width, const std::shared_ptr<const ByteSource>& file) {
  // A varint has at least one byte, so the file bounds the memory.
  if (count > TotalSize(ranges)) {
    return InvalidArgument("{} needs {} in {}; it has {} of them.", what, Counted(count, "value"),
                           field, Counted(TotalSize(ranges), "byte"));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(count * width));
  int64_t index = 0;
  for (const ByteRange& range : ranges) {
    HY_ASSIGN(auto part, graph::RangeOf(file, range.offset, range.size));
    WireReader reader(*part);
    while (reader.position() < range.size) {
      uint64_t value = 0;
      if (!reader.ReadVarint(range.size, &value))
        return reader.status().WithContext(std::string(what));
      if (index == count) {
        return InvalidArgument("{} has more values in {} than the {} that its shape needs.", what,
                               field, count);
      }
      for (int b = 0; b < width; ++b) {
        bytes[static_cast<size_t>(index * width + b)] = static_cast<uint8_t>(value >> (8 * b));
      }
      ++index;
    }
  }
  if (index != count) {
    return InvalidArgument("{} has {} in {}; its shape needs {}.", what, Counted(index, "value"),
                           field, count);
  }
  return graph::OwnBytes(std::move(bytes));
}

// Bools are 0 or 1 everywhere behind the importer.
Result<std::shared_ptr<const ByteSource>> NormaliseBools(
    const std::shared_ptr<const ByteSource>& bytes) {
  HY_ASSIGN(auto values, graph::ReadAll(*bytes, INT64_MAX));
  for (uint8_t& value : values) value = value != 0;
  return graph::OwnBytes(std::move(values));
}

}  // namespace

std::string FormatTensorDataType(int64_t type) {
  if (type < 0 || type >= kDataTypeCount) return fmt::format("element type {}", type);
  return fmt::format("{} ({})", kDataTypes[type].name, type);
}

Result<DType> DTypeOf(int64_t type) {
  if (type <= 0 || type >= kDataTypeCount) {
    return InvalidArgument("Element type {} is not one of ONNX's 1 to {}.", type,
                           kDataTypeCount - 1);
  }
  if (kDataTypes[type].dtype == DType::kInvalid) {
    return Unimplemented("Element type {} is not supported.", FormatTensorDataType(type));
  }
  return kDataTypes[type].dtype;
}

Result<std::shared_ptr<const ByteSource>> ExternalFiles::Open(const std::string& location) {
  if (const auto found = opened_.find(location); found != opened_.end()) return found->second;
  const std::string shown = Printable(location);
  if (folder_.empty()) {
    return InvalidArgument(
        "External data in '{}' needs the folder of the model, and none is known.", shown);
  }
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string::npos) {
    return InvalidArgument("External data location '{}' is not a relative path.", shown);
  }
  for (size_t start = 0; start <= location.size();) {
    const size_t end = std::min(location.find('/', start), location.size());
    if (location.compare(start, end - start, "..") == 0) {
      return InvalidArgument("External data location '{}' leaves the folder of the model.", shown);
    }
    start = end + 1;
  }
  HY_ASSIGN(const std::string folder, RealPath(folder_));
  auto target = RealPath(folder + "/" + location);
  if (!target.ok()) {
    return NotFound("External data file '{}' is not in the folder of the model.", shown);
  }
  std::string base = folder == "/" ? folder : folder + "/";
  if (target->compare(0, base.size(), base) != 0) {
    base = target->substr(0, target->rfind('/') + 1);
    if (const std::string models = FolderBehindLink(model_); base != models) {
      return InvalidArgument(
          "External data location '{}' is a link that leaves the folder of the model{}.", shown,
          models.empty() ? "; it could lead out only if the model's file were a link into the same "
                           "folder"
                         : fmt::format(" and leads elsewhere than to '{}', where the link to the "
                                       "model leads",
                                       Printable(models)));
    }
  }
  // Opened step by step without following links, so that nothing can be swapped in after the check.
  Descriptor current(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string relative = target->substr(base.size());
  for (size_t start = 0; start < relative.size() && current.value >= 0;) {
    const size_t end = std::min(relative.find('/', start), relative.size());
    const bool is_last = end == relative.size();
    const int flags = is_last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY;
    current.Reset(::openat(current.value, relative.substr(start, end - start).c_str(),
                           flags | O_NOFOLLOW | O_CLOEXEC));
    start = end + 1;
  }
  if (current.value < 0) {
    return NotFound("External data file '{}' cannot be opened: {}.", shown, std::strerror(errno));
  }
  HY_ASSIGN(auto file, graph::OwnFile(current.Release(), shown));
  opened_[location] = file;
  return file;
}

Result<TensorBytes> ResolveTensor(const TensorProto& tensor, std::string_view what,
                                  const std::shared_ptr<const ByteSource>& file,
                                  ExternalFiles* external, const Limits& limits) {
  const Result<DType> known = DTypeOf(tensor.data_type);
  HY_TRY_CONTEXT(known, "{}", what);
  const DType dtype = *known;
  if (tensor.has_segment) return Unimplemented("{} is split into segments.", what);
  if (static_cast<int64_t>(tensor.dims.size()) > limits.tensor_rank) {
    return OutOfRange("{} has {}; the limit is {}.", what, Counted(tensor.dims.size(), "dimension"),
                      limits.tensor_rank);
  }
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) {
    if (dim < 0) return InvalidArgument("{} has a dimension of {}.", what, dim);
    if (dim != 0 && count > limits.tensor_bytes / dim) {
      return OutOfRange("{} has more elements than the limit of {}.", what, limits.tensor_bytes);
    }
    count *= dim;
  }
  HY_ASSIGN(const int64_t size, StorageBytes(dtype, count));
  if (size > limits.tensor_bytes) {
    return OutOfRange("{} has {} bytes; the limit is {}.", what, size, limits.tensor_bytes);
  }
  TensorBytes out = {dtype, tensor.dims, nullptr};

  if (tensor.data_location == 1) {
    HY_ASSIGN(out.bytes, ExternalBytes(tensor, what, external, size));
  } else if (tensor.data_location != 0) {
    return InvalidArgument("{} has data location {}; it must be 0 or 1.", what,
                           tensor.data_location);
  } else if (tensor.raw_data.has_value()) {
    if (tensor.raw_data->size != size) {
      return InvalidArgument("{} has {} of raw data; its type and shape need {}.", what,
                             Counted(tensor.raw_data->size, "byte"), size);
    }
    HY_ASSIGN(out.bytes, graph::RangeOf(file, tensor.raw_data->offset, size));
  } else if (dtype == DType::kF32 || dtype == DType::kF64) {
    const auto& words = dtype == DType::kF32 ? tensor.float_data : tensor.double_data;
    if (TotalSize(words) != size) {
      return InvalidArgument("{} has {} of values; its type and shape need {}.", what,
                             Counted(TotalSize(words), "byte"), size);
    }
    if (size == 0) {
      out.bytes = graph::OwnBytes({});
    } else {
      HY_ASSIGN(out.bytes, JoinRanges(words, file));
    }
  } else if (dtype == DType::kI64) {
    HY_ASSIGN(out.bytes, DecodeVarints(tensor.int64_data, what, "int64_data", count, 8, file));
  } else if (dtype == DType::kU64 || dtype == DType::kU32) {
    const int width = dtype == DType::kU64 ? 8 : 4;
    HY_ASSIGN(out.bytes,
              DecodeVarints(tensor.uint64_data, what, "uint64_data", count, width, file));
  } else {
    // One value per int32, or one byte of two 4-bit values.
    const int width = std::max(1, BitWidth(dtype) / 8);
    HY_ASSIGN(out.bytes,
              DecodeVarints(tensor.int32_data, what, "int32_data", size / width, width, file));
  }
  if (dtype == DType::kBool) {
    HY_ASSIGN(out.bytes, NormaliseBools(out.bytes));
  }
  return out;
}

}  // namespace halyard::onnx
