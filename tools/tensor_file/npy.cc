// SPDX-License-Identifier: Apache-2.0
// The NPY format: a magic, a version, the length of a header, the header as a Python dict literal
// with exactly the keys descr, fortran_order and shape, then the elements. After NumPy's "NEP 1"
// description.
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/quantity.h"
#include "tools/tensor_file/tensor_file.h"

namespace halyard::tensor_file {
namespace {

using graph::Tensor;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = kMostNpyHeadBytes - 12;
constexpr size_t kMaxRank = 64;

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"|b1", DType::kBool}, {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"<i2", DType::kI16},
    {"<u2", DType::kU16},  {"<i4", DType::kI32}, {"<u4", DType::kU32}, {"<i8", DType::kI64},
    {"<u8", DType::kU64},  {"<f2", DType::kF16}, {"<f4", DType::kF32}, {"<f8", DType::kF64},
};

// Reads the few forms of Python literals that a header may have.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }
  std::optional<std::string_view> Quoted() {
    SkipBlanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  std::optional<bool> Bool() {
    SkipBlanks();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    return std::nullopt;
  }
  // "(3, 4)", "(3,)", "()"; Python 2 wrote "3L".
  std::optional<std::vector<int64_t>> Tuple() {
    if (!Take('(')) return std::nullopt;
    std::vector<int64_t> out;
    while (!Take(')')) {
      if (!out.empty() && !Take(',')) return std::nullopt;
      if (Take(')')) return out;
      SkipBlanks();
      int64_t value = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0 || out.size() == kMaxRank) return std::nullopt;
      at_ += static_cast<size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      out.push_back(value);
    }
    return out;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

struct Header {
  std::string descr;
  bool is_fortran = false;
  std::vector<int64_t> shape;
};

Result<Header> ParseHeader(std::string_view text) {
  HeaderReader reader(text);
  Header header;
  bool has_descr = false, has_order = false, has_shape = false;
  if (!reader.Take('{')) return InvalidArgument("The NPY header is no dict.");
  while (!reader.Take('}')) {
    const auto key = reader.Quoted();
    if (!key.has_value() || !reader.Take(':'))
      return InvalidArgument("The NPY header is no dict of names.");
    bool* seen = *key == "descr" ? &has_descr : *key == "fortran_order" ? &has_order : &has_shape;
    if ((*key != "descr" && *key != "fortran_order" && *key != "shape") || *seen) {
      return InvalidArgument("The NPY header has the key '{}', which is unknown or there twice.",
                             key->substr(0, 40));
    }
    *seen = true;
    if (*key == "descr") {
      const auto descr = reader.Quoted();
      if (!descr.has_value()) return Unimplemented("Structured NPY types are not supported.");
      header.descr = *descr;
    } else if (*key == "fortran_order") {
      const auto value = reader.Bool();
      if (!value.has_value())
        return InvalidArgument("'fortran_order' of the NPY header is no bool.");
      header.is_fortran = *value;
    } else {
      auto shape = reader.Tuple();
      if (!shape.has_value()) {
        return InvalidArgument("'shape' of the NPY header is no tuple of at most {} sizes.",
                               kMaxRank);
      }
      header.shape = *std::move(shape);
    }
    if (!reader.Take(',')) {
      if (!reader.Take('}')) return InvalidArgument("The NPY header is no dict.");
      break;
    }
  }
  if (!reader.AtEnd()) return InvalidArgument("Something follows the dict of the NPY header.");
  if (!has_descr || !has_order || !has_shape) {
    return InvalidArgument("The NPY header lacks one of descr, fortran_order and shape.");
  }
  return header;
}

Tensor FromFortranOrder(const Tensor& tensor, size_t width) {
  Tensor out = tensor;
  if (tensor.dims.size() < 2 || tensor.bytes.empty()) return out;
  std::vector<int64_t> strides(tensor.dims.size());
  int64_t stride = 1;
  for (size_t i = 0; i < strides.size(); ++i) {
    strides[i] = stride;
    stride *= tensor.dims[i];
  }
  std::vector<int64_t> index(tensor.dims.size(), 0);
  size_t to = 0;
  do {
    int64_t from = 0;
    for (size_t i = 0; i < index.size(); ++i) from += index[i] * strides[i];
    std::memcpy(out.bytes.data() + to, tensor.bytes.data() + static_cast<size_t>(from) * width,
                width);
    to += width;
  } while (graph::NextIndex(tensor.dims, index));
  return out;
}

}  // namespace

