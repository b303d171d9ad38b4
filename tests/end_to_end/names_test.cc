// SPDX-License-Identifier: Apache-2.0
// Names that the tools show: the file's own, whatever the cache knows, and those of a model without
// what a terminal would obey.
#include "tests/end_to_end/fixture.h"

namespace halyard {
namespace {

using namespace onnx::testing;  // NOLINT

class Names : public EndToEnd {
 protected:
  static Message Model(const std::string& node, const std::string& output) {
    return ModelOf({{Node("CumSum", {"x", "axis"}, {output}, {}, node)},
                    {IntTensor("axis", {}, {0})},
                    {ValueInfo("x", kF32, {2})},
                    {ValueInfo(output, kF32, {2})}});
  }
};

TEST_F(Names, ATwinInTheCacheKeepsItsOwnName) {
  for (const char* file : {"one.onnx", "two.onnx"}) Write(file, Model("n", "y").str());
  EXPECT_THAT(Run("explain --no-tune one.onnx"), testing::HasSubstr("model one.onnx\n"));
  EXPECT_THAT(Run("explain --no-tune two.onnx"), testing::HasSubstr("model two.onnx\n"));
  EXPECT_THAT(Run("explain --no-tune two.onnx --json"),
              testing::HasSubstr("\"model\": \"two.onnx\""));
}

TEST_F(Names, NothingOfAModelReachesATerminalAsAControlCharacter) {
  Write("odd.onnx", Model("n\x1b[2J\n", "y\x07\xc2\x9b").str());
  Write("input.npy", "");
  for (const char* command :
       {"explain odd.onnx --no-tune", "explain odd.onnx --no-tune --dot",
        "explain odd.onnx --no-tune --commands", "explain odd.onnx --no-tune --node CumSum",
        "explain odd.onnx --no-tune --why-not CumSum=cpu", "run odd.onnx --no-tune",
        "run odd.onnx --no-tune --input z=@input.npy",
        "bench odd.onnx --no-tune --runs 2 --warm-up 0 --no-check",
        "run odd.onnx --no-tune --affinity 'nothing*=cpu:0'"}) {
    const std::string out = Run(command);
    EXPECT_THAT(out, testing::Not(testing::ContainsRegex("[\x01-\x09\x0b-\x1f\x7f]"))) << command;
    EXPECT_EQ(out.find("\xc2\x9b"), std::string::npos) << command << "\n" << out;
  }
  EXPECT_THAT(Run("run odd.onnx --no-tune"), testing::HasSubstr("output y\\x07\\xc2\\x9b [2]"));
  EXPECT_THAT(Run("explain odd.onnx --no-tune --node CumSum"),
              testing::HasSubstr("node: n\\x1b[2J\\x0a\n"));
}

// A reader has the model's file: each of its nodes stands in the group that computes it, and what
// kept groups apart or joined their nodes stands below.
TEST_F(Names, FusionGroupsAreNodesOfTheModel) {
  const Message product = Node("MatMul", {"x", "w"}, {"p"}, {}, "/fc/dense");
  const Message relu = Node("Relu", {"p"}, {"r"}, {}, "/act");
  const Message folded = Node("Add", {"w", "w"}, {"w2"}, {}, "/twice");
  const Message last = Node("MatMul", {"r", "w2"}, {"scores"}, {}, "/out/MatMul");
  std::vector<float> weights(64, 0.5F);
  Write("model.onnx", ModelOf({{product, relu, folded, last},
                               {FloatTensor("w", {8, 8}, weights)},
                               {ValueInfo("x", kF32, {4, 8})},
                               {ValueInfo("scores", kF32, {4, 8})}})
                          .str());
  const std::string text = Run("explain model.onnx --no-tune --device cpu");
  EXPECT_THAT(text, testing::HasSubstr("fusion groups\n"
                                       "  _fc_dense (/fc/dense (MatMul), /act (Relu))\n"
                                       "    '/act' joins '/fc/dense': epilogue of a product or "
                                       "convolution.\n"
                                       "  _out_MatMul (/out/MatMul)\n"
                                       "    stays apart from '_fc_dense': a product or convolution "
                                       "reads its operands from memory.\n"
                                       "  gone after pass 'fold-constants': /twice (Add)\n"));
  EXPECT_THAT(Run("explain model.onnx --no-tune --device cpu --dot"),
              testing::HasSubstr("[label=\"_fc_dense\\n(/fc/dense (MatMul), /act (Relu))\"]"));
  EXPECT_THAT(Run("explain model.onnx --no-tune --device cpu --node /act"),
              testing::AllOf(testing::HasSubstr("fate: in dispatch '_fc_dense'\ndevice: cpu:0\n"),
                             testing::HasSubstr("fusion: '/act' joins '/fc/dense': ")));
  const std::string page = Run("explain model.onnx --no-tune --device cpu --html");
  EXPECT_THAT(page, testing::HasSubstr("joins '/fc/dense'"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("<td>source</td>"))) << "what is no decision";
  // The plan speaks of outputs as the model does.
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  EXPECT_THAT(Run("explain model.onnx --no-tune --device cpu:1,cpu:0 --affinity '*=cpu:1'"),
              testing::HasSubstr("'scores' from cpu:1 to cpu:0: 128 bytes"));
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
}

}  // namespace
}  // namespace halyard
