// SPDX-License-Identifier: Apache-2.0
// Infinite weights and pixels where nothing reads them: what an op leaves out is left out, not
// multiplied by 0.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/tensor.h"
#include "compiler/import/onnx_import.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using graph::Tensor;
using testing::FloatTensor;
using testing::GraphParts;
using testing::kF32;
using testing::Message;
using testing::ModelOf;
using testing::Node;
using testing::ValueInfo;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::string> ResultsOf(const Message& model, const std::string& input) {
  auto bytes = std::make_shared<std::string>(model.str());
  auto module = ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()},
                                {}, nullptr, bytes, "m.onnx");
  if (!module.ok()) return {module.status().ToString()};
  auto results = graph::Interpret(*module, std::vector<Tensor>{*graph::ParseTensor(input)});
  if (!results.ok()) return {results.status().ToString()};
  std::vector<std::string> out;
  for (const Tensor& tensor : *results) out.push_back(graph::FormatTensor(tensor));
  return out;
}

// One step without a first state: the recurrent weights and the peepholes of the gates before it
// meet no state. In a loop, as the number of steps is open, and unrolled.
TEST(OnnxInfinities, AFirstStateThatIsNotThereMeetsNoWeight) {
  const struct {
    const char* op;
    int64_t gates;
    bool is_late;
  } cells[] = {{"RNN", 1, false}, {"GRU", 3, false}, {"GRU", 3, true}, {"LSTM", 4, false}};
  for (const auto& [op, gates, is_late] : cells) {
    for (const bool is_open : {false, true}) {
      std::vector<std::string> finite;
      for (const float weight : {1.0f, kInfinity}) {
        GraphParts parts;
        parts.inputs = {is_open ? ValueInfo("x", kF32, {"steps", 1, 1})
                                : ValueInfo("x", kF32, {1, 1, 1})};
        const auto count = static_cast<size_t>(gates);
        parts.initialisers = {
            FloatTensor("w", {1, gates, 1}, std::vector<float>(count, 0.5f)),
            FloatTensor("r", {1, gates, 1}, std::vector<float>(count, weight)),
            FloatTensor("b", {1, 2 * gates}, std::vector<float>(2 * count, 0.25f)),
            // For the gates i, o and f; o reads the cell that the step made.
            FloatTensor("p", {1, 3}, {weight, 1, weight})};
        std::vector<std::string> names = {"x", "w", "r", "b"};
        if (gates == 4) names.insert(names.end(), {"", "", "", "p"});
        std::vector<Message> attributes;
        if (is_late) attributes.push_back(testing::IntAttribute("linear_before_reset", 1));
        parts.nodes = {Node(op, names, {"y"}, attributes)};
        parts.outputs = {ValueInfo("y", kF32, {"", "", "", ""})};
        const std::vector<std::string> got = ResultsOf(ModelOf(parts), "f32[1, 1, 1]{0.5}");
        if (finite.empty()) finite = got;
        EXPECT_EQ(got, finite) << op << (is_open ? " in a loop" : " unrolled");
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].find("f32[1, 1, 1, 1]{0."), 0u) << got[0];
      }
    }
  }
}

// The first region lies beside the picture, the second on a finite pixel.
TEST(OnnxInfinities, ARegionOutsideThePictureIsZero) {
  for (const char* mode : {"avg", "max"}) {
    GraphParts parts;
    parts.nodes = {
        Node("RoiAlign", {"x", "rois", "batch"}, {"y"},
             {testing::TextAttribute("mode", mode), testing::IntAttribute("sampling_ratio", 1)})};
    parts.initialisers = {FloatTensor("rois", {3, 4}, {9, 9, 11, 11, 1, 0, 2, 1, 0, 0, 1, 1}),
                          testing::IntTensor("batch", {3}, {0, 0, 0})};
    parts.inputs = {ValueInfo("x", kF32, {1, 1, 2, 4})};
    parts.outputs = {ValueInfo("y", kF32, {3, 1, 1, 1})};
    EXPECT_EQ(ResultsOf(ModelOf(parts, 16), "f32[1, 1, 2, 4]{inf, 1, 1, 1, 1, 1, 1, inf}"),
              std::vector<std::string>{"f32[3, 1, 1, 1]{0, 1, inf}"})
        << mode;
  }
}

}  // namespace
}  // namespace halyard::onnx
