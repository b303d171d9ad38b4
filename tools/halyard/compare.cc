// SPDX-License-Identifier: Apache-2.0
// Element-wise comparison.
#include "tools/halyard/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace halyard::tools {
namespace {

template <typename T>
double LoadAs(const Tensor& tensor, size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

double LoadHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

double ElementAsDouble(const Tensor& tensor, size_t index) {
  switch (tensor.dtype) {
    case HY_DTYPE_BOOL:
    case HY_DTYPE_U8:
      return LoadAs<uint8_t>(tensor, index);
    case HY_DTYPE_I8:
      return LoadAs<int8_t>(tensor, index);
    case HY_DTYPE_I16:
      return LoadAs<int16_t>(tensor, index);
    case HY_DTYPE_U16:
      return LoadAs<uint16_t>(tensor, index);
    case HY_DTYPE_I32:
      return LoadAs<int32_t>(tensor, index);
    case HY_DTYPE_U32:
      return LoadAs<uint32_t>(tensor, index);
    case HY_DTYPE_I64:
      return LoadAs<int64_t>(tensor, index);
    case HY_DTYPE_U64:
      return LoadAs<uint64_t>(tensor, index);
    case HY_DTYPE_F32:
      return LoadAs<float>(tensor, index);
    case HY_DTYPE_F64:
      return LoadAs<double>(tensor, index);
    default:
      break;
  }
  uint16_t bits;
  std::memcpy(&bits, tensor.bytes.data() + index * 2, 2);
  if (tensor.dtype == HY_DTYPE_F16) return LoadHalf(bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

double LargestMagnitude(const Tensor& tensor) {
  double largest = 0;
  if (ElementBytes(tensor.dtype) == 0) return largest;
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    const double magnitude = std::fabs(ElementAsDouble(tensor, i));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

Comparison Compare(const Tensor& actual, const Tensor& expected, double rtol, double atol) {
  Comparison out;
  if (actual.dtype != expected.dtype || actual.dims != expected.dims) {
    out.difference = "it is " + FormatType(actual) + "; " + FormatType(expected) + " is expected";
    return out;
  }
  if (ElementBytes(actual.dtype) == 0) {
    out.is_equal = actual.bytes == expected.bytes;
    if (!out.is_equal) out.difference = "the bytes differ";
    return out;
  }
  const auto count = static_cast<size_t>(actual.elements());
  for (size_t i = 0; i < count; ++i) {
    const double a = ElementAsDouble(actual, i), e = ElementAsDouble(expected, i);
    bool is_good = (std::isnan(a) && std::isnan(e)) || a == e;
    if (!is_good && std::isfinite(a) && std::isfinite(e)) {
      const double absolute = std::fabs(a - e);
      out.max_absolute = std::max(out.max_absolute, absolute);
      if (e != 0) out.max_relative = std::max(out.max_relative, absolute / std::fabs(e));
      is_good = absolute <= atol + rtol * std::fabs(e);
    }
    if (!is_good && !(std::isfinite(a) && std::isfinite(e))) out.is_finite = false;
    if (!is_good && out.difference.empty()) {
      char text[160];
      std::snprintf(text, sizeof(text), "element %zu is %.9g; %.9g is expected (rtol %g, atol %g)",
                    i, a, e, rtol, atol);
      out.difference = text;
    }
  }
  out.is_equal = out.difference.empty();
  return out;
}

}  // namespace halyard::tools
