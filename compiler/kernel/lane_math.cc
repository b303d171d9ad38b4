// SPDX-License-Identifier: Apache-2.0
// Written for obviousness: integers as 64-bit numbers with their width, small floats by scaling in
// double.
#include "compiler/kernel/lane_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "compiler/kernel/opcode.h"

namespace halyard::kernel {
namespace {

uint64_t MaskOf(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

uint64_t Truncate(DType dtype, uint64_t value) {
  if (dtype == DType::kBool) return value & 1;
  return value & MaskOf(BitWidth(dtype));
}

struct SmallFloat {
  int mantissa_bits;
  int min_exponent;  // of the smallest normal number
  int max_exponent;
  uint64_t infinity;
  uint64_t nan;
};
constexpr SmallFloat kF16{10, -14, 15, 0x7c00, 0x7e00};
constexpr SmallFloat kBF16{7, -126, 127, 0x7f80, 0x7fc0};

double FromSmall(const SmallFloat& f, uint64_t bits) {
  const bool negative = (bits & 0x8000) != 0;
  const uint64_t magnitude = bits & 0x7fff;
  const uint64_t exponent = magnitude >> f.mantissa_bits;
  const double mantissa = static_cast<double>(magnitude & MaskOf(f.mantissa_bits));
  double value = 0;
  if (magnitude > f.infinity) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == f.infinity) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, f.min_exponent - f.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + std::ldexp(1.0, f.mantissa_bits),
                       static_cast<int>(exponent) - 1 + f.min_exponent - f.mantissa_bits);
  }
  return negative ? -value : value;
}

// Nearest even: the value in units of its last place is rounded as a double, which is exact.
uint64_t ToSmall(const SmallFloat& f, double value) {
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return f.nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | f.infinity;
  const int exponent = std::max(std::ilogb(magnitude), f.min_exponent);
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // `units` counts from the start of the binade below when normal: 2^m to 2^(m+1).
  const double implied = std::ldexp(1.0, f.mantissa_bits);
  const double code =
      units < implied ? units : units - implied + (exponent - f.min_exponent + 1) * implied;
  const uint64_t bits = static_cast<uint64_t>(code);
  return sign | std::min(bits, f.infinity);
}

uint64_t FromDouble(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return std::bit_cast<uint64_t>(value);
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kF16:
      return ToSmall(kF16, static_cast<float>(value));
    case DType::kBF16:
      return ToSmall(kBF16, static_cast<float>(value));
    default:
      HY_UNREACHABLE("{} is no float", FormatDType(dtype));
  }
}

template <typename F>
F Transcendental(Opcode opcode, F x, F y) {
  // In the widest type that libm has, so that the rounding to F is the only error that matters.
  const long double a = x;
  switch (opcode) {
    case Opcode::kExp:
      return static_cast<F>(std::exp(a));
    case Opcode::kExp2:
      return static_cast<F>(std::exp2(a));
    case Opcode::kLog:
      return static_cast<F>(std::log(a));
    case Opcode::kLog2:
      return static_cast<F>(std::log2(a));
    case Opcode::kSin:
      return static_cast<F>(std::sin(a));
    case Opcode::kCos:
      return static_cast<F>(std::cos(a));
    case Opcode::kTan:
      return static_cast<F>(std::tan(a));
    case Opcode::kTanh:
      return static_cast<F>(std::tanh(a));
    case Opcode::kErf:
      return static_cast<F>(std::erf(a));
    case Opcode::kPow:
      return static_cast<F>(std::pow(a, static_cast<long double>(y)));
    case Opcode::kAsin:
      return static_cast<F>(std::asin(a));
    case Opcode::kAcos:
      return static_cast<F>(std::acos(a));
    case Opcode::kAtan:
      return static_cast<F>(std::atan(a));
    case Opcode::kSinh:
      return static_cast<F>(std::sinh(a));
    case Opcode::kCosh:
      return static_cast<F>(std::cosh(a));
    case Opcode::kAsinh:
      return static_cast<F>(std::asinh(a));
    case Opcode::kAcosh:
      return static_cast<F>(std::acosh(a));
    case Opcode::kAtanh:
      return static_cast<F>(std::atanh(a));
    case Opcode::kRsqrt:
      return static_cast<F>(1 / std::sqrt(a));
    default:
      HY_UNREACHABLE("{} on floats", FormatOpcode(opcode));
  }
}

template <typename F>
F FloatOp(Opcode opcode, F a, F b, F c) {
  switch (opcode) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSub:
      return a - b;
    case Opcode::kMul:
      return a * b;
    case Opcode::kDiv:
      return a / b;
    case Opcode::kMin:
      return std::isnan(a) ? a : (a < b ? a : b);
    case Opcode::kMax:
      return std::isnan(a) ? a : (a > b ? a : b);
    case Opcode::kNeg:
      return -a;
    case Opcode::kAbs:
      return std::fabs(a);
    case Opcode::kFma:
      return std::fma(a, b, c);
    case Opcode::kSqrt:
      return std::sqrt(a);
    case Opcode::kFloor:
      return std::floor(a);
    case Opcode::kCeil:
      return std::ceil(a);
    case Opcode::kTrunc:
      return std::trunc(a);
    case Opcode::kRoundEven:
      return std::nearbyint(a);
    case Opcode::kCopySign:
      return std::copysign(a, b);
    case Opcode::kScale:
      if (std::isnan(a) || !std::isfinite(b)) return std::numeric_limits<F>::quiet_NaN();
      return std::scalbn(a, static_cast<int>(std::floor(std::clamp(b, F(-5000), F(5000)))));
    default:
      return Transcendental(opcode, a, b);
  }
}

