// SPDX-License-Identifier: Apache-2.0
// What fusion decided, told of nodes of the model and of kernels that are left.
#include "compiler/pipeline/fusion_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace halyard::pipeline {
namespace {

loop::Kernel NestNamed(const std::string& name, std::vector<std::string> nodes) {
  loop::Kernel nest;
  nest.name = name;
  nest.nodes = std::move(nodes);
  return nest;
}

std::vector<std::string> Told(const std::vector<loop::FusionRecord>& decisions) {
  loop::Function function;
  function.kernels.push_back(NestNamed("_conv", {"/conv"}));
  function.kernels.push_back(NestNamed("_conv_2", {"/conv", "/view"}));
  function.kernels.push_back(NestNamed("_relu", {"/relu"}));
  function.kernels.push_back(NestNamed("_max", {"/softmax"}));
  function.kernels.push_back(NestNamed("_sum", {"/softmax"}));
  function.kernels.push_back(NestNamed("_div", {"/softmax"}));
  function.kernels.push_back(NestNamed("nameless", {}));
  std::vector<std::string> told;
  for (const program::Record& record : FusionStory(function).Tell(decisions)) {
    EXPECT_EQ(record.kind, "fusion");
    told.push_back(record.subject + ": " + record.text);
  }
  return told;
}

TEST(FusionStory, TellsOfNodesUnderTheKernelThatIsLeft) {
  EXPECT_THAT(Told({{"_conv_2", "_relu", true, "epilogue", "_conv_2"},
                    {"_max", "_sum", true, "rows", "_sum"},
                    {"_sum", "_div", true, "rows", "_sum"},
                    {"_sum", "nameless", true, "side by side", "nameless"},
                    {"_conv", "_conv_2", false, "it is read from memory", ""}}),
              ::testing::ElementsAre("_conv_2: '/relu' joins '/conv': epilogue.",
                                   "nameless: Parts of '/softmax' join: rows.",  // twice, told once
                                   "nameless: 'nameless' joins '/softmax': side by side.",
                                   "_conv_2: stays apart from '_conv': it is read from memory."));
}

TEST(FusionStory, OfNoDecisionsIsEmpty) { EXPECT_THAT(Told({}), ::testing::IsEmpty()); }

}  // namespace
}  // namespace halyard::pipeline
