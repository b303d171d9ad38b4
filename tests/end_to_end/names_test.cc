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

}  // namespace
}  // namespace halyard
