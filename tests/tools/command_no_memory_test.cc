// SPDX-License-Identifier: Apache-2.0
// The command where no allocation succeeds any more, also not those of a sentence about it.
#include "tests/sanitized.h"
#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

class NoMemoryTest : public CommandTest {
 protected:
  NoMemoryTest() { Write("copy.onnx", "copy"); }
};

TEST_F(NoMemoryTest, ItEndsWithASentenceAndStatusThree) {
  // A sanitizer has an operator new of its own.
  if (HALYARD_SANITIZED) GTEST_SKIP();
  for (const std::string arguments :
       {"run copy.onnx --device cpu:0 --no-cache", "devices --json"}) {
    int failures = 0;
    for (int64_t at = 1; at < 40'000; at += 1 + at / 3) {
      const std::string out =
          RunCommand(folder_ + " && export LD_PRELOAD=" HALYARD_NO_MEMORY " HALYARD_TEST_FAIL_AT=" +
                         std::to_string(at),
                     arguments, &status_);
      SCOPED_TRACE(arguments + " from allocation " + std::to_string(at));
      ASSERT_TRUE(status_ == 3 || status_ == 0) << status_ << "\n" << out;
      failures += status_ == 3;
      EXPECT_TRUE(status_ == 0 || out.find("memory") != std::string::npos) << out;
    }
    EXPECT_GT(failures, 5) << arguments;
  }
}

}  // namespace
}  // namespace halyard
