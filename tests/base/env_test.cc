// SPDX-License-Identifier: Apache-2.0
// The environment table: lookup rules, and docs/environment.md, which is generated from it.
#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace halyard {
namespace {

class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedEnv() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Env, TableIsWellFormed) {
  std::set<std::string_view> names;
  for (const EnvVarInfo& row : EnvTable()) {
    EXPECT_EQ(row.name.substr(0, 8), "HALYARD_") << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.doc.empty()) << row.name;
    EXPECT_EQ(row.doc.back(), '.') << row.name;
  }
}

TEST(Env, StringFallsBackToItsDefault) {
  unsetenv("HALYARD_LOG");
  EXPECT_EQ(EnvString(EnvVar::kLog), "warning");
  ScopedEnv empty("HALYARD_LOG", "");
  EXPECT_EQ(EnvString(EnvVar::kLog), "warning");
  ScopedEnv set("HALYARD_LOG", "debug");
  EXPECT_EQ(EnvString(EnvVar::kLog), "debug");
}

TEST(Env, Flags) {
  unsetenv("HALYARD_VALIDATE");
  EXPECT_FALSE(EnvFlag(EnvVar::kValidate));
  for (const char* off : {"", "0", "false", "off", "no"}) {
    ScopedEnv env("HALYARD_VALIDATE", off);
    EXPECT_FALSE(EnvFlag(EnvVar::kValidate)) << off;
  }
  for (const char* on : {"1", "true", "yes", "2"}) {
    ScopedEnv env("HALYARD_VALIDATE", on);
    EXPECT_TRUE(EnvFlag(EnvVar::kValidate)) << on;
  }
}

TEST(Env, NumbersOutsideTheRangeAreIgnored) {
  unsetenv("HALYARD_THREADS");
  EXPECT_EQ(EnvInt(EnvVar::kThreads, 7, 0, 100), 0);  // the table's default
  for (const char* bad : {"x", "12x", "-1", "101", "99999999999999999999", "1.5"}) {
    ScopedEnv env("HALYARD_THREADS", bad);
    EXPECT_EQ(EnvInt(EnvVar::kThreads, 7, 0, 100), 7) << bad;
  }
  ScopedEnv env("HALYARD_THREADS", "12");
  EXPECT_EQ(EnvInt(EnvVar::kThreads, 7, 0, 100), 12);
}

TEST(Env, DocumentIsCurrent) {
  std::string path = HALYARD_SOURCE_DIR "/docs/environment.md";
  if (EnvFlag(EnvVar::kBless)) std::ofstream(path) << FormatEnvTable();
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  EXPECT_EQ(text.str(), FormatEnvTable()) << "Run base_tests with HALYARD_BLESS=1.";
}

}  // namespace
}  // namespace halyard
