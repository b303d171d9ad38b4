// SPDX-License-Identifier: Apache-2.0
// Files of the command that were damaged or are not what their names say: a flipped bit of a weight
// gives no wrong number, a cache heals, and outputs leave nothing half written.
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "tests/sanitized.h"
#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

class DamageTest : public CommandTest {
 protected:
  // Flips a bit of the last weight of the fake compiler's "weigh", which ends the file.
  void FlipWeight(const std::string& name) const {
    std::string bytes = Read(name);
    ASSERT_GT(bytes.size(), 4096u);
    bytes[bytes.size() - 2] ^= 1;
    Write(name, bytes);
  }
  // The one program file of the cache.
  std::string CacheEntry() const {
    for (const auto& file : std::filesystem::directory_iterator(folder_ + "/cache")) {
      if (file.path().extension() == ".hyp") return "cache/" + file.path().filename().string();
    }
    return "";
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      names.push_back(file.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(DamageTest, AFlippedBitOfAWeightIsRefused) {
  Write("weigh.onnx", "weigh");
  Run("compile weigh.onnx -o weigh.hyp");
  ASSERT_EQ(status_, 0);
  EXPECT_THAT(Run("run weigh.hyp"), testing::HasSubstr("w [1024]: min 0.5, max 0.5, mean 0.5"));
  FlipWeight("weigh.hyp");
  for (const char* command : {"run", "explain", "bench --runs 1"}) {
    ExpectError(Run(std::string(command) + " weigh.hyp"), 2, "the hash of the data differs");
  }
}

TEST_F(DamageTest, ACacheEntryWithAFlippedBitIsMadeAgain) {
  Write("weigh.onnx", "weigh");
  const std::string good = "w [1024]: min 0.5, max 0.5, mean 0.5";
  EXPECT_THAT(Run("run weigh.onnx"), testing::HasSubstr(good));
  ASSERT_NE(CacheEntry(), "");
  FlipWeight(CacheEntry());
  const std::string healed = Run("run weigh.onnx");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(healed, testing::AllOf(testing::HasSubstr(good),
                                     testing::HasSubstr("halyard: warning: a cache entry is not "
                                                        "used, and is made again: "),
                                     testing::HasSubstr("the hash of the data differs")));
  EXPECT_THAT(Run("run weigh.onnx"), testing::Not(testing::HasSubstr("warning")));
}

TEST_F(DamageTest, WhatIsNoFileInTheCacheIsReplaced) {
  Write("copy.onnx", "copy");
  Run("run copy.onnx --shape n=3");
  const std::string entry = CacheEntry();
  ASSERT_NE(entry, "");
  const std::string path = folder_ + "/" + entry, timings = folder_ + "/cache/timings";
  Write("mine", "mine");
  for (int kind = 0; kind < 3; ++kind) {
    std::filesystem::remove_all(path);
    std::filesystem::remove_all(timings);
    if (kind == 0) {
      std::filesystem::create_directories(path + "/with");
      std::filesystem::create_directory(timings);
    } else if (kind == 1) {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      ASSERT_EQ(mkfifo(timings.c_str(), 0600), 0);
    } else {
      std::filesystem::create_symlink("../mine", path);
      std::filesystem::create_symlink("../mine", timings);
    }
    // Compiling and timing schedules take long: nobody should wonder why.
    EXPECT_THAT(
        Run("run copy.onnx --shape n=3"),
        testing::AllOf(testing::HasSubstr("halyard: warning: '" + timings +
                                          "' was no regular file and was removed"),
                       testing::HasSubstr(
                           "halyard: warning: a cache entry is not used, and is made again: The "
                           "cache entry '" +
                           path + "' was no regular file and was removed."),
                       testing::HasSubstr("output y")));
    EXPECT_EQ(status_, 0);
    EXPECT_THAT(Run("run copy.onnx --shape n=3"), testing::StartsWith("output y"));
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path))) << kind;
    EXPECT_EQ(Read("mine"), "mine");
  }
}

