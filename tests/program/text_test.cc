// SPDX-License-Identifier: Apache-2.0
// The text form of programs: round trips, and errors with their place.
#include <gtest/gtest.h>

#include "random_program.h"

namespace halyard::program {
namespace {

TEST(ProgramTextTest, FormatOfParseOfFormatIsFormat) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Program program = RandomProgram(seed);
    ASSERT_TRUE(Verify(program).ok()) << Verify(program).ToString();
    const std::string text = Format(program);
    const auto parsed = Parse(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << "\n" << text;
    ASSERT_EQ(Format(*parsed), text);
  }
}

TEST(ProgramTextTest, LongSumsRoundTrip) {
  Program program = RandomProgram(1);
  SizeExpr sum = SizeExpr::Constant(0);
  for (int i = 0; i < 500; ++i) {
    sum.tokens.push_back({ExprOp::kConst, i});
    sum.tokens.push_back({ExprOp::kAdd});
  }
  program.entries[0].guards.push_back({sum, "a sum"});
  const auto parsed = Parse(Format(program));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->entries[0].guards.back().expr, sum);
}

TEST(ProgramTextTest, ErrorsNameLineAndColumn) {
  const auto missing = Parse("program \"x\" hash 0x1\nsymbol \"n\" min 0 max\n");
  EXPECT_EQ(missing.status().message(), "3:1: a number in range is expected here, not ''.");
  const auto unknown = Parse("program \"x\" hash 0x1\nsimbol");
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message().substr(0, 4), "2:1:");
  EXPECT_FALSE(Parse("program \"x\" hash 0x11111111111111111").ok());
  EXPECT_FALSE(Parse("program \"x").ok());
  EXPECT_FALSE(Parse("").ok());
}

}  // namespace
}  // namespace halyard::program
