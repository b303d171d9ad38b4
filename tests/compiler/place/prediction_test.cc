// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/program/program.h"

namespace halyard::place {
namespace {

TEST(Prediction, TextRoundTrips) {
  const KernelPrediction prediction{{OpClass::kContraction, DType::kF16, 2e9, 4096, 64, 16, 4},
                                    1.5e-5,
                                    Source::kFitted,
                                    0xa1b2,
                                    {"first", "second_2"}};
  const std::string text = FormatPrediction(prediction);
  EXPECT_EQ(
      text,
      "contraction f16 2000000000 4096 64 16 4 1.5e-05 fitted 000000000000a1b2 first second_2");
  const auto parsed = ParsePrediction(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, prediction);
}

TEST(Prediction, BadTextIsAnError) {
  for (const char* text : {"", "contraction", "magic f32 0 0 0 0 0 1 table 000000000000a1b2 a",
                           "contraction f33 0 0 0 1 table 000000000000a1b2 a",
                           "contraction f32 0 0 1 table 000000000000a1b2 a",
                           "contraction f32 0 -1 0 1 table 000000000000a1b2 a",
                           "contraction f32 0 0 0 0 0 x table 000000000000a1b2 a",
                           "contraction f32 0 0 0 0 0 -1 table 000000000000a1b2 a",
                           "contraction f32 0 0 0 0 0 inf table 000000000000a1b2 a",
                           "contraction f32 0 0 0 0 0 1 guess 000000000000a1b2 a",
                           "contraction f32 0 0 0 0 0 1 table 000000000000a1b2",
                           "contraction f32 0 0 0 0 0 1 table a b",
                           "contraction f32 0 0 0 0 0 1 table 000000000000a1b g",
                           "contraction f32 0 0 0 0 0 1 table"}) {
    EXPECT_EQ(ParsePrediction(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Prediction, IsComparedWhereAllOfItsKernelsWereTimed) {
  program::Program program;
  program.records = {
      {"predicted", "a", "contraction f32 0 0 0 0 0 2e-06 table 0000000000000000 a b"},
      {"predicted", "c", "pointwise f32 0 0 0 0 0 1e-06 table 0000000000000000 c"},
      {"predicted", "d", "pointwise f32 0 0 0 0 0 1e-06 table 0000000000000000 d"},
      {"predicted", "e", "nonsense"},
      {"node", "a", "in dispatch 'a'"}};
  const std::map<std::string, double> seconds = {{"a", 1e-6}, {"b", 3e-6}, {"c", 2e-6}, {"x", 1}};
  const std::vector<Prediction> all = ComparePredictions(program, seconds);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].op_class, OpClass::kContraction);
  EXPECT_DOUBLE_EQ(all[0].measured_seconds, 4e-6);
  const std::vector<ModelError> errors = ModelErrors(all);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].op_class, OpClass::kPointwise);
  EXPECT_DOUBLE_EQ(errors[0].median_ratio, 0.5);
  EXPECT_DOUBLE_EQ(errors[1].median_error, 0.5);
}

}  // namespace
}  // namespace halyard::place
