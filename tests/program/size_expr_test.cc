// SPDX-License-Identifier: Apache-2.0
// Evaluation of size expressions: values, rounding, and every failure.
#include <gtest/gtest.h>

#include "compiler/program/program.h"

namespace halyard::program {
namespace {

Result<int64_t> Binary(ExprOp op, int64_t a, int64_t b) {
  const int64_t symbols[] = {a};
  return SizeExpr{{{ExprOp::kSymbol, 0}, {ExprOp::kConst, b}, {op}}}.Evaluate(symbols);
}

TEST(SizeExprTest, Values) {
  EXPECT_EQ(*Binary(ExprOp::kAdd, 3, 4), 7);
  EXPECT_EQ(*Binary(ExprOp::kMul, -3, 4), -12);
  EXPECT_EQ(*Binary(ExprOp::kFloorDiv, 7, 2), 3);
  EXPECT_EQ(*Binary(ExprOp::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(*Binary(ExprOp::kMod, -7, 2), 1);
  EXPECT_EQ(*Binary(ExprOp::kMod, INT64_MIN, 3), 1);
  EXPECT_EQ(*Binary(ExprOp::kMin, 3, 4), 3);
  EXPECT_EQ(*Binary(ExprOp::kMax, 3, 4), 4);
  EXPECT_EQ(*SizeExpr::Constant(9).Evaluate({}), 9);
}

TEST(SizeExprTest, Failures) {
  EXPECT_EQ(Binary(ExprOp::kAdd, INT64_MAX, 1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Binary(ExprOp::kMul, INT64_MAX, 2).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Binary(ExprOp::kFloorDiv, 1, 0).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Binary(ExprOp::kMod, 1, -1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(SizeExpr{}.Evaluate({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE((SizeExpr{{{ExprOp::kSymbol, 0}}}.Evaluate({}).ok()));
  EXPECT_FALSE((SizeExpr{{{ExprOp::kAdd}}}.Evaluate({}).ok()));
  EXPECT_FALSE((SizeExpr{{{ExprOp::kConst, 1}, {ExprOp::kConst, 1}}}.Evaluate({}).ok()));
  SizeExpr deep;
  for (int i = 0; i < 1000; ++i) deep.tokens.push_back({ExprOp::kConst, 1});
  EXPECT_FALSE(deep.Evaluate({}).ok());
}

}  // namespace
}  // namespace halyard::program
