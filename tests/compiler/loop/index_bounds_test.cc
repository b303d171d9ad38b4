// SPDX-License-Identifier: Apache-2.0
// Which integers of which buffers a kernel uses as indices, and of what.
#include "compiler/loop/index_bounds.h"

#include <gtest/gtest.h>

#include "compiler/loop/text.h"

namespace halyard::loop {
namespace {

constexpr std::string_view kIndices = R"(function {
  symbol n in [1, 64]
  buffer ids: i64[8] input
  buffer narrow: i32[8] input
  buffer twice: i64[8] input
  buffer counts: i64[8] input
  buffer flags: bool[8] input
  buffer floats: f32[8] input
  buffer table: f32[4096] input
  buffer out: f32[8] output
  kernel pick {
    site "pick" "index"
    parallel p < 8 {
      %0 = load ids[p]
      indirect a = %0 < 100 site 0
      %1 = load narrow[p]
      %2 = convert.i64 %1
      %3 = load flags[p]
      %4 = const.i64 0
      %5 = select %3, %2, %4
      indirect b = %5 < 3 site 0
      %6 = load twice[p]
      %7 = add %6, %6
      indirect c = %7 < 50 site 0
      indirect d = %6 < n site 0
      %8 = load floats[p]
      %9 = convert.i64 %8
      indirect e = %9 < 9 site 0
      %10 = reduce sum r < 8 {
        %11 = load counts[r]
        yield %11
      }
      indirect f = %10 < 7 site 0
      %12 = load table[a + b + c + d + e + f]
      store out[p], %12
    }
  }
}
)";

TEST(IndexBounds, EachBufferHasItsLeastExtent) {
  ExprArena exprs;
  auto parsed = ParseFunction(std::string(kIndices), exprs);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToLine();
  exprs.SetHint(exprs.Dim("n"), 20);
  const auto bounds = IndexBoundsOf(*parsed, 0);
  ASSERT_EQ(bounds.size(), 4u) << "neither flags nor floats";
  EXPECT_EQ(bounds.at(0).extent, 100);
  EXPECT_TRUE(bounds.at(0).is_direct);
  EXPECT_EQ(bounds.at(1).extent, 3);
  EXPECT_TRUE(bounds.at(1).is_direct) << "through a conversion and a selection";
  EXPECT_EQ(bounds.at(2).extent, 20);
  EXPECT_FALSE(bounds.at(2).is_direct) << "one of its indices is a sum";
  EXPECT_EQ(bounds.at(3).extent, 7);
  EXPECT_FALSE(bounds.at(3).is_direct) << "a reduction";
}

}  // namespace
}  // namespace halyard::loop
