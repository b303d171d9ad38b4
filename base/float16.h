// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the 16-bit floats, bit-exact on every machine: round to nearest, ties
// to even, overflow to infinity, denormals kept, NaN to a quiet NaN with the same sign and leading
// payload bits.
#pragma once

#include <bit>
#include <cstdint>

namespace halyard {

// IEEE binary16.
constexpr uint16_t F16FromF32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    // The payload's leading bits, made quiet.
    return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  }
  // 65520 and above lie nearer to 2^16, which is infinity.
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude >= 0x38800000) {
    // Normal: rebias, then round at bit 13; a carry into the exponent is right.
    uint32_t rebiased = magnitude - 0x38000000;
    uint32_t rounded = rebiased + 0xfff + (rebiased >> 13 & 1);
    return static_cast<uint16_t>(sign | rounded >> 13);
  }
  // At most half of the smallest denormal 2^-24 goes to zero.
  if (magnitude <= 0x33000000) return sign;
  // Denormal: the value in units of 2^-24 is the 24-bit significand shifted right by 126 -
  // exponent.
  uint32_t exponent = magnitude >> 23;
  uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  uint32_t shift = 126 - exponent;
  uint32_t quotient = significand >> shift;
  uint32_t rest = significand & ((1u << shift) - 1);
  uint32_t half = 1u << (shift - 1);
  quotient += rest > half || (rest == half && (quotient & 1));
  return static_cast<uint16_t>(sign | quotient);
}

constexpr float F32FromF16(uint16_t value) {
  uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
  uint32_t exponent = value >> 10 & 0x1f;
  uint32_t mantissa = value & 0x3ff;
  if (exponent == 0x1f) {
    // A signalling NaN becomes quiet, as the hardware's conversion makes it.
    uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | mantissa << 13);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Denormal: shift the leading one to bit 10.
  auto shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21;
  return std::bit_cast<float>(sign | (113 - shift) << 23 | (mantissa << shift & 0x3ff) << 13);
}

// bfloat16: the upper half of an f32.
constexpr uint16_t BF16FromF32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float F32FromBF16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

}  // namespace halyard