uint64_t IntOp(Opcode opcode, DType dtype, uint64_t a, uint64_t b) {
  const int width = dtype == DType::kBool ? 1 : BitWidth(dtype);
  const bool is_signed = IsSigned(dtype);
  const int64_t x = LaneToInt(dtype, a);
  const int64_t y = LaneToInt(dtype, b);
  switch (opcode) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSub:
      return a - b;
    case Opcode::kMul:
      return a * b;
    case Opcode::kDiv:
      if (b == 0) return 0;
      if (!is_signed) return a / b;
      return y == -1 ? uint64_t{0} - a : static_cast<uint64_t>(x / y);
    case Opcode::kRem:
      if (b == 0) return 0;
      if (!is_signed) return a % b;
      return y == -1 ? 0 : static_cast<uint64_t>(x % y);
    case Opcode::kMin:
      return (is_signed ? x < y : a < b) ? a : b;
    case Opcode::kMax:
      return (is_signed ? x > y : a > b) ? a : b;
    case Opcode::kNeg:
      return uint64_t{0} - a;
    case Opcode::kAbs:
      return is_signed && x < 0 ? uint64_t{0} - a : a;
    case Opcode::kAnd:
      return a & b;
    case Opcode::kOr:
      return a | b;
    case Opcode::kXor:
      return a ^ b;
    case Opcode::kNot:
      return ~a;
    case Opcode::kShl:
      return b >= static_cast<uint64_t>(width) ? 0 : a << b;
    case Opcode::kShr:
      if (!is_signed) return b >= static_cast<uint64_t>(width) ? 0 : a >> b;
      return static_cast<uint64_t>(x >> std::min<uint64_t>(b, static_cast<uint64_t>(width - 1)));
    default:
      HY_UNREACHABLE("{} on integers", FormatOpcode(opcode));
  }
}

// Truncates towards zero and saturates; NaN is 0.
uint64_t FloatToInt(DType to, double value) {
  if (std::isnan(value)) return 0;
  const int width = BitWidth(to);
  const double whole = std::trunc(value);
  if (IsSigned(to)) {
    const double limit = std::ldexp(1.0, width - 1);
    if (whole >= limit) return MaskOf(width - 1);
    if (whole < -limit) return uint64_t{1} << (width - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(whole));
  }
  if (whole <= 0) return 0;
  if (whole >= std::ldexp(1.0, width)) return MaskOf(width);
  return static_cast<uint64_t>(whole);
}

}  // namespace

int64_t LaneToInt(DType dtype, uint64_t lane) {
  if (!IsSigned(dtype)) return static_cast<int64_t>(lane);
  const int shift = 64 - BitWidth(dtype);
  return static_cast<int64_t>(lane << shift) >> shift;
}

double LaneToDouble(DType dtype, uint64_t lane) {
  switch (dtype) {
    case DType::kF64:
      return std::bit_cast<double>(lane);
    case DType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(lane));
    case DType::kF16:
      return FromSmall(kF16, lane);
    case DType::kBF16:
      return FromSmall(kBF16, lane);
    default:
      HY_UNREACHABLE("{} is no float", FormatDType(dtype));
  }
}

uint64_t ConstLane(DType dtype, int64_t bits) {
  if (IsFloat(dtype)) return FromDouble(dtype, std::bit_cast<double>(bits));
  return Truncate(dtype, static_cast<uint64_t>(bits));
}

uint64_t ArithmeticLane(Opcode opcode, DType dtype, uint64_t a, uint64_t b, uint64_t c) {
  if (dtype == DType::kF64) {
    return std::bit_cast<uint64_t>(FloatOp(opcode, std::bit_cast<double>(a),
                                           std::bit_cast<double>(b), std::bit_cast<double>(c)));
  }
  if (dtype == DType::kF32) {
    const auto f = [](uint64_t lane) { return std::bit_cast<float>(static_cast<uint32_t>(lane)); };
    return std::bit_cast<uint32_t>(FloatOp(opcode, f(a), f(b), f(c)));
  }
  return Truncate(dtype, IntOp(opcode, dtype, a, b));
}

bool CompareLane(Opcode opcode, DType dtype, uint64_t a, uint64_t b) {
  const auto compare = [opcode](auto x, auto y) {
    switch (opcode) {
      case Opcode::kEq:
        return x == y;
      case Opcode::kNe:
        return x != y;
      case Opcode::kLt:
        return x < y;
      case Opcode::kLe:
        return x <= y;
      case Opcode::kGt:
        return x > y;
      default:
        return x >= y;
    }
  };
  if (IsFloat(dtype)) return compare(LaneToDouble(dtype, a), LaneToDouble(dtype, b));
  if (IsSigned(dtype)) return compare(LaneToInt(dtype, a), LaneToInt(dtype, b));
  return compare(a, b);
}

uint64_t ConvertLane(DType from, DType to, uint64_t a) {
  if (from == to) return a;
  if (IsFloat(from)) {
    const double value = LaneToDouble(from, a);
    if (to == DType::kBool) return value != 0 || std::isnan(value);
    if (IsFloat(to)) return FromDouble(to, value);
    return FloatToInt(to, value);
  }
  if (to == DType::kBool) return a != 0;
  if (!IsFloat(to)) return Truncate(to, static_cast<uint64_t>(LaneToInt(from, a)));
  if (to == DType::kF64) {
    const double value =
        IsSigned(from) ? static_cast<double>(LaneToInt(from, a)) : static_cast<double>(a);
    return FromDouble(to, value);
  }
  // One rounding to f32, and from there to the smaller ones.
  const float value =
      IsSigned(from) ? static_cast<float>(LaneToInt(from, a)) : static_cast<float>(a);
  return FromDouble(to, value);
}

}  // namespace halyard::kernel