Result<NpyHead> ParseNpyHead(std::span<const uint8_t> first, uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first.data()), first.size());
  if (text.substr(0, kMagic.size()) != kMagic || text.size() < 10) {
    return InvalidArgument("The file does not begin like an NPY file.");
  }
  const uint8_t major = first[6];
  if (major < 1 || major > 3 || first[7] != 0) {
    return Unimplemented("NPY version {}.{} is not supported; 1.0, 2.0 and 3.0 are.", major,
                         first[7]);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  NpyHead head;
  head.start = 8 + length_bytes;
  if (text.size() < head.start) return InvalidArgument("The NPY header is cut off.");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t{first[8 + i]} << (8 * i);
  if (length > kMaxHeaderBytes) {
    return OutOfRange("The NPY header has {} bytes; the limit is {}.", length, kMaxHeaderBytes);
  }
  if (length > text.size() - head.start) return InvalidArgument("The NPY header is cut off.");
  HY_ASSIGN(const Header header, ParseHeader(text.substr(head.start, length)));
  head.start += length;
  head.is_fortran = header.is_fortran;
  for (const Descr& row : kDescrs) {
    // '=' is the machine's order, which is little-endian; order does not matter for bytes.
    const bool same_tail = header.descr.size() == 3 && header.descr.substr(1) == row.text.substr(1);
    const bool order_fits =
        !header.descr.empty() && (header.descr[0] == row.text[0] || header.descr[0] == '=' ||
                                  (row.text[0] == '|' && header.descr[0] == '<'));
    if (same_tail && order_fits) head.dtype = row.dtype;
  }
  if (head.dtype == DType::kInvalid) {
    return Unimplemented(
        "NPY type '{}' is not supported; little-endian bool, integers and floats are.",
        header.descr.substr(0, 40));
  }
  head.dims = header.shape;
  HY_ASSIGN(const int64_t count, graph::CountElements(head.dims));
  HY_ASSIGN(head.size_bytes, StorageBytes(head.dtype, count));
  if (static_cast<uint64_t>(head.size_bytes) != file_bytes - head.start) {
    return InvalidArgument("The NPY header asks for {} of elements; the file has {}.",
                           Counted(head.size_bytes, "byte"), file_bytes - head.start);
  }
  return head;
}

Tensor MakeNpyTensor(NpyHead head, std::vector<uint8_t> elements) {
  Tensor tensor{head.dtype, std::move(head.dims), std::move(elements)};
  if (tensor.dtype == DType::kBool) {
    for (uint8_t& value : tensor.bytes) value = value != 0;
  }
  if (head.is_fortran) {
    return FromFortranOrder(tensor, static_cast<size_t>(BitWidth(tensor.dtype)) / 8);
  }
  return tensor;
}

Result<Tensor> ParseNpy(std::span<const uint8_t> bytes) {
  HY_ASSIGN(NpyHead head, ParseNpyHead(bytes, bytes.size()));
  const auto data = bytes.subspan(head.start);
  return MakeNpyTensor(std::move(head), {data.begin(), data.end()});
}

Result<Tensor> WidenForNumpy(Tensor tensor) {
  DType dtype = tensor.dtype;
  if (IsFloat(dtype) && (dtype == DType::kBF16 || BitWidth(dtype) < 16)) dtype = DType::kF32;
  if (dtype == DType::kI4) dtype = DType::kI8;
  if (dtype == DType::kU4) dtype = DType::kU8;
  HY_ASSIGN(const int64_t count, graph::CountElements(tensor.dims));
  HY_ASSIGN(const int64_t stored, StorageBytes(tensor.dtype, count));
  if (static_cast<uint64_t>(stored) != tensor.bytes.size()) {
    return InvalidArgument("The tensor has {}; its type and shape need {}.",
                           Counted(tensor.bytes.size(), "byte"), stored);
  }
  if (dtype == tensor.dtype) return tensor;
  HY_ASSIGN(Tensor wide, graph::MakeTensor(dtype, tensor.dims));
  for (int64_t i = 0; i < count; ++i) graph::ConvertElement(tensor, i, wide, i);
  return wide;
}

Result<std::string> FormatNpy(const Tensor& tensor) {
  HY_ASSIGN(const Tensor wide, WidenForNumpy(tensor));
  std::string_view descr;
  for (const Descr& row : kDescrs) {
    if (row.dtype == wide.dtype) descr = row.text;
  }
  if (descr.empty()) return InvalidArgument("A tensor without a dtype cannot be written.");
  std::string shape;
  for (const int64_t dim : tensor.dims) shape += fmt::format("{}, ", dim);
  if (tensor.dims.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.dims.size() == 1) shape.resize(shape.size() - 1);  // "(3,)"
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  // The elements begin at a multiple of 64; the header ends in a newline.
  const bool is_long = header.size() + 64 > 0xffff;
  const size_t fixed = is_long ? 12 : 10;
  header.append(63 - (fixed + header.size()) % 64, ' ');
  header.push_back('\n');
  std::string out(kMagic);
  out.push_back(is_long ? 2 : 1);
  out.push_back(0);
  for (size_t i = 0; i < (is_long ? 4u : 2u); ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i)));
  out += header;
  out.append(reinterpret_cast<const char*>(wide.bytes.data()), wide.bytes.size());
  return out;
}

}  // namespace halyard::tensor_file
