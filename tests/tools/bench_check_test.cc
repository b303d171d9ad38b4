// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace halyard::tools {
namespace {

using testing::HasSubstr;

Tensor Floats(const std::vector<float>& values) {
  Tensor tensor;
  tensor.dtype = HY_DTYPE_F32;
  tensor.dims = {static_cast<int64_t>(values.size())};
  tensor.bytes.resize(values.size() * 4);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

Json Judge(const std::vector<float>& actual, const std::vector<float>& expected,
           bool is_half = false) {
  CheckOptions options;
  options.is_half = is_half;
  return JudgeOutputs({"output 'y'"}, {Floats(actual)}, {Floats(expected)}, "that of cpu:0",
                      options);
}

std::vector<float> Scaled(const std::vector<float>& values, float factor) {
  std::vector<float> out = values;
  for (float& value : out) value *= factor;
  return out;
}

TEST(BenchCheck, AnOutputIsMeasuredByItsOwnSize) {
  // All below the absolute tolerance, as of a softmax over a thousand classes.
  const std::vector<float> small = {9e-4f, -3e-4f, 6e-4f, 5e-5f};
  for (const bool is_half : {false, true}) {
    for (const float factor : {0.0f, 0.05f, 1.5f, -1.0f}) {
      const Json errors = Judge(Scaled(small, factor), small, is_half);
      EXPECT_THAT(errors.value("wrong", ""), HasSubstr("output 'y' differs from that of cpu:0: "))
          << factor << " " << is_half;
      EXPECT_NEAR(errors["max_scaled_error"].get<double>(), std::fabs(1 - factor), 1e-6);
    }
    EXPECT_FALSE(Judge(Scaled(small, 1.004f), small, is_half).contains("wrong"));
  }
  // So small that f16 has no normal numbers there: what is lost is lost.
  const std::vector<float> tiny = {3e-5f, 2e-5f};
  EXPECT_TRUE(Judge({0, 0}, tiny, true).contains("wrong"));
}

TEST(BenchCheck, RoundingIsNoError) {
  // What is left of larger terms: a thousandth of the size in 16 bits, but not in f32 beyond 1.
  EXPECT_FALSE(Judge({500, 0.9f}, {500, 0.5f}, true).contains("wrong"));
  EXPECT_TRUE(Judge({500, 0.9f}, {500, 0.5f}, false).contains("wrong"));
  // Subnormal numbers of f16 taken for 0.
  EXPECT_FALSE(Judge({0.01f, 0}, {0.01f, 5e-5f}, true).contains("wrong"));
  // Zeros have no size of their own.
  EXPECT_FALSE(Judge({1e-7f, 0}, {0, 0}).contains("wrong"));
  EXPECT_TRUE(Judge({1, 0}, {0, 0}).contains("wrong"));
}

TEST(BenchCheck, OneLargeElementHidesNotTheOthers) {
  const std::vector<float> expected = {10000, 1, 2, -1.5f, 3};
  const Json errors = Judge({10000, 0.05f, 0.1f, -0.07f, 0.15f}, expected, true);
  EXPECT_THAT(errors.value("wrong", ""), HasSubstr("half of its elements are off by 95% or more"));
  EXPECT_FALSE(Judge({10000, 1.01f, 2.02f, -1.52f, 3.03f}, expected, true).contains("wrong"));
}

TEST(BenchCheck, WhatIsNotFiniteIsTold) {
  Json errors = Judge({INFINITY, 1}, {70000, 1}, true);
  EXPECT_THAT(errors.value("wrong", ""), HasSubstr("f16 holds no more than 65504"));
  EXPECT_FALSE(errors.contains("overflows"));
  errors = Judge({INFINITY, 1, NAN}, {INFINITY, 1, NAN});
  EXPECT_FALSE(errors.contains("wrong"));
  EXPECT_EQ(errors["overflows"], "2 of 3 elements of output 'y'");
  const auto verdicts = CheckVerdicts({{"errors", errors}});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0],
            "not all is compared: the reference on cpu:0 is itself infinite or not a number in 2 "
            "of 3 elements of output 'y'");
}

TEST(BenchCheck, ErrorsInWords) {
  EXPECT_EQ(FormatErrors(Json::object()), "not compared");
  EXPECT_EQ(FormatErrors({{"errors", Judge({1}, {1})}}), "0%");
  EXPECT_EQ(FormatErrors({{"errors", Judge({1.001f}, {1})}}), "0.1%");
  EXPECT_EQ(FormatErrors({{"errors", Judge({0.05f}, {1})}}), "wrong, 95%");
  EXPECT_EQ(FormatErrors({{"errors", Judge({3}, {1})}}), "wrong, 200%");
  const std::vector<std::string> verdicts = CheckVerdicts({{"errors", Judge({0.05f}, {1})}});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_THAT(verdicts[0], testing::AllOf(testing::StartsWith("wrong: output 'y' differs"),
                                          HasSubstr("nothing was timed"), HasSubstr("95%")));
}

}  // namespace
}  // namespace halyard::tools
