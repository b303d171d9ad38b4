// SPDX-License-Identifier: Apache-2.0
// The exact sentences with which import refuses single ops. What they compute is tested by ONNX's
// own node tests (tests/onnx_cases).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/import/onnx_import.h"
#include "tests/compiler/import/model_writer.h"

namespace halyard::onnx {
namespace {

using testing::IntAttribute;
using testing::IntTensor;
using testing::kF32;
using testing::kI64;
using testing::Message;
using testing::TextAttribute;
using testing::ValueInfo;

struct Input {
  std::string name;
  std::vector<testing::Dim> dims;
  int type = kF32;
};

// The failure of a model of one node 'n', without what stands before its reason.
std::string Refusal(const std::string& op, int64_t opset, const std::vector<Input>& inputs,
                    const std::vector<Message>& attributes = {},
                    const std::vector<Message>& initialisers = {},
                    std::vector<std::string> names = {}, int outputs = 1) {
  testing::GraphParts parts;
  for (const Input& input : inputs) {
    parts.inputs.push_back(ValueInfo(input.name, input.type, input.dims));
    if (initialisers.empty()) names.push_back(input.name);
  }
  std::vector<std::string> results;
  for (int i = 0; i < outputs; ++i) results.push_back("y" + std::to_string(i));
  parts.initialisers = initialisers;
  parts.nodes = {testing::Node(op, names, results, attributes, "n")};
  parts.outputs = {ValueInfo("y0", kF32, {})};
  const auto bytes = std::make_shared<std::string>(testing::ModelOf(parts, opset).str());
  const auto module =
      ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, {}, nullptr,
                      bytes, "m.onnx");
  if (module.ok()) return "";
  std::string line = module.status().ToLine();
  for (const std::string& start :
       {"m.onnx: Node 'n' (" + op + "): ", "m.onnx: 1 op is not supported: " + op + " (opset " +
                                               std::to_string(opset) + ", 1 node, first 'n'): "}) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return line;
}

TEST(OnnxOpMessages, Attention) {
  const std::vector<Input> open = {
      {"q", {1, 2, 4, "d"}}, {"k", {1, 2, 4, "d"}}, {"v", {1, 2, 4, 8}}};
  const std::vector<Input> flat = {{"q", {1, 4, 6}}, {"k", {1, 4, 6}}, {"v", {1, 4, 6}}};
  const std::vector<Input> split = {{"q", {1, 2, 4, 8}}, {"k", {1, 2, 4, 8}}, {"v", {1, 2, 4, 8}}};
  EXPECT_EQ(Refusal("Attention", 23, open),
            "Without 'scale' the head size must be a number above 0; it is d.");
  EXPECT_EQ(Refusal("Attention", 23, flat,
                    {IntAttribute("q_num_heads", 4), IntAttribute("kv_num_heads", 2)}),
            "Attribute 'q_num_heads' is 4; it must divide the hidden size 6.");
  EXPECT_EQ(Refusal("Attention", 23, {{"q", {1, 4}}, {"k", {1, 4}}, {"v", {1, 4}}}),
            "Q, K and V have 2, 2 and 2 dimensions; they need 3 or 4 alike.");
  std::vector<Input> masked = split;
  masked.push_back({"m", {4, 4}, kI64});
  EXPECT_EQ(Refusal("Attention", 23, masked),
            "Input 'attn_mask' is i64[4, 4]; it must be bool or f32 with 1 to 4 dimensions.");
  EXPECT_EQ(Refusal("Attention", 23, split, {IntAttribute("softmax_precision", 7)}),
            "Attribute 'softmax_precision' is 7; it must be a float type.");
  EXPECT_EQ(Refusal("Attention", 23, split, {IntAttribute("qk_matmul_output_mode", 4)}, {}, {}, 4),
            "Attribute 'qk_matmul_output_mode' is 4; it must lie in [0, 3].");
}

TEST(OnnxOpMessages, LinearAttention) {
  const auto linear = [](testing::Dim steps, int64_t width, int64_t q_heads, const char* rule) {
    return Refusal("LinearAttention", 27,
                   {{"q", {1, steps, 8}}, {"k", {1, steps, 8}}, {"v", {1, steps, width}}},
                   {IntAttribute("q_num_heads", q_heads), IntAttribute("kv_num_heads", 2),
                    TextAttribute("update_rule", rule)});
  };
  EXPECT_EQ(linear(3, 8, 2, "linear"), "");
  EXPECT_EQ(linear(65, 8, 2, "linear"),
            "The sequence has 65 steps; a number from 1 to 64 is supported.");
  EXPECT_EQ(linear("n", 8, 2, "linear"),
            "The sequence has n steps; a number from 1 to 64 is supported.");
  EXPECT_EQ(linear(3, 7, 2, "linear"),
            "The last dim of input 'value' is 7; it must be a multiple of 2 heads.");
  EXPECT_EQ(linear(3, 8, 3, "linear"),
            "Attribute 'q_num_heads' is 3; it must be a multiple of 'kv_num_heads', 2.");
  EXPECT_EQ(
      linear(3, 8, 2, "gated"),
      "Attribute 'update_rule' is 'gated'; it must be linear, gated, delta or gated_delta, with "
      "input 'decay' where it is gated and 'beta' where it is delta.");
}

TEST(OnnxOpMessages, Elements) {
  EXPECT_EQ(Refusal("Unique", 11, {{"x", {2, 3}}}, {IntAttribute("axis", 0)}),
            "Attribute 'axis' is given for 2 dimensions; only elements can be unique, not slices.");
  const std::vector<Message> window = {testing::IntsAttribute("kernel_shape", {2, 2})};
  EXPECT_EQ(Refusal("MaxPool", 12, {{"x", {1, 1, 4, 4}}}, window, {}, {}, 2), "");
  EXPECT_EQ(
      Refusal("MaxPool", 12, {{"x", {1, 1, 1 << 20, 1 << 20}}}, window, {}, {}, 2),
      "The image times the window of a MaxPool with indices has more than 2147483648 elements.");
}

// What is unrolled counts towards the size of a graph.
TEST(OnnxOpMessages, GrowthIsLimited) {
  testing::GraphParts parts;
  parts.inputs = {ValueInfo("x", kF32, {8, 8})};
  parts.nodes = {testing::Node("Det", {"x"}, {"d"}, {}, "first"),
                 testing::Node("Neg", {"d"}, {"y"}, {}, "second")};
  parts.outputs = {ValueInfo("y", kF32, {})};
  const auto bytes = std::make_shared<std::string>(testing::ModelOf(parts).str());
  ImportOptions options;
  options.limits.expanded_nodes = 2;
  const auto module =
      ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, options,
                      nullptr, bytes, "m.onnx");
  ASSERT_FALSE(module.ok());
  const std::string line = module.status().ToLine();
  EXPECT_TRUE(line.starts_with("m.onnx: Node 'second' (Neg): The graph has grown to ")) << line;
  EXPECT_TRUE(line.ends_with(" nodes; the limit is 16.")) << line;
}

