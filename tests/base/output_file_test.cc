// SPDX-License-Identifier: Apache-2.0
// OutputFile: what had the name stays until all is written, links and pipes are written through,
// and no failure leaves a file or ends the process by a signal.
#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace halyard {
namespace {

using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() {
    std::string name = testing::TempDir() + "/halyard_output_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  size_t FileCount() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // The rights of a file.
  mode_t ModeOf(const std::string& name) const {
    struct stat info = {};
    EXPECT_EQ(stat(Path(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  std::string folder_;
};

TEST_F(OutputFileTest, WhatWasThereStaysUntilAllIsWritten) {
  Write("a", "old");
  {
    auto file = OutputFile::Create(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE((*file)->Append("new").ok());
    EXPECT_EQ(Read("a"), "old");
    EXPECT_EQ(FileCount(), 2u);
  }
  EXPECT_EQ(Read("a"), "old");
  EXPECT_EQ(FileCount(), 1u) << "what was not finished is gone";
  ASSERT_TRUE(WriteOutputFile(Path("a"), "new").ok());
  EXPECT_EQ(Read("a"), "new");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(OutputFileTest, RightsStayAndNewFilesHaveThoseOfTheProcess) {
  Write("a", "old");
  chmod(Path("a").c_str(), 0640);
  const mode_t before = umask(027);
  EXPECT_TRUE(WriteOutputFile(Path("a"), "new").ok());
  EXPECT_TRUE(WriteOutputFile(Path("b"), "new").ok());
  umask(before);
  EXPECT_EQ(ModeOf("a"), 0640u);
  EXPECT_EQ(ModeOf("b"), 0640u);
}

TEST_F(OutputFileTest, LinksAreFollowed) {
  std::filesystem::create_directory(Path("sub"));
  Write("sub/old", "old");
  std::filesystem::create_symlink("sub/old", Path("link"));
  std::filesystem::create_symlink(Path("link"), Path("link_to_link"));
  std::filesystem::create_symlink("sub/new", Path("to_nothing"));
  std::filesystem::create_symlink("round", Path("round"));
  EXPECT_TRUE(WriteOutputFile(Path("link_to_link"), "1").ok());
  EXPECT_TRUE(WriteOutputFile(Path("to_nothing"), "2").ok());
  EXPECT_EQ(Read("sub/old"), "1");
  EXPECT_EQ(Read("sub/new"), "2");
  for (const char* link : {"link", "link_to_link", "to_nothing"})
    EXPECT_TRUE(std::filesystem::is_symlink(Path(link))) << link;
  EXPECT_THAT(WriteOutputFile(Path("round"), "3").ToLine(), HasSubstr("symbolic links"));
}

TEST_F(OutputFileTest, PipesAndOpenFilesAreWrittenThrough) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(WriteOutputFile(Path("pipe"), "x").ToLine(), HasSubstr("that nobody reads"));
  EXPECT_TRUE(OutputFile::Check(Path("pipe")).ok());  // a reader may come
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(WriteOutputFile(Path("pipe"), "through").ok());
  char bytes[16] = {};
  EXPECT_EQ(read(reader, bytes, sizeof(bytes)), 7);
  EXPECT_STREQ(bytes, "through");
  {
    auto file = OutputFile::Create(Path("pipe"));
    ASSERT_TRUE(file.ok());
    close(reader);
    EXPECT_THAT((*file)->Append("lost").ToLine(), HasSubstr("Broken pipe"));  // and no signal
  }
  EXPECT_TRUE(std::filesystem::is_fifo(Path("pipe")));
  EXPECT_TRUE(WriteOutputFile("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  // An open file under its name in /proc: it goes on where it is, whatever the name reads as.
  const int open_file = open(Path("log").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(write(open_file, "first ", 6), 6);
  EXPECT_TRUE(WriteOutputFile("/dev/fd/" + std::to_string(open_file), "second").ok());
  EXPECT_EQ(Read("log"), "first second");
  std::filesystem::create_symlink("/dev/fd/" + std::to_string(open_file), Path("link"));
  auto file = OutputFile::Create(Path("link"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Is(open_file));
  EXPECT_FALSE((*file)->Is(STDIN_FILENO));
  close(open_file);
}

TEST_F(OutputFileTest, RefusalsNameTheFileAndTheReason) {
  EXPECT_EQ(WriteOutputFile(folder_, "x").ToLine(),
            "File '" + folder_ + "' cannot be written: Is a directory.");
  EXPECT_EQ(WriteOutputFile(Path("no/such"), "x").ToLine(),
            "File '" + Path("no/such") + "' cannot be written: No such file or directory.");
  EXPECT_EQ(WriteOutputFile(Path("new/"), "x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(WriteOutputFile("", "x").code(), StatusCode::kUnavailable);
  EXPECT_THAT(WriteOutputFile("/dev/full", "x").ToLine(), HasSubstr("No space left on device"));
  Write("fixed", "old");
  chmod(Path("fixed").c_str(), 0444);
  if (geteuid() != 0) {
    EXPECT_THAT(OutputFile::Check(Path("fixed")).ToLine(), HasSubstr("Permission denied"));
  }
  EXPECT_TRUE(OutputFile::Check(Path("new")).ok());
  EXPECT_EQ(FileCount(), 1u) << "a check leaves nothing";
}

// The default of SIGXFSZ ends the process.
TEST_F(OutputFileTest, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = WriteOutputFile(Path("a"), std::string(1000, 'x'));
    const Status line = AppendToFile(Path("lines"), std::string(1000, 'x'));
    const bool is_told = status.ToLine().find("File too large") != std::string::npos;
    sigset_t pending;
    sigpending(&pending);
    _exit(is_told && !line.ok() && sigismember(&pending, SIGXFSZ) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
}

TEST_F(OutputFileTest, ASignalThatEndsTheProcessLeavesNothing) {
  Write("a", "old");
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGTERM, [](int) {
      RemoveUnfinishedOutputs();
      _exit(7);
    });
    auto first = OutputFile::Create(Path("a"));
    auto second = OutputFile::Create(Path("b"));
    if (first.ok() && second.ok() && (*second)->Append("half").ok()) raise(SIGTERM);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(FileCount(), 1u);
  EXPECT_EQ(Read("a"), "old");
}

// A file that a thread makes while another removes them.
TEST_F(OutputFileTest, ASignalLeavesNothingOfThreadsThatMakeFiles) {
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGTERM, [](int) {
        RemoveUnfinishedOutputs();
        usleep(1000);
        _exit(7);
      });
      std::vector<std::thread> threads;
      for (int j = 0; j < 3; ++j) {
        threads.emplace_back([&, j] {
          for (;;) (void)OutputFile::Create(Path("a" + std::to_string(j)));
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
    usleep(2000 + static_cast<useconds_t>(i) * 100);
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 7);
  }
  EXPECT_EQ(FileCount(), 0u);
}

TEST_F(OutputFileTest, LinesAreAddedAndLinksAreNotFollowed) {
  EXPECT_TRUE(AppendToFile(Path("lines"), "a\n").ok());
  EXPECT_TRUE(AppendToFile(Path("lines"), "b\n").ok());
  EXPECT_EQ(Read("lines"), "a\nb\n");
  EXPECT_EQ(ModeOf("lines") & 0077, 0u);
  std::filesystem::create_symlink("lines", Path("link"));
  EXPECT_FALSE(AppendToFile(Path("link"), "c\n").ok());
  EXPECT_EQ(Read("lines"), "a\nb\n");
}

}  // namespace
}  // namespace halyard
