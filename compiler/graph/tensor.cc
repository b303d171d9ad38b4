// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/tensor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "compiler/graph/text_scanner.h"

namespace halyard::graph {
namespace {

// The float formats narrower than f32. `finite` formats have no infinity and one NaN per sign
// (f8e4m3).
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool is_finite;
};

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10, false};
    case DType::kBF16:
      return {8, 7, false};
    case DType::kF8E5M2:
      return {5, 2, false};
    case DType::kF8E4M3:
      return {4, 3, true};
    default:
      HY_UNREACHABLE("no narrow float");
  }
}

uint16_t EncodeNarrow(FloatFormat format, double value) {
  const int m = format.mantissa_bits;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int top = (1 << format.exponent_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (format.exponent_bits + m) : 0;
  const uint32_t nan = format.is_finite ? (uint32_t(top) << m) | ((1u << m) - 1)
                                        : (uint32_t(top) << m) | (1u << (m - 1));
  const uint32_t overflow = format.is_finite ? nan : uint32_t(top) << m;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | nan);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | overflow);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return static_cast<uint16_t>(sign);
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // Exact scaling, then one rounding to nearest even.
  double steps = std::nearbyint(std::ldexp(magnitude, m - exponent));
  if (steps >= std::ldexp(1.0, m + 1)) {
    steps /= 2;
    ++exponent;
  }
  const auto quotient = static_cast<uint32_t>(steps);
  if (quotient < (1u << m)) return static_cast<uint16_t>(sign | quotient);  // subnormal
  const int biased = exponent + bias;
  const uint32_t bits = (uint32_t(biased) << m) | (quotient & ((1u << m) - 1));
  if (biased > top || (!format.is_finite && biased == top) || (format.is_finite && bits >= nan)) {
    return static_cast<uint16_t>(sign | overflow);
  }
  return static_cast<uint16_t>(sign | bits);
}

double DecodeNarrow(FloatFormat format, uint32_t bits) {
  const int m = format.mantissa_bits;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int top = (1 << format.exponent_bits) - 1;
  const double sign = (bits >> (format.exponent_bits + m)) & 1 ? -1.0 : 1.0;
  const int biased = static_cast<int>(bits >> m) & top;
  const uint32_t mantissa = bits & ((1u << m) - 1);
  if (biased == top && !format.is_finite) {
    if (mantissa != 0) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    return sign * std::numeric_limits<double>::infinity();
  }
  if (format.is_finite && biased == top && mantissa == (1u << m) - 1) {
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  if (biased == 0) return sign * std::ldexp(mantissa, 1 - bias - m);
  return sign * std::ldexp((1u << m) + mantissa, biased - bias - m);
}

template <typename T>
T Get(const Tensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * int64_t{sizeof(T)}, sizeof(T));
  return value;
}
template <typename T>
void Put(Tensor& tensor, int64_t index, T value) {
  std::memcpy(tensor.bytes.data() + index * int64_t{sizeof(T)}, &value, sizeof(T));
}

uint64_t LoadBits(const Tensor& tensor, int64_t index) {
  switch (BitWidth(tensor.dtype)) {
    case 4:
      return (tensor.bytes[static_cast<size_t>(index / 2)] >> (index % 2 * 4)) & 15u;
    case 8:
      return Get<uint8_t>(tensor, index);
    case 16:
      return Get<uint16_t>(tensor, index);
    case 32:
      return Get<uint32_t>(tensor, index);
    case 64:
      return Get<uint64_t>(tensor, index);
    default:
      HY_UNREACHABLE("width {}", BitWidth(tensor.dtype));
  }
}

void StoreBits(Tensor& tensor, int64_t index, uint64_t bits) {
  switch (BitWidth(tensor.dtype)) {
    case 4: {
      uint8_t& byte = tensor.bytes[static_cast<size_t>(index / 2)];
      const int shift = static_cast<int>(index % 2 * 4);
      byte = static_cast<uint8_t>((byte & ~(15u << shift)) | ((bits & 15u) << shift));
      return;
    }
    case 8:
      return Put(tensor, index, static_cast<uint8_t>(bits));
    case 16:
      return Put(tensor, index, static_cast<uint16_t>(bits));
    case 32:
      return Put(tensor, index, static_cast<uint32_t>(bits));
    case 64:
      return Put(tensor, index, bits);
    default:
      HY_UNREACHABLE("width {}", BitWidth(tensor.dtype));
  }
}

// The range of an integer dtype, as the doubles nearest inside for saturation.
int64_t SaturateToInteger(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  const int bits = BitWidth(dtype);
  const double truncated = std::trunc(value);
  if (IsSigned(dtype)) {
    const double limit = std::ldexp(1.0, bits - 1);
    if (truncated >= limit) return bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1;
    if (truncated < -limit) return bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
    return static_cast<int64_t>(truncated);
  }
  if (truncated <= 0) return 0;
  if (truncated >= std::ldexp(1.0, bits)) return static_cast<int64_t>(~uint64_t{0} >> (64 - bits));
  return static_cast<int64_t>(static_cast<uint64_t>(truncated));
}

