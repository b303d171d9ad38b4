// SPDX-License-Identifier: Apache-2.0
// FLOPs are those of the model, also where its channels are filled up for a device.
#include <gtest/gtest.h>

#include "compiler/pipeline/pipeline.h"
#include "compiler/program/work.h"

namespace halyard::pipeline {
namespace {

// Three channels under a window; with four the device loads them together.
std::string PictureModel() {
  std::string weights;
  for (int i = 0; i < 8 * 3 * 3 * 3; ++i) weights += (i == 0 ? "" : ", ") + std::to_string(i % 7);
  return "graph main(%x: f32[1, 3, 10, 10]) -> (%y) {\n  %w = constant f32[8, 3, 3, 3]{" + weights +
         "} \"w\"\n  %c = conv %x, %w {dilations = [1, 1], groups = 1, pads_high = [0, 0], "
         "pads_low "
         "= [0, 0], strides = [1, 1]} : f32[1, 8, 8, 8] \"picture\"\n  %y = reduce_max %c {axes = "
         "[2, 3], keep_dims = 0} : f32[1, 8] \"most\"\n}\n";
}

struct WorkOfProducts {
  int64_t flops = 0, read_bytes = 0;
};

// Of the kernel that multiplies.
WorkOfProducts ProductsOn(const char* target) {
  const std::string text = PictureModel();
  CompileRequest request;
  request.graph_text = text;
  request.devices = {{"gpu:0", *ParseTarget(target), ""}};
  request.options.tune = false;
  const Result<CompileResult> made = pipeline::Compile(request);
  EXPECT_TRUE(made.ok()) << made.status().ToLine();
  WorkOfProducts counted;
  if (!made.ok()) return counted;
  for (const program::Record& record : made->program.records) {
    if (record.kind != program::kWorkRecord) continue;
    const auto work = program::ParseWork(record.text, 0);
    EXPECT_TRUE(work.ok()) << work.status().ToLine();
    if (!work.ok() || work->product == DType::kInvalid) continue;
    counted.flops += *work->flops->Evaluate({});
    counted.read_bytes += *work->read_bytes->Evaluate({});
  }
  return counted;
}

TEST(FilledWork, ChannelsThatAreFilledUpAreNoWorkOfTheModel) {
  const WorkOfProducts gpu = ProductsOn("vulkan-8");
  EXPECT_EQ(gpu.flops, int64_t{2} * 8 * 8 * 8 * 3 * 3 * 3);
  EXPECT_EQ(gpu.read_bytes, 4 * (4 * 100 + 8 * 4 * 9)) << "four channels are read";
  EXPECT_EQ(ProductsOn("cpu-avx2").flops, gpu.flops);
}

}  // namespace
}  // namespace halyard::pipeline