TEST(OnnxOpMessages, RotaryEmbedding) {
  EXPECT_EQ(
      Refusal("RotaryEmbedding", 23, {{"x", {1, 2, 4, 7}}, {"c", {1, 4, 3}}, {"s", {1, 4, 3}}}),
      "The rotated size 7 of 7 must be even and the caches have 3 dimensions; they have 3 and "
      "3.");
  EXPECT_EQ(Refusal("RotaryEmbedding", 23, {{"x", {4, 7}}, {"c", {1, 4, 3}}, {"s", {1, 4, 3}}}),
            "Input 'X' has 2 dimensions; it must have 3 or 4.");
}

TEST(OnnxOpMessages, RecurrentLayers) {
  const std::vector<Input> lstm = {{"x", {5, 1, 3}}, {"w", {1, 8, 3}}, {"r", {1, 8, 2}}};
  EXPECT_EQ(Refusal("LSTM", 14, lstm), "");
  EXPECT_EQ(
      Refusal("GRU", 14, lstm),
      "W is f32[1, 8, 3] and R is f32[1, 8, 2]; 1 direction and 3 gates of hidden size 2 need "
      "[1, 6, ...].");
  EXPECT_EQ(Refusal("LSTM", 14, lstm, {TextAttribute("direction", "sideways")}),
            "Attribute 'direction' is 'sideways'; it must be forward, reverse or bidirectional.");
  EXPECT_EQ(Refusal("LSTM", 14, lstm, {IntAttribute("hidden_size", 4)}),
            "Attribute 'hidden_size' is 4; R has 2.");
  EXPECT_EQ(Refusal("LSTM", 14, {{"x", {5, 3}}, {"w", {1, 8, 3}}, {"r", {1, 8, 2}}}),
            "Inputs X, W and R have 2, 3 and 3 dimensions; they need 3.");
  const auto activations = [](const std::vector<std::string>& names) {
    Message m;
    m.Text(1, "activations");
    for (const std::string& name : names) m.Text(9, name);
    return m.Varint(20, 8);
  };
  EXPECT_EQ(Refusal("LSTM", 14, lstm, {activations({"Sigmoid", "Tanh"})}),
            "Attribute 'activations' has 2 elements; 3 are needed.");
  EXPECT_EQ(Refusal("LSTM", 14, lstm, {activations({"Sigmoid", "Tanh", "Cube"})}),
            "Attribute 'activations' holds 'cube', which ONNX does not know.");
}

