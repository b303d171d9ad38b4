// SPDX-License-Identifier: Apache-2.0
// What only shows in processes of their own: the second start, a missing compiler, handles alive at
// exit, and the symbols of the library.
#include <sys/wait.h>

#include <cstdio>
#include <set>
#include <sstream>

#include "fixture.h"

namespace halyard {
namespace {

class CApiProcessTest : public CApiTest {
 protected:
  // Runs a shell command; returns its output, sets status_.
  std::string Run(const std::string& command) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::string out;
    char piece[4096];
    while (const size_t size = fread(piece, 1, sizeof(piece), pipe)) out.append(piece, size);
    const int status = pclose(pipe);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return out;
  }
  std::string SecondStart() {
    return std::string(HALYARD_SECOND_START) + " " + Write("model.onnx", "copy") +
           " halyard_fake_compiler";
  }
  int status_ = -1;
};

TEST_F(CApiProcessTest, TheSecondStartNeverOpensTheCompiler) {
  EXPECT_EQ(Run(SecondStart()), "opened\n");
  EXPECT_EQ(status_, 0) << "handles alive at exit do no harm";
  EXPECT_EQ(Run(SecondStart()), "not opened\n");
  EXPECT_EQ(status_, 0);
  // Not even when there is none.
  EXPECT_EQ(Run("HALYARD_COMPILER_LIBRARY=/nonexistent.so " + SecondStart()), "not opened\n");
}

TEST_F(CApiProcessTest, AMissingOrForeignCompilerIsUnavailable) {
  EXPECT_THAT(Run("HALYARD_COMPILER_LIBRARY=/nonexistent.so " + SecondStart()),
              testing::HasSubstr("The compiler library cannot be opened"));
  EXPECT_EQ(status_, 2);
  EXPECT_THAT(Run("HALYARD_COMPILER_LIBRARY=" HALYARD_LIBRARY " " + SecondStart()),
              testing::HasSubstr("is no Halyard compiler"));
}

TEST_F(CApiProcessTest, ProcessesShareTheCache) {
  std::string command;
  for (int i = 0; i < 6; ++i) command += SecondStart() + " & ";
  const std::string out = Run(command + "wait");
  EXPECT_THAT(out, testing::Not(testing::HasSubstr("failed")));
  EXPECT_EQ(Run(SecondStart()), "not opened\n");
}

TEST_F(CApiProcessTest, ExactlyTheDeclaredFunctionsAreExported) {
  std::ifstream header(HALYARD_HEADER);
  const std::string text(std::istreambuf_iterator<char>(header), {});
  std::set<std::string> declared;
  for (size_t at = text.find("\nHY_API "); at != std::string::npos;
       at = text.find("\nHY_API ", at + 1)) {
    const size_t open = text.find('(', at);
    const size_t begin = text.rfind("hy_", open);
    declared.insert(text.substr(begin, open - begin));
  }
  std::istringstream lines(Run("nm -D --defined-only " HALYARD_LIBRARY));
  std::set<std::string> exported;
  for (std::string address, kind, name; lines >> address >> kind >> name;) exported.insert(name);
  EXPECT_EQ(exported, declared);
  EXPECT_GE(declared.size(), 30u);
}

}  // namespace
}  // namespace halyard
