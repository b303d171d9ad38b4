// SPDX-License-Identifier: Apache-2.0
// The files that the command is told to write: never those that it reads, by whatever name, nor one
// file twice. What was there stays as it was.
#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

const std::string kQuick = " --runs 5 --warm-up 0 --seconds 0.05 --no-profile ";

TEST_F(CommandTest, ReportsOfBenchReplaceNothingThatIsRead) {
  Write("copy.onnx", "copy");
  Write("other.onnx", "copy, too");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  const std::string input = Read("in/input_0.npy");
  std::filesystem::create_symlink("copy.onnx", folder_ + "/link");
  std::filesystem::create_hard_link(folder_ + "/copy.onnx", folder_ + "/hard");
  for (const std::string option : {"--output", "--html", "--trace"}) {
    for (const std::string path : {"copy.onnx", "./copy.onnx", "in/../copy.onnx", "link", "hard"}) {
      ExpectError(Run("bench other.onnx copy.onnx" + kQuick + option + " " + path), 1,
                  option + " '" + path + "' is the model");
    }
    ExpectError(Run("bench copy.onnx" + kQuick + "--input x=@in/input_0.npy " + option +
                    " ./in/input_0.npy"),
                1, option + " './in/input_0.npy' is the input 'in/input_0.npy', which stays");
    ExpectError(Run("bench copy.onnx" + kQuick + "--input-dir in " + option + " in/input_0.npy"), 1,
                option + " 'in/input_0.npy' is the input, which stays as it is");
  }
  EXPECT_EQ(Read("copy.onnx"), "copy");
  EXPECT_EQ(Read("in/input_0.npy"), input);
  // Beside the inputs a report may lie.
  Run("bench copy.onnx" + kQuick + "--input-dir in --output in/report.json");
  EXPECT_EQ(status_, 0);
  Run("bench copy.onnx" + kQuick + "--input-dir in --output in/report.json");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, TwoReportsOfBenchAreTwoFiles) {
  Write("copy.onnx", "copy");
  Write("old", "old");
  std::filesystem::create_symlink("new", folder_ + "/to_new");
  std::filesystem::create_symlink("old", folder_ + "/to_old");
  for (const auto& [one, other] : {std::pair("new", "./new"),
                                   {"new", "to_new"},
                                   {"to_new", "to_new"},
                                   {"old", "to_old"},
                                   {"nowhere/a", "nowhere/./a"}}) {
    const std::string a = one, b = other;
    ExpectError(Run("bench copy.onnx" + kQuick + "--html " + a + " --trace " + b), 1,
                "--html '" + a + "' and --trace '" + b + "' are one file; each needs its own");
    ExpectError(Run("bench copy.onnx" + kQuick + "--trace " + a + " --output " + b), 1,
                "--output '" + b + "' and --trace '" + a + "' are one file");
  }
  EXPECT_EQ(Read("old"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/new"));
  Run("bench copy.onnx" + kQuick + "--html /dev/null --trace /dev/null --output new");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Read("new"), testing::HasSubstr("\"is_interrupted\": false"));
}

TEST_F(CommandTest, CompileKeepsTheModel) {
  Write("copy.onnx", "copy");
  std::filesystem::create_hard_link(folder_ + "/copy.onnx", folder_ + "/hard");
  ExpectError(Run("compile copy.onnx -o copy.onnx"), 1,
              "--output 'copy.onnx' is the model, which stays as it is");
  ExpectError(Run("compile copy.onnx -o ./copy.onnx"), 1,
              "--output './copy.onnx' is the model 'copy.onnx', which stays as it is");
  ExpectError(Run("compile copy.onnx -o hard"), 1, "'hard' is the model 'copy.onnx'");
  EXPECT_EQ(Read("copy.onnx"), "copy");
}

TEST_F(CommandTest, NothingReplacesExternalData) {
  Write("models/copy.onnx", "copy data/weights");
  Write("models/data/weights", "1");
  Write("models/blob", "2");
  Write("models/weights", "3");
  std::filesystem::create_directory_symlink(folder_ + "/models", folder_ + "/link");
  for (const char* output : {"models/data/weights", "link/data/../data/weights"}) {
    for (const std::string command :
         {"compile models/copy.onnx -o ", "bench models/copy.onnx --html "}) {
      ExpectError(Run(command + output), 1,
                  "'" + std::string(output) + "' is data of the model 'models/copy.onnx'");
    }
  }
  EXPECT_EQ(Read("models/data/weights"), "1");
  std::filesystem::remove(folder_ + "/models/data/weights");
  std::filesystem::create_symlink("../blob", folder_ + "/models/data/weights");
  ExpectError(Run("compile models/copy.onnx -o models/data/weights"), 1, "is data of the model");
  EXPECT_EQ(Read("models/blob"), "2");
  // A model and its data that are links into one folder.
  Write("blobs/1a", "copy other");
  Write("blobs/2b", "4");
  Write("blobs/3c", "5");
  std::filesystem::create_directory(folder_ + "/snapshot");
  std::filesystem::create_symlink("../blobs/1a", folder_ + "/snapshot/copy.onnx");
  std::filesystem::create_symlink("../blobs/2b", folder_ + "/snapshot/other");
  for (const char* output : {"blobs/2b", "snapshot/other"}) {
    ExpectError(Run("compile snapshot/copy.onnx -o " + std::string(output)), 1,
                "'" + std::string(output) + "' is data of the model 'snapshot/copy.onnx'");
  }
  EXPECT_EQ(Read("blobs/2b"), "4");
  // A file of that name that the model does not mean.
  Write("models/plain.onnx", "copy");
  Run("compile models/plain.onnx -o models/weights");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, OutputsOfARunReplaceNothingThatIsRead) {
  Write("copy.onnx", "copy");
  WriteNpy("out/output_0.npy", {1, 2, 3});
  const std::string before = Read("out/output_0.npy");
  ExpectError(Run("run copy.onnx --input x=@out/output_0.npy --output-dir ./out"), 1,
              "is the input 'out/output_0.npy', which stays as it is");
  // Compared with itself every output would be as expected.
  ExpectError(Run("run copy.onnx --shape n=3 --expect-dir out --output-dir ./out"), 1,
              "is the expectation 'out/output_0.npy', which stays as it is");
  Write("models/output_0.npy", "copy");
  ExpectError(Run("run models/output_0.npy --shape n=3 --output-dir models"), 1, "is the model");
  EXPECT_EQ(Read("out/output_0.npy"), before);
  EXPECT_EQ(Read("models/output_0.npy"), "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  Run("run copy.onnx --input-dir in --output-dir in");
  EXPECT_EQ(status_, 0);
  Run("run copy.onnx --input-dir in --expect-dir out --output-dir other");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, AReportMayGoToStandardOutput) {
  const std::string picture = Run("devices cpu:0 --svg - 2>&1");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(picture, testing::HasSubstr("</svg>"));
  const std::string report = Run("devices cpu:0 --output - 2>&1");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(report, testing::HasSubstr("\"devices\": ["));
}

TEST_F(CommandTest, DevicesRefuseWhatTheyWouldIgnore) {
  Write("a.json", Run("devices cpu:0 --json"));
  const std::string before = Read("a.json");
  ExpectError(Run("devices --diff a.json a.json --svg a.json"), 1,
              "--diff reads two reports and writes what differs; it takes no --svg");
  ExpectError(Run("devices cpu:0 --diff a.json a.json"), 1, "it takes no DEVICE");
  ExpectError(Run("devices --why-missing cuda --svg a.json --all"), 1,
              "--why-missing looks at one driver; it takes no --all, --svg");
  EXPECT_EQ(Read("a.json"), before);
}

TEST_F(CommandTest, AFolderIsNoReport) {
  std::filesystem::create_directory(folder_ + "/folder");
  Write("a.json", Run("devices cpu:0 --json"));
  ExpectError(Run("devices --diff a.json folder"), 2, "'folder' is a folder; a file is needed");
  ExpectError(Run("bench --compare folder a.json"), 2, "'folder' is a folder; a file is needed");
}

}  // namespace
}  // namespace halyard
