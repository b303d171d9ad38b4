// SPDX-License-Identifier: Apache-2.0
// The command `halyard` as a user sees it: what it writes, its one-line errors and its exit
// statuses. The compiler library is the stand-in, which takes text for a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace halyard {
namespace {

class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string name = testing::TempDir() + "/halyard_command_XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("HALYARD_COMPILER_LIBRARY", HALYARD_FAKE_COMPILER, 1);
    setenv("HALYARD_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Run(const std::string& arguments) {
    const std::string command = "cd " + folder_ + " && " HALYARD_COMMAND " " + arguments + " 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    char piece[4096];
    while (const size_t size = fread(piece, 1, sizeof(piece), pipe)) out.append(piece, size);
    const int status = pclose(pipe);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return out;
  }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // A .npy file as numpy.save writes it.
  void WriteNpy(const std::string& name, const std::vector<float>& values) const {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size()) + ",), }";
    header.append(117 - header.size(), ' ');
    header += '\n';
    std::string text("\x93NUMPY\x01\x00\x76\x00", 10);
    text += header;
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    Write(name, text);
  }
  // That the output is one line that begins with the prefix.
  void ExpectError(const std::string& out, int status, const std::string& part) const {
    EXPECT_EQ(status_, status) << out;
    EXPECT_THAT(out, testing::StartsWith("halyard: error: "));
    EXPECT_THAT(out, testing::HasSubstr(part));
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  }
  std::string folder_;
  int status_ = -1;
};

TEST_F(CommandTest, Devices) {
  EXPECT_THAT(Run("devices"), testing::HasSubstr("cpu:0"));
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("devices --json"), testing::HasSubstr("\"compute.unit_count\""));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("devices cpu:77"), 2, "cpu:77");
}

TEST_F(CommandTest, RunWritesWhatItRead) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1.5f, -2.0f, 3.25f});
  const std::string out = Run("run copy.onnx --input-dir in --output-dir out");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(out, testing::HasSubstr("output y [3]: min -2, max 3.25"));
  const std::string written = Read("out/output_0.npy");
  ASSERT_GE(written.size(), 12u);
  EXPECT_EQ(written.size() % 64, 12u);
  EXPECT_EQ(written.substr(written.size() - 12), Read("in/input_0.npy").substr(128));
  EXPECT_THAT(Run("run copy.onnx --input x=@in/input_0.npy --json"),
              testing::HasSubstr("\"run_seconds\""));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, RandomInputsComeFromTheSeed) {
  Write("copy.onnx", "copy");
  const auto output = [&](const std::string& options) {
    EXPECT_EQ((Run("run copy.onnx --output-dir out " + options), status_), 0);
    return Read("out/output_0.npy");
  };
  const std::string one = output("--seed 1 --shape n=100");
  EXPECT_EQ(one.size(), 128u + 400u);
  EXPECT_EQ(output("--seed 1 --shape n=100"), one);
  EXPECT_NE(output("--seed 2 --shape n=100"), one);
}

TEST_F(CommandTest, Expectations) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  WriteNpy("good/output_0.npy", {1, 2, 3.0001f});
  WriteNpy("bad/output_0.npy", {1, 2, 4});
  WriteNpy("short/output_0.npy", {1, 2});
  Run("run copy.onnx --input-dir in --expect-dir good --rtol 1e-3");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir bad"),
              testing::HasSubstr("output 'y': element 2 is 3; 4 is expected"));
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir short"),
              testing::HasSubstr("shape [3]"));
  EXPECT_EQ(status_, 4);
}

TEST_F(CommandTest, CompileThenRunWithoutACompiler) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  EXPECT_THAT(Run("compile copy.onnx -o copy.hyp"), testing::HasSubstr("wrote copy.hyp"));
  EXPECT_EQ(status_, 0);
  setenv("HALYARD_COMPILER_LIBRARY", "/nonexistent.so", 1);
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 2);  // there is no output_0.npy in that folder
  std::filesystem::copy(folder_ + "/in/input_0.npy", folder_ + "/in/output_0.npy");
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  Run("run copy.hyp --shape n=3 --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.hyp --shape m=3"), 1, "copy.hyp has no size 'm'; its sizes are: n");
  Write("other.onnx", "copy other");
  ExpectError(Run("run other.onnx"), 3, "The compiler library cannot be opened");
}

