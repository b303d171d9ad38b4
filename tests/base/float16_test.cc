// SPDX-License-Identifier: Apache-2.0
// The 16-bit conversions against an independent double-precision definition, over all 16-bit values
// and their neighbourhoods, and against known bits.
#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace halyard {
namespace {

// The value of a finite 16-bit float by its definition.
double ValueOf(uint16_t bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  int mantissa = bits & ((1 << mantissa_bits) - 1);
  double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits >> 15 ? -magnitude : magnitude;
}

TEST(Float16, KnownBits) {
  EXPECT_EQ(F16FromF32(0.0f), 0x0000);
  EXPECT_EQ(F16FromF32(-0.0f), 0x8000);
  EXPECT_EQ(F16FromF32(1.0f), 0x3c00);
  EXPECT_EQ(F16FromF32(-2.0f), 0xc000);
  EXPECT_EQ(F16FromF32(65504.0f), 0x7bff);
  EXPECT_EQ(F16FromF32(65519.996f), 0x7bff);
  EXPECT_EQ(F16FromF32(65520.0f), 0x7c00);
  EXPECT_EQ(F16FromF32(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(F16FromF32(0x1p-24f), 0x0001);
  EXPECT_EQ(F16FromF32(0x1p-25f), 0x0000);
  EXPECT_EQ(F16FromF32(0x1.000002p-25f), 0x0001);
  EXPECT_EQ(F16FromF32(0x1.8p-24f), 0x0002);
  EXPECT_EQ(F16FromF32(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(BF16FromF32(1.0f), 0x3f80);
  EXPECT_EQ(BF16FromF32(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(BF16FromF32(-0.0f), 0x8000);
}

TEST(Float16, NanStaysNanAndKeepsItsSign) {
  for (uint32_t payload : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0xffffffffu, 0x7f802000u}) {
    float nan = std::bit_cast<float>(payload);
    EXPECT_TRUE(std::isnan(F32FromF16(F16FromF32(nan))));
    EXPECT_TRUE(std::isnan(F32FromBF16(BF16FromF32(nan))));
    EXPECT_EQ(F16FromF32(nan) >> 15, payload >> 31);
    EXPECT_EQ(BF16FromF32(nan) >> 15, payload >> 31);
  }
  EXPECT_EQ(F16FromF32(std::bit_cast<float>(0x7fc02000u)), 0x7e01);
  EXPECT_EQ(std::bit_cast<uint32_t>(F32FromF16(0x7c01)), 0x7fc02000u);
}

TEST(Float16, EveryValueRoundTrips) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    auto bits = static_cast<uint16_t>(i);
    if ((bits & 0x7c00) != 0x7c00) {
      EXPECT_EQ(static_cast<double>(F32FromF16(bits)), ValueOf(bits, 5, 10)) << bits;
      EXPECT_EQ(F16FromF32(F32FromF16(bits)), bits);
    }
    if ((bits & 0x7f80) != 0x7f80) {
      EXPECT_EQ(static_cast<double>(F32FromBF16(bits)), ValueOf(bits, 8, 7)) << bits;
      EXPECT_EQ(BF16FromF32(F32FromBF16(bits)), bits);
    }
  }
}

// Around the middle between every two neighbours: below goes down, above goes up, the tie goes to
// even.
TEST(Float16, RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    auto low = static_cast<uint16_t>(i);
    double below = ValueOf(low, 5, 10);
    double above = i + 1 == 0x7c00 ? 65536.0 : ValueOf(static_cast<uint16_t>(i + 1), 5, 10);
    auto middle = static_cast<float>((below + above) / 2);
    auto even = static_cast<uint16_t>(i % 2 == 0 ? i : i + 1);
    EXPECT_EQ(F16FromF32(middle), even) << middle;
    EXPECT_EQ(F16FromF32(std::nextafterf(middle, 0.0f)), low) << middle;
    EXPECT_EQ(F16FromF32(std::nextafterf(middle, 1e9f)), low + 1) << middle;
    EXPECT_EQ(F16FromF32(-middle), even | 0x8000) << middle;
  }
  for (uint32_t i = 0; i < 0x7f80; ++i) {
    uint32_t middle = i << 16 | 0x8000;
    uint32_t even = i % 2 == 0 ? i : i + 1;
    EXPECT_EQ(BF16FromF32(std::bit_cast<float>(middle)), even);
    EXPECT_EQ(BF16FromF32(std::bit_cast<float>(middle - 1)), i);
    EXPECT_EQ(BF16FromF32(std::bit_cast<float>(middle + 1)), i + 1);
  }
}

}  // namespace
}  // namespace halyard
