// SPDX-License-Identifier: Apache-2.0
#include "hal/registry.h"

#include <gtest/gtest.h>

#include "drivers/init.h"

namespace halyard::hal {
namespace {

TEST(DevicePath, RoundTrips) {
  for (const char* text : {"cpu:0", "cuda:3", "cpu:0?threads=2&discrete=7", "x:1?a="}) {
    Result<DevicePath> path = ParseDevicePath(text);
    ASSERT_TRUE(path.ok()) << path.status().ToString();
    EXPECT_EQ(FormatDevicePath(*path), text);
  }
  EXPECT_EQ(FormatDevicePath(ParseDevicePath("cpu").value()), "cpu:0");
}

TEST(DevicePath, BadPathsSayWhatIsExpected) {
  for (const char* text :
       {"", ":0", "?a=b", "cpu:", "cpu:x", "cpu:-1", "cpu:99999999999", "cpu?threads", "cpu?=1"}) {
    Result<DevicePath> path = ParseDevicePath(text);
    EXPECT_EQ(path.status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(DevicePath, LongOnesAreNotRepeatedWhole) {
  const std::string name(4000, 'x');
  DriverRegistry registry;
  ASSERT_TRUE(RegisterAllDrivers(&registry).ok());
  for (const std::string& text :
       {name, ":" + name, "cpu:" + name, "cpu?" + name, "cpu?a=" + name}) {
    const std::string why = registry.OpenDevice(text).status().ToString();
    EXPECT_LT(why.size(), 400u) << why;
    EXPECT_NE(why.find("bytes)"), std::string::npos) << why;
  }
}

TEST(DriverRegistry, OpensOnceAndRemembersFailures) {
  DriverRegistry registry;
  int opened = 0;
  ASSERT_TRUE(registry
                  .Register("broken",
                            [&]() -> Result<Ref<Driver>> {
                              ++opened;
                              return Unavailable("libbroken.so is missing.");
                            })
                  .ok());
  EXPECT_EQ(registry.Register("broken", nullptr).code(), StatusCode::kInvalidArgument);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(registry.Open("broken").status().message(), "libbroken.so is missing.");
  }
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(registry.Open("other").status().ToString(),
            "INVALID_ARGUMENT: There is no driver 'other'; this build has: broken.");
}

TEST(DriverRegistry, AllDrivers) {
  DriverRegistry registry;
  ASSERT_TRUE(RegisterAllDrivers(&registry).ok());
  EXPECT_EQ(registry.names().front(), "cpu");
  ASSERT_TRUE(registry.Open("cpu").ok());
  EXPECT_TRUE(registry.Open("cpu").value()->is_listed());
  EXPECT_FALSE(registry.Open("null").value()->is_listed());
  EXPECT_EQ(registry.OpenDevice("cpu:4").status().ToString(),
            "NOT_FOUND: There is no CPU device 4; there is one.\n- While opening device 'cpu:4'");
}

}  // namespace
}  // namespace halyard::hal