TEST(OnnxOpMessages, Losses) {
  EXPECT_EQ(Refusal("NegativeLogLikelihoodLoss", 13, {{"x", {2, 3}}, {"t", {2, 3}, kI64}}),
            "The input has 2 dimensions and the target 2; they need at least 2 and one less.");
  EXPECT_EQ(Refusal("SoftmaxCrossEntropyLoss", 13, {{"x", {2, 3}}, {"t", {2}, kI64}},
                    {TextAttribute("reduction", "most")}),
            "Attribute 'reduction' is 'most'; it must be mean, sum or none.");
}

TEST(OnnxOpMessages, Images) {
  for (const float scale : {0.0f, -1.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(Refusal("Resize", 13, {{"x", {1, 1, 4, 4}}}, {},
                      {testing::FloatTensor("s", {4}, {1, 1, 2, scale})}, {"x", "", "s"}),
              fmt::format("Input 'scales' holds {}; it must be above 0 and below 2^40.",
                          static_cast<double>(scale)));
  }
  EXPECT_EQ(Refusal("GridSample", 20, {{"x", {1, 1, 4, 4}}, {"g", {1, 2, 2, 3}}}),
            "The input is f32[1, 1, 4, 4] and the grid f32[1, 2, 2, 3]; n spatial axes need n "
            "coordinates.");
  EXPECT_EQ(Refusal("GridSample", 20, {{"x", {1, 1, 4, 4}}, {"g", {1, 2, 2, 2}}},
                    {TextAttribute("mode", "quintic")}),
            "Attributes 'mode' and 'padding_mode' are 'quintic' and 'zeros'; they must be linear, "
            "nearest or cubic, and zeros, border or reflection.");
  EXPECT_EQ(Refusal("GridSample", 20, {{"x", {1, 1, 4, 4, 4, 4}}, {"g", {1, 2, 2, 2, 2, 4}}}),
            "The input has 4 spatial axes; at most 3 are supported.");
  const std::vector<Input> roi = {{"x", {1, 1, 8, 8}}, {"r", {3, 4}}, {"b", {3}, kI64}};
  EXPECT_EQ(Refusal("RoiAlign", 16, roi),
            "Attribute 'sampling_ratio' is 0, which takes the number of samples from the regions' "
            "sizes; it must be above 0.");
  EXPECT_EQ(Refusal("RoiAlign", 16, roi,
                    {IntAttribute("sampling_ratio", 2),
                     TextAttribute("coordinate_transformation_mode", "pixel")}),
            "Attribute 'coordinate_transformation_mode' is 'pixel'; it must be half_pixel or "
            "output_half_pixel.");
  EXPECT_EQ(Refusal("AffineGrid", 20, {{"t", {1, 2, 4}}}, {}, {IntTensor("s", {4}, {1, 1, 2, 2})},
                    {"t", "s"}),
            "Theta is f32[1, 2, 4] and size has 4 elements; they need [n, k, k + 1] and k + 2.");
}

TEST(OnnxOpMessages, Resize) {
  const auto resize = [](std::vector<testing::Dim> dims, int type, std::vector<Message> attributes,
                         std::vector<float> roi = {}) {
    return Refusal("Resize", 19, {{"x", std::move(dims), type}}, attributes,
                   {testing::FloatTensor("r", {static_cast<int64_t>(roi.size())}, roi),
                    IntTensor("s", {2}, {2, 3})},
                   {"x", roi.empty() ? "" : "r", "", "s"});
  };
  const Message linear = TextAttribute("mode", "linear");
  const Message smooth = IntAttribute("antialias", 1);
  const Message crop = TextAttribute("coordinate_transformation_mode", "tf_crop_and_resize");
  EXPECT_EQ(resize({4, 6}, kF32, {linear, smooth}), "");
  EXPECT_EQ(resize({4, 6}, kI64, {linear, smooth}),
            "The input is i64; with antialias or tf_crop_and_resize it must be of floats.");
  EXPECT_EQ(
      resize({"n", 6}, kF32, {linear, smooth}),
      "Axis 0 goes from n to 2; with antialias or tf_crop_and_resize both must be numbers above "
      "0 with a product of at most 16777216.");
  EXPECT_EQ(resize({4, 6}, kF32, {linear, crop}, {0, 1}),
            "Input 'roi' has 2 elements; 2 axes need 4.");
  EXPECT_EQ(
      resize({4, 6}, kF32, {linear, TextAttribute("coordinate_transformation_mode", "polar")}),
      "Attribute 'coordinate_transformation_mode' is 'polar'; it is not supported.");
}

TEST(OnnxOpMessages, Training) {
  EXPECT_EQ(Refusal("Dropout", 13, {{"x", {2}}, {"r", {}}, {"t", {}, testing::kBool}}),
            "Input 'training_mode' may be true; only inference and a ratio of 0 are supported.");
  EXPECT_EQ(
      Refusal("BatchNormalization", 9,
              {{"x", {1, 2, 3}}, {"s", {2}}, {"b", {2}}, {"m", {2}}, {"v", {2}}}, {}, {}, {}, 2),
      "Training mode is not supported before opset 14.");
}

TEST(OnnxOpMessages, RandomNumbers) {
  EXPECT_EQ(Refusal("RandomNormal", 1, {}, {testing::IntsAttribute("shape", {2, -1})}),
            "Attribute 'shape' holds -1; dims are at least 0.");
  EXPECT_EQ(Refusal("RandomUniformLike", 1, {{"x", {2}, kI64}}),
            "The result is i64; random numbers are floats.");
}

TEST(OnnxOpMessages, Signals) {
  EXPECT_EQ(Refusal("DFT", 17, {{"x", {1, 5000, 1}}}),
            "The transform has 5000 points; 1 to 4096 are supported.");
  EXPECT_EQ(Refusal("DFT", 17, {{"x", {1, "n", 1}}}),
            "The transformed dim is n; it must be a number.");
  EXPECT_EQ(Refusal("DFT", 17, {{"x", {1, 8, 3}}}),
            "The last dim is 3; it must be 1 (real) or 2 (complex).");
  EXPECT_EQ(Refusal("DFT", 17, {{"x", {1, 8, 2}}}, {IntAttribute("onesided", 1)}),
            "A one-sided transform needs a real input; this one is complex.");
  EXPECT_EQ(Refusal("DFT", 17, {{"x", {1, 8, 2}}}, {IntAttribute("axis", 2)}),
            "Axis 2 is the last one, which holds the parts of a complex number.");
  EXPECT_EQ(Refusal("STFT", 17, {{"x", {1, 8, 1}}}, {},
                    {IntTensor("s", {}, {4}), IntTensor("l", {}, {16})}, {"x", "s", "", "l"}),
            "The signal has 8 samples; a frame has 16.");
  EXPECT_EQ(Refusal("HannWindow", 17, {}, {}, {IntTensor("s", {}, {-1})}, {"s"}),
            "Input 'size' must be one number of at least 0.");
}

TEST(OnnxOpMessages, MatricesAndProducts) {
  EXPECT_EQ(Refusal("Det", 11, {{"x", {2, 3}}}),
            "The input is f32[2, 3]; its last two dims must be equal.");
  EXPECT_EQ(Refusal("Det", 11, {{"x", {65, 65}}}),
            "The matrices have 65 rows; 1 to 64 are supported.");
  EXPECT_EQ(Refusal("CumProd", 26, {{"x", {"n"}}}, {}, {IntTensor("a", {}, {0})}, {"x", "a"}),
            "The dim of axis 0 is n; it must be a number.");
}

TEST(OnnxOpMessages, WindowsPutBack) {
  const auto col2im = [](std::vector<testing::Dim> dims, std::vector<int64_t> image) {
    return Refusal("Col2Im", 18, {{"x", std::move(dims)}}, {},
                   {IntTensor("i", {2}, image), IntTensor("b", {2}, {2, 2})}, {"x", "i", "b"});
  };
  EXPECT_EQ(col2im({1, 4, 9}, {4, 4}), "");
  EXPECT_EQ(col2im({1, 4, 8}, {4, 4}), "The input has 8 blocks; the image has 9.");
  EXPECT_EQ(
      col2im({1, 5, 9}, {4, 4}),
      "The input has 3 dimensions, image_shape 2 elements and block_shape 2; they need 3, n and "
      "n, and a multiple of 4 channels.");
  EXPECT_EQ(col2im({1, 4, 9}, {1, 4}),
            "Image size 1 with pads 0 and 0 does not hold a window of 2.");
  EXPECT_EQ(Refusal("MaxUnpool", 11, {{"x", {2, 2}}, {"i", {2, 2}, kI64}},
                    {testing::IntsAttribute("kernel_shape", {2, 2})}),
            "The input has 2 dimensions and the indices 2; they need at least 3 alike.");
  EXPECT_EQ(
      Refusal("CausalConvWithState", 27, {{"x", {1, 2, 8}}, {"w", {2, 2, 3}}}),
      "The input has 3 dimensions and the weight dims [2, 2, 3]; they need 3 and [channels, 1, "
      "k].");
}

TEST(OnnxOpMessages, NonMaxSuppression) {
  EXPECT_EQ(
      Refusal("NonMaxSuppression", 11, {{"b", {1, 6, 5}}, {"s", {1, 1, 6}}}),
      "Boxes are f32[1, 6, 5] and scores f32[1, 1, 6]; they must be [b, n, 4] and [b, classes, "
      "n].");
}

TEST(OnnxOpMessages, PadsBeyondAnyAxis) {
  for (const int64_t far : {INT64_MIN, INT64_MAX, -(int64_t{1} << 40) - 1}) {
    for (const testing::Dim& dim : {testing::Dim("n"), testing::Dim(4)}) {
      EXPECT_EQ(Refusal("Pad", 17, {{"x", {dim}}}, {}, {IntTensor("p", {2}, {far, 0})}, {"x", "p"}),
                "A pad is " + std::to_string(far) + "; it must lie in [-2^40, 2^40].");
    }
  }
}

TEST(OnnxOpMessages, BlocksWhoseSquareOverflows) {
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) {
    EXPECT_EQ(
        Refusal(op, 17, {{"x", {1, 4, "h", 2}}}, {IntAttribute("blocksize", int64_t{1} << 32)}),
        "Attribute 'blocksize' is 4294967296; the limit is 65536.");
  }
}

