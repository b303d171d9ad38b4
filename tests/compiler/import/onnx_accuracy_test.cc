// SPDX-License-Identifier: Apache-2.0
// Formulas of the importer keep the digits that their type has, at small results too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/tensor.h"
#include "compiler/import/onnx_import.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

TEST(OnnxAccuracy, MishOfNumbersFarBelowZero) {
  testing::GraphParts parts;
  parts.inputs = {testing::ValueInfo("x", testing::kF32, {8})};
  parts.nodes = {testing::Node("Mish", {"x"}, {"y"})};
  parts.outputs = {testing::ValueInfo("y", testing::kF32, {8})};
  auto bytes = std::make_shared<std::string>(testing::ModelOf(parts, 18).str());
  auto module = ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()},
                                {}, nullptr, bytes, "m.onnx");
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const float given[] = {-60, -15, -7, -1, -0.0f, 0.5f, 7, 300};
  auto input = graph::ParseTensor("f32[8]{-60, -15, -7, -1, -0, 0.5, 7, 300}");
  ASSERT_TRUE(input.ok()) << input.status().ToString();
  auto results = graph::Interpret(*module, std::vector<graph::Tensor>{*input});
  ASSERT_TRUE(results.ok()) << results.status().ToString();
  for (size_t i = 0; i < std::size(given); ++i) {
    const double x = given[i], want = x * std::tanh(std::log1p(std::exp(x)));
    float got = 0;
    std::memcpy(&got, (*results)[0].bytes.data() + 4 * i, 4);
    EXPECT_NEAR(got, want, 1e-6 * std::abs(want)) << x;
  }
}

}  // namespace
}  // namespace halyard::onnx
