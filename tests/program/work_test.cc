// SPDX-License-Identifier: Apache-2.0
// Records of what kernels do: their text and what a damaged one says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/program/work.h"

namespace halyard::program {
namespace {

TEST(KernelWork, TextRoundTrips) {
  for (const char* text : {"", "flops 2 $0 * 768 *; read 3072; written 8 $1 min 3 +; product f32",
                           "flops 7 $0 / 2 % 9 max -4 +", "product bf16"}) {
    const auto work = ParseWork(text, 2);
    ASSERT_TRUE(work.ok()) << work.status().ToLine();
    EXPECT_EQ(FormatWork(*work), text);
  }
  const auto work = ParseWork("flops 2 $0 * 768 *; read 3072", 1);
  ASSERT_TRUE(work.ok());
  const int64_t symbols[] = {5};
  EXPECT_EQ(*work->flops->Evaluate(symbols), 2 * 5 * 768);
  EXPECT_FALSE(work->written_bytes) << "what is not known is missing";
}

TEST(KernelWork, DamagedTextNamesThePart) {
  for (const auto& [text, part] : {std::pair{"flops 2 $1 *", "'$1'"},
                                   {"speed 3", "'speed'"},
                                   {"read 2x", "'2x'"},
                                   {"written $-1", "'$-1'"},
                                   {"product f31", "f31"}}) {
    const auto work = ParseWork(text, 1);
    ASSERT_FALSE(work.ok()) << text;
    EXPECT_THAT(std::string(work.status().message()), testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace halyard::program