TEST(OnnxOpMessages, BranchesOfOtherShapes) {
  const auto branch = [](const std::string& name, const std::vector<testing::Dim>& dims) {
    return testing::GraphOf({{testing::Node("Identity", {name}, {name + "_y"})},
                             {},
                             {},
                             {ValueInfo(name + "_y", kF32, dims)}});
  };
  const std::vector<Message> branches = {
      testing::GraphAttribute("then_branch", branch("a", {2, 3})),
      testing::GraphAttribute("else_branch", branch("b", {2, 4}))};
  testing::GraphParts parts = {{testing::Node("If", {"c"}, {"y0"}, branches, "n")},
                               {},
                               {ValueInfo("c", testing::kBool, {}), ValueInfo("a", kF32, {2, 3}),
                                ValueInfo("b", kF32, {2, 4})},
                               {ValueInfo("y0", kF32, {"", ""})}};
  const auto bytes = std::make_shared<std::string>(testing::ModelOf(parts).str());
  const auto module =
      ImportOnnxBytes({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, {}, nullptr,
                      bytes, "m.onnx");
  EXPECT_EQ(module.status().ToLine(),
            "m.onnx: Node 'n' (If): Result 0 of the first branch is f32[2, 3] and of the second "
            "f32[2, 4] (node 'n').");
}

// Lists and texts of a model may be of any length; a sentence is not.
TEST(OnnxOpMessages, LongListsAndTextsAreShortened) {
  std::vector<int64_t> many(100'000);
  std::iota(many.begin(), many.end(), int64_t{0});
  EXPECT_EQ(Refusal("Transpose", 17, {{"x", {4}}}, {testing::IntsAttribute("perm", many)}),
            "Attribute 'perm' is [0, 1, 2, 3, 4, 5, 6, 7 and 99992 more]; it must permute 0 to 0.");
  EXPECT_EQ(Refusal("Conv", 17, {{"x", {1, 2, 4}}, {"w", {2, 2, 3}}},
                    {testing::IntsAttribute("kernel_shape", many)}),
            "Attribute 'kernel_shape' is [0, 1, 2, 3, 4, 5, 6, 7 and 99992 more]; the weights have "
            "[3].");
  const std::string text(5000, 'i');
  EXPECT_EQ(Refusal("Einsum", 17, {{"x", {4}}}, {TextAttribute("equation", text)}),
            "Attribute 'equation' is a text of 5000 bytes; the limit is 4096.");
  EXPECT_EQ(
      Refusal("Conv", 17, {{"x", {1, 2, 4}}, {"w", {2, 2, 3}}}, {TextAttribute("auto_pad", text)}),
      "Attribute 'auto_pad' is a text of 5000 bytes; the limit is 4096.");
}

}  // namespace
}  // namespace halyard::onnx
