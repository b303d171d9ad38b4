// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace halyard {
namespace {

TEST(Log, LevelsRoundTrip) {
  for (LogLevel level :
       {LogLevel::kOff, LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    LogLevel parsed = LogLevel::kOff;
    EXPECT_TRUE(ParseLogLevel(FormatLogLevel(level), &parsed));
    EXPECT_EQ(parsed, level);
  }
  LogLevel untouched = LogLevel::kInfo;
  EXPECT_FALSE(ParseLogLevel("loud", &untouched));
  EXPECT_EQ(untouched, LogLevel::kInfo);
}

TEST(Log, WritesOnlyWhatTheLevelAllows) {
  LogLevel before = GetLogLevel();
  std::vector<std::string> lines;
  SetLogSink(
      [](void* context, LogLevel level, std::string_view message) {
        static_cast<std::vector<std::string>*>(context)->push_back(
            fmt::format("{}: {}", FormatLogLevel(level), message));
      },
      &lines);
  SetLogLevel(LogLevel::kInfo);
  HY_LOG(kError, "{} of {}", 1, 2);
  HY_LOG(kInfo, "seen");
  HY_LOG(kDebug, "unseen");
  SetLogLevel(LogLevel::kOff);
  HY_LOG(kError, "unseen");
  SetLogSink(nullptr, nullptr);
  SetLogLevel(before);
  EXPECT_EQ(lines, (std::vector<std::string>{"error: 1 of 2", "info: seen"}));
}

}  // namespace
}  // namespace halyard
