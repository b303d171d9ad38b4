// SPDX-License-Identifier: Apache-2.0
// What programs record of the times that placement expects of their kernels.
#include "compiler/pipeline/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "compiler/place/plan.h"
#include "compiler/place/prediction.h"
#include "tests/pipeline/two_devices.h"

namespace halyard::pipeline {
namespace {

struct Predicted {
  place::KernelPrediction prediction;
  std::string record;  // its text
};

// What a program for one CPU without races records of its kernels.
void PredictOnCpu(std::string_view text, std::vector<Predicted>* out) {
  CompileRequest request;
  request.graph_text = text;
  request.options.tune = false;
  request.devices = TwoDevices();
  request.devices.pop_back();
  request.devices[0].target = *ParseTarget("cpu-avx2");
  const auto compiled = pipeline::Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  for (const program::Record& record : compiled->program.records) {
    if (record.kind != place::kPredictedRecord) continue;
    const auto prediction = place::ParsePrediction(record.text);
    ASSERT_TRUE(prediction.ok()) << prediction.status().ToString();
    out->push_back({*prediction, record.text});
  }
}

// Each kernel is predicted once, and all predictions together are what the clusters cost.
TEST(Predictions, EveryKernelHasAPredictionOnce) {
  constexpr std::string_view kText = R"(graph main(%x: f32[64, 96], %w: f32[96, 80]) -> (%d, %e) {
  %a = matmul %x, %w : f32[64, 80] "product"
  %b = tanh %a : f32[64, 80] "squash"
  %s = reduce_sum %b {axes = [1], keep_dims = 1} : f32[64, 1] "sum"
  %t = broadcast %s {shape = [64, 80]} : f32[64, 80] "wide"
  %d = div %b, %t : f32[64, 80] "share"
  %e = exp %d : f32[64, 80] "last"
}
)";
  CompileRequest request;
  request.graph_text = kText;
  request.options.tune = false;
  request.options.placement.affinities = {{"*", "cpu:0", place::Strength::kRequire}};
  request.devices = TwoDevices();
  request.devices[0].target = *ParseTarget("cpu-avx2");
  const auto compiled = pipeline::Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  std::multiset<std::string> predicted;
  std::set<std::string> dispatched;
  double seconds = 0, costs = 0;
  for (const program::Record& record : compiled->program.records) {
    if (record.kind == "plan") {
      const auto plan = place::ParsePlan(record.text);
      ASSERT_TRUE(plan.ok()) << plan.status().ToString();
      for (const auto& cost : plan->costs) costs += cost[0].seconds;
    }
    if (record.kind != place::kPredictedRecord) continue;
    const auto prediction = place::ParsePrediction(record.text);
    ASSERT_TRUE(prediction.ok()) << prediction.status().ToString();
    predicted.insert(prediction->labels.begin(), prediction->labels.end());
    seconds += prediction->seconds;
  }
  for (const program::Command& command : compiled->program.entries[0].blocks[0].commands) {
    if (command.kind == program::CommandKind::kDispatch) dispatched.insert(command.label);
  }
  EXPECT_GT(dispatched.size(), 1u);
  EXPECT_EQ(std::set<std::string>(predicted.begin(), predicted.end()), dispatched);
  EXPECT_EQ(predicted.size(), dispatched.size());
  EXPECT_NEAR(seconds, costs, 1e-12);
}

// What several kernels compute, each for itself, makes no single work of them.
TEST(Predictions, KernelsThatComputeTheSameMaskArePredictedApart) {
  constexpr std::string_view kText = R"(graph main(%x: f32[64, 64], %m: f32[64, 64]) -> (%d) {
  %n = neg %m : f32[64, 64] "mask"
  %a = matmul %x, %x : f32[64, 64] "first"
  %b = add %a, %n : f32[64, 64] "masked1"
  %c = matmul %b, %x : f32[64, 64] "second"
  %d = add %c, %n : f32[64, 64] "masked2"
}
)";
  std::vector<Predicted> all;
  ASSERT_NO_FATAL_FAILURE(PredictOnCpu(kText, &all));
  size_t products = 0;
  for (const auto& [prediction, record] : all) {
    EXPECT_EQ(prediction.labels.size(), 1u) << record;
    EXPECT_LT(prediction.work.flops, 3.0 * 64 * 64 * 64) << record;
    products += prediction.work.op_class == place::OpClass::kContraction;
  }
  EXPECT_EQ(products, 2u);
}

// Products of one value become one, and what reads its parts is work of its own, though the parts
// have the product's name.
TEST(Predictions, WhatReadsThePartsOfAMergedProductIsPredictedApart) {
  const auto weights = [](int64_t seed) {
    std::string out;
    for (int64_t i = 0; i < 32 * 32; ++i)
      out += fmt::format("{}{}", i == 0 ? "" : ", ", (i * seed) % 7);
    return out;
  };
  const std::string text = fmt::format(R"(graph main(%x: f32[64, 32]) -> (%d) {{
  %u = constant f32[32, 32]{{{}}}
  %v = constant f32[32, 32]{{{}}}
  %q = matmul %x, %u : f32[64, 32] "q"
  %k = matmul %x, %v : f32[64, 32] "k"
  %d = matmul %q, %k {{transpose_b = 1}} : f32[64, 64] "scores"
}}
)",
                                       weights(3), weights(5));
  std::vector<Predicted> all;
  ASSERT_NO_FATAL_FAILURE(PredictOnCpu(text, &all));
  std::multiset<double> flops;
  for (const auto& [prediction, record] : all) {
    EXPECT_NE(prediction.key, 0u) << record;
    if (prediction.work.op_class != place::OpClass::kContraction) continue;
    flops.insert(prediction.work.flops);
  }
  EXPECT_THAT(flops, ::testing::ElementsAre(2.0 * 64 * 32 * 64, 2.0 * 64 * 64 * 32));
}

}  // namespace
}  // namespace halyard::pipeline
