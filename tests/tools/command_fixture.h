// SPDX-License-Identifier: Apache-2.0
// What the tests of the command `halyard` share: a folder of their own in which it runs, and the
// stand-in for the compiler library, which takes text for a model.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/run_command.h"

namespace halyard {

class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    std::string name = testing::TempDir() + "/halyard_command_XXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("HALYARD_COMPILER_LIBRARY", HALYARD_FAKE_COMPILER, 1);
    setenv("HALYARD_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
    setenv("HALYARD_FIRST_PROBE_MS", "0", 1);
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Run(const std::string& arguments) { return RunCommand(folder_, arguments, &status_); }
  // In a shell under a limit, by default one of 1 KiB for what its processes write into a file. The
  // cache stays off: what it cannot keep is a warning.
  std::string RunLimited(const std::string& arguments, const std::string& limit = "-f 1") {
    setenv("HALYARD_CACHE_DIR", "off", 1);
    const std::string out = RunCommand(folder_ + " && ulimit " + limit, arguments, &status_);
    setenv("HALYARD_CACHE_DIR", (folder_ + "/cache").c_str(), 1);
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
  // That the output is one line that begins with the prefix; with --json an object follows.
  void ExpectError(const std::string& out, int status, const std::string& part) const {
    EXPECT_EQ(status_, status) << out;
    EXPECT_THAT(out, testing::StartsWith("halyard: error: "));
    const size_t end = std::min(out.find('\n'), out.size());
    EXPECT_THAT(out.substr(0, end + 1), testing::HasSubstr(part));
    EXPECT_TRUE(end + 1 == out.size() || out.compare(end, 14, "\n{\n  \"error\": ") == 0) << out;
  }
  // Without the spaces that put columns below each other.
  static std::string Squeezed(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c != ' ' || out.empty() || out.back() != ' ') out += c;
    }
    return out;
  }
  static bool HasTerminals();
  std::string RunOnTerminal(const std::string& arguments, uint16_t columns);
  std::string folder_;
  int status_ = -1;
};

// Whether the system gives pseudo-terminals; a container without /dev/pts does not.
inline bool CommandTest::HasTerminals() {
  int master = -1, terminal = -1;
  if (openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) return false;
  close(master);
  close(terminal);
  return true;
}

// What the command writes on a terminal of so many columns for standard error; standard output goes
// into the file "out".
inline std::string CommandTest::RunOnTerminal(const std::string& arguments, uint16_t columns) {
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = columns;
  int master = -1, terminal = -1;
  EXPECT_EQ(openpty(&master, &terminal, nullptr, nullptr, &size), 0);
  const std::string command = "cd " + folder_ + " && " HALYARD_COMMAND " " + arguments + " >out";
  const pid_t child = fork();
  if (child == 0) {
    dup2(terminal, STDERR_FILENO);
    close(master);
    close(terminal);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(terminal);
  std::string out;
  char piece[4096];
  // EIO when nobody has the terminal any more.
  for (ssize_t got = 0; (got = read(master, piece, sizeof(piece))) > 0;) out.append(piece, got);
  close(master);
  int status = 0;
  waitpid(child, &status, 0);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  return out;
}

}  // namespace halyard
