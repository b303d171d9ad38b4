// SPDX-License-Identifier: Apache-2.0
// The output of the command for those who read it: programs its JSON, people their terminal.
#include <nlohmann/json.hpp>
#include <set>

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

// The members of the table below a line of docs/command.md.
std::set<std::string> MembersBelow(const std::string& line) {
  std::ifstream document(HALYARD_SOURCE_DIR "/docs/command.md");
  std::string text;
  while (std::getline(document, text) && text != line) {
  }
  std::set<std::string> members;
  bool is_table = false;
  while (std::getline(document, text)) {
    if (is_table && !text.starts_with("|")) break;
    is_table = is_table || text.starts_with("|");
    const std::string cell = text.substr(0, text.find(" | ", 2));
    for (size_t at = cell.find('`'); at != std::string::npos;) {
      const size_t end = cell.find('`', at + 1);
      members.insert(cell.substr(at + 1, end - at - 1));
      at = cell.find('`', end + 1);
    }
  }
  return members;
}

TEST_F(CommandTest, TheDocumentNamesEveryMemberOfJson) {
  Write("copy.onnx", "copy");
  WriteNpy("in.npy", {1.5f, -2.0f, 3.5f});
  WriteNpy("other/output_0.npy", {1, 1, 1});
  std::set<std::string> run, outputs, compile;
  const auto add = [](const Json& json, std::set<std::string>& members) {
    for (const auto& [key, value] : json.items()) members.insert(key);
  };
  for (const char* options : {"--output-dir out", "--expect-dir other --compile-shapes"}) {
    const std::string out = Run("run copy.onnx --input x=@in.npy --json " + std::string(options));
    const Json json = Json::parse(out.substr(out.find("{\n")));  // a difference is a line before it
    add(json, run);
    add(json.at("outputs").at(0), outputs);
  }
  std::set<std::string> opened;
  for (int i = 0; i < 2; ++i) {
    const Json json = Json::parse(Run("compile copy.onnx -o copy.hyp --shape n=2 --json"));
    add(json, compile);
    opened.insert(json.at("opened"));
  }
  opened.insert(Json::parse(Run("run copy.hyp --json")).at("opened"));
  EXPECT_EQ(opened, (std::set<std::string>{"compiled", "loaded", "loaded from the cache"}));
  EXPECT_EQ(MembersBelow("`halyard run` prints one object with"), run);
  EXPECT_EQ(MembersBelow("Each of `outputs` has"), outputs);
  EXPECT_EQ(MembersBelow("`halyard compile` prints one object with"), compile);
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
