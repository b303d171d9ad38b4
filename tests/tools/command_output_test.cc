// SPDX-License-Identifier: Apache-2.0
// The output of the command for those who read it: programs its JSON, people their terminal.
#include <nlohmann/json.hpp>

#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

using Json = nlohmann::json;

const std::string kQuickRow = " --runs 5 --warm-up 0 --seconds 0.05 --no-profile ";

TEST_F(CommandTest, JsonOfRunHasWhatAProgramNeedsOfAnOutput) {
  Write("copy.onnx", "copy");
  WriteNpy("in.npy", {1.5f, -2.0f, 3.5f});
  const Json json = Json::parse(Run("run copy.onnx --input x=@in.npy --output-dir out --json"));
  ASSERT_EQ(json.at("outputs").size(), 1u);
  const Json& y = json["outputs"][0];
  EXPECT_EQ(y.at("name"), "y");
  EXPECT_EQ(y.at("dtype"), "f32");
  EXPECT_EQ(y.at("dims"), Json::array({3}));
  EXPECT_EQ(y.at("size_bytes"), 12);
  EXPECT_EQ(y.at("min"), -2);
  EXPECT_EQ(y.at("max"), 3.5);
  EXPECT_EQ(y.at("mean"), 1);
  EXPECT_EQ(y.at("nan_count"), 0);
  EXPECT_EQ(y.at("file"), "out/output_0.npy");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/out/output_0.npy"));
  const Json none = Json::parse(Run("run copy.onnx --shape n=0 --json"));
  EXPECT_EQ(none["outputs"][0].at("dims"), Json::array({0}));
  EXPECT_FALSE(none["outputs"][0].contains("min"));
}

TEST_F(CommandTest, JsonOfCompileHasTheFileAndWhatItTakes) {
  Write("copy.onnx", "copy");
  const std::string file = "\xff.hyp";  // no UTF-8
  const Json json = Json::parse(Run("compile copy.onnx -o '" + file + "' --json"));
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(json.at("model"), "copy.onnx");
  EXPECT_EQ(json.at("size_bytes"), std::filesystem::file_size(folder_ + "/" + file));
  EXPECT_EQ(json.at("entries").at(0).at("inputs").at(0).at("name"), "x");
  EXPECT_EQ(json["entries"][0].at("outputs").at(0).at("name"), "y");
}

// Rows that differ only in an option of their device are told apart wherever they are named.
TEST_F(CommandTest, ConditionsOfBenchNameTheDeviceWithItsOptions) {
  Write("copy.onnx", "copy");
  const Json json = Json::parse(
      Run("bench copy.onnx --device 'cpu:0?threads=1,cpu:0?threads=2' --json" + kQuickRow));
  ASSERT_EQ(json.at("rows").size(), 2u);
  EXPECT_EQ(json["rows"][0].at("conditions").at(0).at("device"), "cpu:0?threads=1");
  EXPECT_EQ(json["rows"][1].at("conditions").at(0).at("device"), "cpu:0?threads=2");
}

TEST_F(CommandTest, ATerminalGetsNoControlCharacterOfAFileName) {
  const std::string name = "a\x1b[31m.onnx", shown = "a\\x1b[31m.onnx";
  Write(name, "copy");
  Write("bad" + name, "bad");
  const auto expect_shown = [&](const std::string& arguments) {
    const std::string out = Run(arguments);
    EXPECT_THAT(out, testing::HasSubstr(shown)) << arguments;
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << arguments << "\n" << out;
  };
  expect_shown("bench '" + name + "' --output a.json" + kQuickRow);
  expect_shown("bench '" + name + "' 'bad" + name + "'" + kQuickRow);
  expect_shown("bench '" + name + "' -o csv" + kQuickRow);
  expect_shown("bench --compare a.json a.json");
  expect_shown("compile '" + name + "' -o '" + name + ".hyp'");
  WriteNpy("in/input_0.npy", {1, 2});
  WriteNpy("expected/output_0.npy", {5, 2});
  expect_shown("run '" + name + "' --input-dir in --expect-dir expected");
  EXPECT_EQ(status_, 4);
}

}  // namespace
}  // namespace halyard