// The number that the text of a finite float reads as, in the dtype's own precision.
Status ParseFloatInto(Tensor& tensor, int64_t index, std::string_view text) {
  const char* end = text.data() + text.size();
  if (tensor.dtype == DType::kF32) {
    float value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      Put(tensor, index, value);
      return OkStatus();
    }
  } else {
    double value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      StoreFloat(tensor, index, value);
      return OkStatus();
    }
  }
  return InvalidArgument("'{}' is not a number of dtype {}.", text, FormatDType(tensor.dtype));
}

Status ParseElement(Tensor& tensor, int64_t index, std::string_view text) {
  const char* end = text.data() + text.size();
  if (tensor.dtype == DType::kBool && (text == "true" || text == "false")) {
    StoreInt(tensor, index, text == "true");
    return OkStatus();
  }
  if (IsFloat(tensor.dtype)) {
    if (text == "nan") {
      StoreFloat(tensor, index, std::numeric_limits<double>::quiet_NaN());
      return OkStatus();
    }
    if (text.substr(0, 6) == "nan(0x" && text.back() == ')') {
      uint64_t bits = 0;
      const char* start = text.data() + 6;
      const auto parsed = std::from_chars(start, end - 1, bits, 16);
      if (parsed.ec != std::errc() || parsed.ptr != end - 1) {
        return InvalidArgument("'{}' is not a NaN; write nan(0x...).", text);
      }
      StoreBits(tensor, index, bits);
      return OkStatus();
    }
    return ParseFloatInto(tensor, index, text);
  }
  if (KindOf(tensor.dtype) == DTypeKind::kUnsigned) {
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      StoreBits(tensor, index, value);
      if (static_cast<uint64_t>(LoadInt(tensor, index)) == value) return OkStatus();
    }
  } else {
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      StoreInt(tensor, index, value);
      if (LoadInt(tensor, index) == value) return OkStatus();
    }
  }
  return InvalidArgument("'{}' is not a value of dtype {}.", text, FormatDType(tensor.dtype));
}

}  // namespace

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

Result<int64_t> CountElements(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool overflows = false;
  bool is_empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return OutOfRange("A dimension is {}; the least is 0.", dim);
    is_empty |= dim == 0;
    overflows |= __builtin_mul_overflow(count, dim, &count);
  }
  if (is_empty) return int64_t{0};
  if (overflows)
    return OutOfRange("A shape of {} dimensions has more than 2^63 elements.", dims.size());
  return count;
}

Result<Tensor> MakeTensor(DType dtype, std::vector<int64_t> dims, int64_t max_bytes) {
  HY_ASSIGN(const int64_t count, CountElements(dims));
  HY_ASSIGN(const int64_t size_bytes, StorageBytes(dtype, count));
  if (size_bytes > max_bytes) {
    return OutOfRange("A tensor needs {} bytes; at most {} are allowed here.", size_bytes,
                      max_bytes);
  }
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = std::move(dims);
  tensor.bytes.resize(static_cast<size_t>(size_bytes));
  return tensor;
}

double LoadFloat(const Tensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::kF64:
      return Get<double>(tensor, index);
    case DType::kF32:
      return Get<float>(tensor, index);
    case DType::kU64:
      return static_cast<double>(Get<uint64_t>(tensor, index));
    default:
      break;
  }
  if (!IsFloat(tensor.dtype)) return static_cast<double>(LoadInt(tensor, index));
  return DecodeNarrow(FormatOf(tensor.dtype), static_cast<uint32_t>(LoadBits(tensor, index)));
}

int64_t LoadInt(const Tensor& tensor, int64_t index) {
  const uint64_t bits = LoadBits(tensor, index);
  if (!IsSigned(tensor.dtype)) return static_cast<int64_t>(bits);
  const int unused = 64 - BitWidth(tensor.dtype);
  return static_cast<int64_t>(bits << unused) >> unused;
}

void StoreFloat(Tensor& tensor, int64_t index, double value) {
  switch (tensor.dtype) {
    case DType::kF64:
      return Put(tensor, index, value);
    case DType::kF32:
      return Put(tensor, index, static_cast<float>(value));
    default:
      return StoreBits(tensor, index, EncodeNarrow(FormatOf(tensor.dtype), value));
  }
}

void StoreInt(Tensor& tensor, int64_t index, int64_t value) {
  if (tensor.dtype == DType::kBool) value = value != 0;
  StoreBits(tensor, index, static_cast<uint64_t>(value));
}

