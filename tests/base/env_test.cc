// SPDX-License-Identifier: Apache-2.0
// The environment table: lookup rules, and docs/environment.md, which is generated from it.
#include "base/env.h"

#include <gmock/gmock.h>
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
  for (const char* on : {"1", "true", "yes", "on", "ON", "Yes"}) {
    ScopedEnv env("HALYARD_VALIDATE", on);
    EXPECT_TRUE(EnvFlag(EnvVar::kValidate)) << on;
  }
}

TEST(Env, ABadValueTurnsNothingOn) {
  for (const EnvVarInfo& row : EnvTable()) {
    if (row.form != "flag") continue;
    const bool by_default = row.default_value == "1";
    for (const char* bad : {"maybe", "x", "2", "-1", "10", " 1", "1 ", "onn", "o"}) {
      ScopedEnv env(row.name.data(), bad);
      EXPECT_EQ(EnvFlag(row.variable), by_default) << row.name << "=" << bad;
      EXPECT_EQ(CheckEnvironment(),
                std::vector<std::string>{"The environment variable " + std::string(row.name) +
                                         " is '" + bad + "'; it takes 0 or 1, and " +
                                         std::string(row.default_value) + " holds."});
    }
  }
}

TEST(Env, NumbersOutsideTheRangeAreIgnored) {
  unsetenv("HALYARD_THREADS");
  EXPECT_EQ(EnvInt(EnvVar::kThreads), 0);
  EXPECT_EQ(EnvInt(EnvVar::kSpin), 50);
  for (const char* bad : {"x", "12x", "-1", "1000001", "99999999999999999999", "1.5"}) {
    ScopedEnv env("HALYARD_SPIN_US", bad);
    EXPECT_EQ(EnvInt(EnvVar::kSpin), 50) << bad;
  }
  ScopedEnv env("HALYARD_THREADS", "12");
  EXPECT_EQ(EnvInt(EnvVar::kThreads), 12);
}

TEST(Env, MistypedNamesAreTold) {
  // Those that tests or a host may have for themselves are not.
  ScopedEnv test("HALYARD_TEST_DEVICE", "cuda:0"), mine("HALYARD_HOME", "x"),
      library("HALYARD_LIBRARY", "x"), other("HALYAR_LOG", "x"),
      log("HALYARD_FAKE_COMPILER_LOG", "x");
  EXPECT_THAT(CheckEnvironment(), testing::IsEmpty());
  ScopedEnv threads("HALYARD_TREADS", "2"), folder("HALYARD_CACHEDIR", "off");
  EXPECT_THAT(
      CheckEnvironment(),
      testing::UnorderedElementsAre(
          "There is no environment variable HALYARD_TREADS; near it is HALYARD_THREADS.",
          "There is no environment variable HALYARD_CACHEDIR; near it is HALYARD_CACHE_DIR."));
}

TEST(Env, ValuesThatAreNotTakenAreNamed) {
  EXPECT_TRUE(CheckEnvironment().empty());
  ScopedEnv log("HALYARD_LOG", "bogus"), threads("HALYARD_THREADS", "5000"),
      validate("HALYARD_VALIDATE", "maybe"), spin("HALYARD_SPIN_US", "1000000"),
      map("HALYARD_PERF_MAP", "on"), folder("HALYARD_CACHE_DIR", "anything");
  EXPECT_EQ(
      CheckEnvironment(),
      (std::vector<std::string>{
          "The environment variable HALYARD_VALIDATE is 'maybe'; it takes 0 or 1, and 0 holds.",
          "The environment variable HALYARD_LOG is 'bogus'; it takes error, warning, info, "
          "debug or off, and warning holds.",
          "The environment variable HALYARD_THREADS is '5000'; it takes a whole number from 0 "
          "to 4096, and 0 holds."}));
  ScopedEnv words("HALYARD_LOG", "error warning");
  EXPECT_EQ(CheckEnvironment().size(), 3u);
  ScopedEnv good("HALYARD_LOG", "debug");
  EXPECT_EQ(CheckEnvironment().size(), 2u);
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