TEST_F(CommandTest, Explain) {
  Write("copy.onnx", "copy");
  const std::string text = Run("explain copy.onnx");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(text, testing::HasSubstr("placement\n  cpu:0: 0 dispatches, 2 copies"));
  EXPECT_THAT(text, testing::HasSubstr("fusion groups\n  group: a made-up record"));
  EXPECT_THAT(Run("explain copy.onnx --dot"), testing::StartsWith("digraph"));
  EXPECT_THAT(Run("explain copy.onnx --json"), testing::HasSubstr("\"placement\""));
  EXPECT_THAT(Run("explain copy.onnx --commands"), testing::StartsWith("program \""));
  const std::string page = Run("explain copy.onnx --html");
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::HasSubstr("a made-up record"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));  // refers to nothing outside
}

TEST_F(CommandTest, ExplainOneNode) {
  Write("copy.onnx", "copy");
  EXPECT_EQ(Run("explain copy.onnx --node folded"),
            "node: folded\nfate: gone after pass 'fold-constants'\n");
  EXPECT_EQ(Run("explain copy.onnx --node slow"),
            "node: slow\nfate: in the interpreter\n"
            "fallback: Op 'odd' runs in the interpreter: no lowering\n");
  EXPECT_THAT(Run("explain copy.onnx --node slow --json"),
              testing::HasSubstr("\"in the interpreter\""));
  ExpectError(Run("explain copy.onnx --node none"), 2, "The model has no node 'none'");
  EXPECT_THAT(Run("explain copy.onnx --why-not folded=cpu:0"),
              testing::StartsWith("COMPUTED_AT_COMPILE_TIME: Node 'folded' runs on no device"));
  EXPECT_EQ(Run("explain copy.onnx --why-not slow=cpu:0"),
            "UNSUPPORTED_OP: Op 'odd' runs in the interpreter: no lowering\n");
  EXPECT_THAT(Run("explain copy.onnx --why-not slow=gpu:0"),
              testing::StartsWith("NOT_ASKED_FOR: Device 'gpu:0' is not among"));
  ExpectError(Run("explain copy.onnx --why-not slow"), 1, "--why-not takes NODE=DEVICE");
}

TEST_F(CommandTest, ErrorsAreOneLineWithTheirStatus) {
  Write("bad.onnx", "bad");
  Write("copy.onnx", "copy");
  Write("text.npy", "this is no array");
  ExpectError(Run("run none.onnx"), 2, "none.onnx");
  ExpectError(Run("run bad.onnx"), 2, "bad.onnx: Node 'g' is wrong.");
  ExpectError(Run("run copy.onnx --input x=@text.npy"), 2, "text.npy");
  ExpectError(Run("run copy.onnx --input z=@text.npy"), 2, "there is no input 'z'");
  ExpectError(Run("run copy.onnx --input x"), 1, "is not NAME=@FILE.npy");
  ExpectError(Run("run copy.onnx --shape n"), 1, "is not SYMBOL=N");
  ExpectError(Run("run copy.onnx --device cpu:99 --no-fallback"), 3, "cpu:99");
  ExpectError(Run("run copy.onnx --device cpu:0?x=1"), 1, "--device");
  ExpectError(Run("run"), 1, "MODEL is required");
  ExpectError(Run("dance"), 1, "halyard --help");
  ExpectError(Run(""), 1, "subcommand");
  EXPECT_THAT(Run("run copy.onnx --device gpu --shape n=4"), testing::HasSubstr("is left out"));
  EXPECT_EQ(status_, 0);
  Run("--help");
  EXPECT_EQ(status_, 0);
}

}  // namespace
}  // namespace halyard
