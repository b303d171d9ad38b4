// SPDX-License-Identifier: Apache-2.0
// How many kernels each committed model is after fusion: a lost fusion fails here, where a timing
// would only drift. Runs the pipeline up to fusion, without code.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compiler/abi.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/target/target.h"
#include "tests/pipeline/model_folder.h"

namespace halyard::pipeline {
namespace {

struct Row {
  const char* model;
  size_t most;  // kernels
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.model; }
};

// With an unknown batch there is one kernel more in some. ResNet-50 is 53 convolutions, of which 52
// carry what follows them, two poolings, a product and a copy of the picture with its channels
// innermost; BERT and GPT-2 are seven kernels a layer: projection, attention, projection, norm, two
// products, norm. MiniLM is BERT with six layers. ViT adds the patches, the class token with
// positions, a norm and the scores to twelve such layers. EfficientNet-B0 is 81 convolutions, 17
// means, a product and the copy; ConvNeXt-Tiny is four kernels a block (depthwise, norm, two
// products), two at each of four changes of size, three at the end and the copy. The numbers are
// what is reached, so raising one needs a reason.
class DispatchCount : public ::testing::TestWithParam<Row> {};

void FuseModel(const Row& row, const std::map<std::string, int64_t>& symbols,
               std::set<std::string, std::less<>> disabled, CompileState* state,
               std::string_view stop_after = "fuse") {
  const ModelFolder folder(row.model);
  CompileRequest request;
  request.path = folder.model();
  request.options.symbol_values = symbols;
  state->request = &request;
  program::Device device;
  device.name = "cpu:0";
  const Result<Target> target = ParseTarget("cpu-avx2");
  ASSERT_TRUE(target.ok());
  device.target = *target;
  state->program.devices.push_back(device);
  RunOptions options;
  options.stop_after = stop_after;
  options.disabled = std::move(disabled);
  const Status ran = RunPasses(*state, options, "", nullptr);
  ASSERT_TRUE(ran.ok()) << ran.ToString();
  state->request = nullptr;
}

void Count(const Row& row, const std::map<std::string, int64_t>& symbols) {
  CompileState state;
  FuseModel(row, symbols, {}, &state);
  if (::testing::Test::HasFatalFailure()) return;

  size_t kernels = 0;
  for (const Segment& segment : state.segments) {
    EXPECT_FALSE(segment.is_interpreted)
        << state.module.nodes[segment.interpreted_node].name << " runs in the interpreter";
    kernels += segment.function.kernels.size();
    for (const loop::Kernel& kernel : segment.function.kernels) {
      // What reads nothing computes from sizes alone.
      bool reads = false;
      for (const loop::Op& op : kernel.ops) reads |= op.kind == loop::OpKind::kLoad;
      EXPECT_TRUE(reads) << kernel.name << " is shape arithmetic";
    }
  }
  for (graph::NodeId id : state.module.entry().nodes) {
    const graph::Node& node = state.module.nodes[id];
    EXPECT_EQ(node.op->traits & graph::kHostOnly, 0u) << node.name << " is shape arithmetic";
  }
  EXPECT_EQ(state.segments.size(), 1u);
  EXPECT_LE(kernels, row.most);
  EXPECT_GE(kernels + 1, row.most) << "Fewer than pinned: lower the number.";
}

TEST_P(DispatchCount, IsAtMostThePinnedNumber) {
  Count(GetParam(), {{"batch", 1}});
  Count(GetParam(), {});
}

// What placement moves: views of constants belong to the kernels that read them.
struct Clusters {
  size_t clusters = 0, kernels = 0;
};
Clusters CountClusters(const char* model, std::set<std::string, std::less<>> disabled) {
  CompileState clustered, state;  // fusion makes kernels of the clusters
  FuseModel({model, 0}, {{"batch", 1}}, disabled, &clustered, "cluster");
  FuseModel({model, 0}, {{"batch", 1}}, std::move(disabled), &state);
  std::set<uint32_t> clusters;
  for (const graph::NodeId id : clustered.module.entry().nodes) {
    const bool is_constant = clustered.module.nodes[id].constant != graph::kNone;
    if (!is_constant) clusters.insert(clustered.cluster_of[id]);
  }
  Clusters counts{clusters.size(), 0};
  for (const Segment& segment : state.segments) counts.kernels += segment.function.kernels.size();
  return counts;
}

TEST(ClusterCount, ViewsOfConstantsAreNoClusters) {
  const Clusters shared = CountClusters("resnet50_script", {"clone-views"});
  const Clusters own = CountClusters("resnet50_script", {});
  EXPECT_EQ(shared.clusters, 63u);
  EXPECT_EQ(own.clusters, 55u);
  EXPECT_EQ(own.kernels, shared.kernels);
}

INSTANTIATE_TEST_SUITE_P(
    Models, DispatchCount,
    ::testing::Values(Row{"resnet50_script", 57}, Row{"resnet50_dynamo", 57},
                      Row{"mobilenetv2_script", 55}, Row{"mobilenetv2_dynamo", 55},
                      Row{"bert128_script", 87}, Row{"bert128_dynamo", 87}, Row{"bert_script", 88},
                      Row{"bert_dynamo", 88}, Row{"gpt2_script", 88}, Row{"gpt2_dynamo", 88},
                      Row{"minilm_script", 48}, Row{"minilm_dynamo", 48}, Row{"vit_script", 88},
                      Row{"vit_dynamo", 88}, Row{"efficientnetb0_script", 100},
                      Row{"efficientnetb0_dynamo", 100}, Row{"convnexttiny_script", 84},
                      Row{"convnexttiny_dynamo", 84}),
    [](const ::testing::TestParamInfo<Row>& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace halyard::pipeline
