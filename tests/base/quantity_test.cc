// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace halyard {
namespace {

TEST(Quantity, CountsAgreeWithTheirNoun) {
  EXPECT_EQ(Counted(0, "transfer"), "0 transfers");
  EXPECT_EQ(Counted(1, "transfer"), "1 transfer");
  EXPECT_EQ(Counted(size_t{2}, "transfer"), "2 transfers");
  EXPECT_EQ(Counted(-1, "byte"), "-1 bytes");
  EXPECT_EQ(Counted(1, "copy"), "1 copy");
  EXPECT_EQ(Counted(2, "copy"), "2 copies");
  EXPECT_EQ(Counted(3, "dispatch"), "3 dispatches");
  EXPECT_EQ(Counted(0, "solver step"), "0 solver steps");
  EXPECT_EQ(Counted(2, "key"), "2 keys");
  EXPECT_EQ(Counted(uint32_t{2}, "spatial axis"), "2 spatial axes");
  EXPECT_EQ(Counted(int64_t{5}, "bus"), "5 buses");
}

TEST(Quantity, FourSignificantDigitsAndNoExponent) {
  EXPECT_EQ(FormatSignificant(0), "0");
  EXPECT_EQ(FormatSignificant(1), "1.000");
  EXPECT_EQ(FormatSignificant(43.8351), "43.84");
  EXPECT_EQ(FormatSignificant(9.99951), "10.00");
  EXPECT_EQ(FormatSignificant(999.96), "1000");
  EXPECT_EQ(FormatSignificant(1234567), "1235000");
  EXPECT_EQ(FormatSignificant(-0.04621449), "-0.04621");
  EXPECT_EQ(FormatSignificant(INFINITY), "inf");
}

TEST(Quantity, TimesTakeTheUnitThatSuits) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(4.6e-7), "0.460 us");
  EXPECT_EQ(FormatSeconds(213.2e-6), "213.2 us");
  EXPECT_EQ(FormatSeconds(-213.2e-6), "-213.2 us");
  EXPECT_EQ(FormatSeconds(999.94e-6), "999.9 us");
  EXPECT_EQ(FormatSeconds(999.96e-6), "1.000 ms");
  EXPECT_EQ(FormatSeconds(43.835e-3), "43.84 ms");
  EXPECT_EQ(FormatSeconds(0.99996), "1.000 s");
  EXPECT_EQ(FormatSeconds(125.25), "125.2 s");
}

TEST(Quantity, SizesTakeTheUnitThatSuits) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1), "1 byte");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 40), "5.0 TiB");
}

}  // namespace
}  // namespace halyard