// A writer that renames: a reader sees the old program or the new one.
TEST_F(DamageTest, AProgramIsRunWhileItIsWritten) {
  Write("weigh.onnx", "weigh");
  Run("compile weigh.onnx -o weigh.hyp");
  ASSERT_EQ(status_, 0);
  std::thread writer([this] {
    int status = 0;
    for (int i = 0; i < 10; ++i) {
      RunCommand(folder_, "compile weigh.onnx -o weigh.hyp", &status);
      EXPECT_EQ(status, 0);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const std::string out = Run("run weigh.hyp");
    EXPECT_EQ(status_, 0) << out;
  }
  writer.join();
}

TEST_F(DamageTest, OutputsFollowLinksAndLeaveNothingBehind) {
  Write("weigh.onnx", "weigh");
  WriteNpy("in/input_0.npy", {1, 2});
  Write("old", "old");
  const std::vector<std::string> commands = {
      "compile weigh.onnx -o ",
      "devices cpu:0 --output ",
      "devices cpu:0 --svg ",
      "bench weigh.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile --output ",
      "bench weigh.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile --html ",
      "bench weigh.onnx --runs 5 --warm-up 0 --seconds 0.05 --no-profile --trace "};
  Run(commands[0] + "first");  // fills the cache
  for (const std::string& command : commands) {
    Write("old", "old");
    std::filesystem::create_symlink("old", folder_ + "/link");
    const std::vector<std::string> before = Files();
    Run(command + "link");
    EXPECT_EQ(status_, 0) << command;
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link")) << command;
    EXPECT_NE(Read("old"), "old") << command;
    // Through a pipe, without a name of their own.
    EXPECT_THAT(Run(command + "/dev/stderr 2>&1 >/dev/null | wc -c; exit 0"),
                testing::Not(testing::StartsWith("0")));
    EXPECT_TRUE(std::filesystem::exists("/dev/stderr"));
    ExpectError(Run(command + "nowhere/x"), 3,
                "File 'nowhere/x' cannot be written: No such file or directory");
    ExpectError(Run(command + "in"), 3, "File 'in' cannot be written: Is a directory");
    const std::string out = Run(command + "/dev/full 2>errors; exit $?");
    EXPECT_EQ(status_, 3) << command;
    EXPECT_EQ(Read("errors"),
              "halyard: error: File '/dev/full' cannot be written: No space left on device.\n");
    std::filesystem::remove(folder_ + "/errors");
    // What was measured is not lost with the file.
    const char* result = command.starts_with("bench")     ? "| weigh.onnx"
                         : command.ends_with("--output ") ? "cpu:0"
                                                          : "";
    EXPECT_THAT(out, testing::HasSubstr(result)) << command;
    const std::string kept = Read("old");
    if (kept.size() > 1024) {
      ExpectError(RunLimited(command + "old 2>&1 >/dev/null; exit $?"), 3,
                  "cannot be written: File too large");
      EXPECT_EQ(Read("old"), kept);
    }
    EXPECT_EQ(Files(), before) << command;
    std::filesystem::remove(folder_ + "/link");
  }
}

TEST_F(DamageTest, OutputsOfARunFollowLinks) {
  Write("weigh.onnx", "weigh");
  std::filesystem::create_directory(folder_ + "/out");
  std::filesystem::create_symlink("../target", folder_ + "/out/output_0.npy");
  Run("run weigh.onnx --output-dir out");
  EXPECT_EQ(status_, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/out/output_0.npy"));
  EXPECT_THAT(Read("target"), testing::HasSubstr("NUMPY"));
  ExpectError(RunLimited("run weigh.onnx --output-dir out 2>&1 >/dev/null; exit $?"), 3,
              "output_1.npy' cannot be written: File too large");
  size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_ + "/out"))
    count += file.exists();
  EXPECT_EQ(count, 2u);
}

TEST_F(DamageTest, AProgramOnStandardOutputIsAlone) {
  Write("weigh.onnx", "weigh");
  Run("compile weigh.onnx -o weigh.hyp");
  for (const std::string name : {"/dev/stdout", "-"}) {
    Run("compile weigh.onnx -o " + name + " 2>err >through.hyp; exit $?");
    EXPECT_EQ(status_, 0);
    EXPECT_EQ(Read("through.hyp"), Read("weigh.hyp"));
    EXPECT_THAT(Read("err"),
                testing::StartsWith("wrote /dev/stdout, as the cache had it: nothing was "
                                    "compiled (--replan compiles anew)\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/-"));
  Run("compile weigh.onnx -o ./- >/dev/null; exit $?");
  EXPECT_EQ(Read("-"), Read("weigh.hyp"));
  Run("run through.hyp");
  EXPECT_EQ(status_, 0);
}

TEST_F(DamageTest, AnInterruptedCommandLeavesNothing) {
  Write("weigh.onnx", "weigh");
  Run("compile weigh.onnx -o weigh.hyp");
  const std::vector<std::string> before = Files();
  // At moments all over a compile, which fsyncs what it writes.
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (chdir(folder_.c_str()) != 0 || freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
      execl(HALYARD_COMMAND, "halyard", "compile", "weigh.onnx", "-o", "weigh.hyp", nullptr);
      _exit(127);
    }
    usleep(static_cast<useconds_t>(i) * 3000);
    kill(child, i % 2 == 0 ? SIGINT : SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(Files(), before);
  Run("run weigh.hyp");
  EXPECT_EQ(status_, 0);
}

TEST_F(DamageTest, AnInputLargerThanMemoryIsNamed) {
  if (HALYARD_SANITIZED) GTEST_SKIP() << "Sanitizers need more addresses than the limit leaves.";
  Write("copy.onnx", "copy");
  WriteNpy("big.npy", {1});
  std::string head = Read("big.npy");
  head.replace(head.find("(1,)"), 4, "(1000000000,)");
  head.erase(head.find("             "), 9);  // the head keeps its length
  Write("big.npy", head);
  std::filesystem::resize_file(folder_ + "/big.npy", 128 + uintmax_t{4000000000});
  ExpectError(RunLimited("run copy.onnx --device cpu --input x=@big.npy", "-v 2000000"), 3,
              "big.npy: the tensor takes more memory than this machine gives");
}

// 100 GB without a byte on the disk.
TEST_F(DamageTest, AHugeFileIsRefusedByItsHead) {
  Write("copy.onnx", "copy");
  for (const char* name : {"huge.npy", "huge.pb", "huge.json", "huge.onnx"}) {
    Write(name, "no such form");
    std::filesystem::resize_file(folder_ + "/" + name, uintmax_t{100} << 30);
  }
  ExpectError(Run("run copy.onnx --input x=@huge.npy"), 2, "does not begin like an NPY file");
  ExpectError(Run("run copy.onnx --input x=@huge.pb"), 2, "huge.pb: ");
  ExpectError(Run("bench --compare huge.json huge.json"), 2, "'huge.json' cannot be read");
  ExpectError(Run("devices --diff huge.json huge.json"), 2, "'huge.json' cannot be read");
  // One whose head is right and asks for more than there is.
  WriteNpy("long.npy", {1, 2, 3});
  std::filesystem::resize_file(folder_ + "/long.npy", uintmax_t{100} << 30);
  ExpectError(Run("run copy.onnx --input x=@long.npy"), 2, "asks for 12 bytes of elements");
}

}  // namespace
}  // namespace halyard