void ConvertElement(const Tensor& from, int64_t from_index, Tensor& to, int64_t to_index) {
  const bool from_float = IsFloat(from.dtype);
  if (from.dtype == to.dtype) return CopyElement(from, from_index, to, to_index);
  if (to.dtype == DType::kBool) {
    const bool value =
        from_float ? LoadFloat(from, from_index) != 0 : LoadInt(from, from_index) != 0;
    return StoreInt(to, to_index, value);
  }
  if (IsFloat(to.dtype)) {
    // A 64-bit integer goes to f32 in one rounding; through double it would be two.
    if (to.dtype == DType::kF32 && BitWidth(from.dtype) == 64 && !from_float) {
      const int64_t value = LoadInt(from, from_index);
      const float narrow = from.dtype == DType::kU64
                               ? static_cast<float>(static_cast<uint64_t>(value))
                               : static_cast<float>(value);
      return Put(to, to_index, narrow);
    }
    return StoreFloat(to, to_index, LoadFloat(from, from_index));
  }
  StoreInt(to, to_index,
           from_float ? SaturateToInteger(to.dtype, LoadFloat(from, from_index))
                      : LoadInt(from, from_index));
}

void CopyElement(const Tensor& from, int64_t from_index, Tensor& to, int64_t to_index) {
  StoreBits(to, to_index, LoadBits(from, from_index));
}

std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

bool NextIndex(std::span<const int64_t> dims, std::vector<int64_t>& index) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}

std::string FormatElement(const Tensor& tensor, int64_t index) {
  if (tensor.dtype == DType::kBool) return LoadInt(tensor, index) != 0 ? "true" : "false";
  if (KindOf(tensor.dtype) == DTypeKind::kUnsigned) {
    return fmt::format("{}", static_cast<uint64_t>(LoadInt(tensor, index)));
  }
  if (!IsFloat(tensor.dtype)) return fmt::format("{}", LoadInt(tensor, index));
  const double value = LoadFloat(tensor, index);
  if (std::isnan(value)) {
    Tensor canonical = *MakeTensor(tensor.dtype, {});
    StoreFloat(canonical, 0, std::numeric_limits<double>::quiet_NaN());
    const uint64_t bits = LoadBits(tensor, index);
    return bits == LoadBits(canonical, 0) ? "nan" : fmt::format("nan(0x{:x})", bits);
  }
  if (tensor.dtype == DType::kF64) return fmt::format("{}", value);
  if (tensor.dtype == DType::kF32) return fmt::format("{}", static_cast<float>(value));
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  Tensor probe = *MakeTensor(tensor.dtype, {});
  for (int digits = 1; digits < 9; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    if (ParseFloatInto(probe, 0, text).ok() && LoadFloat(probe, 0) == value) return text;
  }
  return fmt::format("{}", value);
}

std::string FormatTensor(const Tensor& tensor) {
  std::string out =
      fmt::format("{}[{}]{{", FormatDType(tensor.dtype), fmt::join(tensor.dims, ", "));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i > 0) out += ", ";
    out += FormatElement(tensor, i);
  }
  return out + "}";
}

Result<Tensor> ParseTensor(std::string_view text) {
  TextScanner scanner(text);
  HY_ASSIGN(const std::string dtype_name, scanner.Word());
  HY_ASSIGN(const DType dtype, ParseDType(dtype_name));
  HY_TRY(scanner.Expect("["));
  std::vector<int64_t> dims;
  while (!scanner.TryConsume("]")) {
    if (!dims.empty()) HY_TRY(scanner.Expect(","));
    HY_ASSIGN(const int64_t dim, scanner.Integer());
    dims.push_back(dim);
  }
  // Every element has a character or more in the text, which bounds what a lying shape can
  // allocate.
  HY_ASSIGN(Tensor tensor, MakeTensor(dtype, dims, static_cast<int64_t>(text.size()) * 8));
  HY_TRY(scanner.Expect("{"));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i > 0) HY_TRY(scanner.Expect(","));
    HY_ASSIGN(const std::string element, scanner.Scalar());
    HY_TRY(ParseElement(tensor, i, element));
  }
  HY_TRY(scanner.Expect("}"));
  if (!scanner.AtEnd()) return scanner.Error("the tensor ends before this text");
  return tensor;
}

Tensor TensorOfFloats(DType dtype, std::vector<int64_t> dims, std::span<const double> values) {
  Result<Tensor> made = MakeTensor(dtype, std::move(dims));
  HY_CHECK(made.ok() && made->elements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(dtype)) {
      StoreFloat(*made, static_cast<int64_t>(i), values[i]);
    } else {
      StoreInt(*made, static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
    }
  }
  return std::move(made).value();
}

Tensor TensorOfInts(DType dtype, std::vector<int64_t> dims, std::span<const int64_t> values) {
  Result<Tensor> made = MakeTensor(dtype, std::move(dims));
  HY_CHECK(made.ok() && made->elements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(dtype)) {
      StoreFloat(*made, static_cast<int64_t>(i), static_cast<double>(values[i]));
    } else {
      StoreInt(*made, static_cast<int64_t>(i), values[i]);
    }
  }
  return std::move(made).value();
}

}  // namespace halyard::graph
