// SPDX-License-Identifier: Apache-2.0
// How many kernels each committed model is after fusion: a lost fusion fails here, where a timing
// would only drift. Runs the pipeline up to fusion, without code. The weights are zero but for the
// first element of each tensor, which tells tensors apart so that no two are taken for one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/abi.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/target/target.h"

namespace halyard::pipeline {
namespace {

// A folder with the model and its weights; removed at the end.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("halyard_count_{}_{}", name, getpid())) {
    const std::filesystem::path source =
        std::filesystem::path(HALYARD_SOURCE_DIR) / "tests/models" / name;
    std::filesystem::create_directories(path_);
    std::filesystem::copy_file(source / "model.onnx", path_ / "model.onnx",
                               std::filesystem::copy_options::overwrite_existing);
    std::ofstream weights(path_ / "weights.bin", std::ios::binary);
    std::ifstream list(source / "weights.txt");
    uintmax_t size_bytes = 0;
    float number = 1;
    for (std::string line; std::getline(list, line);) {
      std::istringstream words(line);
      std::string kind;
      int64_t fan_in = 0, offset = 0;
      words >> kind;
      if (kind == "bytes") words >> size_bytes;
      if (kind == "bytes" || kind == "#" || !(words >> fan_in >> offset)) continue;
      weights.seekp(offset);
      weights.write(reinterpret_cast<const char*>(&number), sizeof number);
      number += 1;
    }
    weights.close();
    std::filesystem::resize_file(path_ / "weights.bin", size_bytes);  // the rest reads as zeros
  }
  ~ModelFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string model() const { return path_ / "model.onnx"; }

 private:
  std::filesystem::path path_;
};

struct Row {
  const char* model;
  size_t most;  // kernels
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.model; }
};

// With an unknown batch there is one kernel more in some. ResNet-50 is 53 convolutions, of which 52
// carry what follows them, two poolings, a product and a copy of the picture with its channels
// innermost; BERT and GPT-2 are seven kernels a layer: projection, attention, projection, norm, two
// products, norm. MiniLM is BERT with six layers. The numbers are what is reached, so raising one
// needs a reason.
class DispatchCount : public ::testing::TestWithParam<Row> {};

void Count(const Row& row, const std::map<std::string, int64_t>& symbols) {
  const ModelFolder folder(row.model);
  CompileRequest request;
  request.path = folder.model();
  request.options.symbol_values = symbols;
  CompileState state;
  state.request = &request;
  program::Device device;
  device.name = "cpu:0";
  const Result<Target> target = ParseTarget("cpu-avx2");
  ASSERT_TRUE(target.ok());
  device.target = *target;
  state.program.devices.push_back(device);
  RunOptions options;
  options.stop_after = "fuse";
  const Status ran = RunPasses(state, options, "", nullptr);
  ASSERT_TRUE(ran.ok()) << ran.ToString();

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

INSTANTIATE_TEST_SUITE_P(
    Models, DispatchCount,
    ::testing::Values(Row{"resnet50_script", 57}, Row{"resnet50_dynamo", 57},
                      Row{"mobilenetv2_script", 55}, Row{"mobilenetv2_dynamo", 55},
                      Row{"bert128_script", 87}, Row{"bert128_dynamo", 87}, Row{"bert_script", 88},
                      Row{"bert_dynamo", 88}, Row{"gpt2_script", 88}, Row{"gpt2_dynamo", 88},
                      Row{"minilm_script", 48}, Row{"minilm_dynamo", 48}),
    [](const ::testing::TestParamInfo<Row>& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace halyard::pipeline
