// SPDX-License-Identifier: Apache-2.0
// What a failed check does in a release build, where it must not abort: base/check.cc is compiled
// into this program as releases compile it, while all other tests have the one that aborts.
#include "base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace halyard {
namespace {

Status Checked(int value) {
  HY_CHECK(value < 3, "the value is {}", value);
  return OkStatus();
}

TEST(ReleaseCheck, UnwindsToTheRootAsInternalWithItsPlace) {
  EXPECT_TRUE(CatchAll([] { return Checked(2); }).ok());
  const Status status = CatchAll([] { return Checked(3); });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(),
              testing::MatchesRegex(
                  ".*release_check_test.cc:[0-9]+: check 'value < 3' failed: the value is 3"));
}

TEST(ReleaseCheck, UnreachablePlacesToo) {
  const Status status = CatchAll([]() -> Status { HY_UNREACHABLE("kind {}", 7); });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), testing::HasSubstr("check 'unreachable' failed: kind 7"));
}

}  // namespace
}  // namespace halyard
