// SPDX-License-Identifier: Apache-2.0
// Which devices "auto" leaves out because an earlier one is the same chip.
#include "runtime/silicon.h"

#include <gtest/gtest.h>

namespace halyard::runtime {
namespace {

TEST(LeaveOutSeen, OneChipIsTakenOnce) {
  const std::vector<hal::DeviceInfo> seen = {{"cpu:0", "CPU", "77", ""},
                                             {"cuda:0", "GPU", "aa-1", ""},
                                             {"cuda:1", "GPU", "aa-2", "broken"}};
  std::vector<hal::DeviceInfo> devices = {{"vulkan:0", "GPU", "aa-1", ""},
                                          {"vulkan:1", "GPU", "aa-2", ""},
                                          {"vulkan:2", "GPU", "bb-1", ""},
                                          {"vulkan:3", "the same by another driver", "bb-1", ""},
                                          {"vulkan:4", "no UUID", "", ""},
                                          {"vulkan:5", "no UUID", "", ""},
                                          {"vulkan:6", "zeros", "00-0", ""},
                                          {"vulkan:7", "zeros", "00-0", ""},
                                          {"vulkan:8", "GPU", "aa-1", "software"}};
  LeaveOutSeen(seen, devices);
  EXPECT_EQ(devices[0].left_out, "it is the same silicon as 'cuda:0'");
  EXPECT_EQ(devices[1].left_out, "");  // the one before is left out itself
  EXPECT_EQ(devices[2].left_out, "");
  EXPECT_EQ(devices[3].left_out, "it is the same silicon as 'vulkan:2'");
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(devices[i].left_out, "") << i;
  EXPECT_EQ(devices[8].left_out, "software");
}

TEST(ClosedDevices, TheNextWayToTheChipTakesThePlace) {
  ClosedDevices closed;
  const auto same_as = [](const std::string& path) {
    return hal::DeviceInfo{"vulkan:0", "GPU", "aa-1", "it is the same silicon as '" + path + "'"};
  };
  EXPECT_FALSE(closed.AreReplacedBy(same_as("cuda:0")));
  closed.Add("cuda:0");
  EXPECT_FALSE(closed.AreReplacedBy(same_as("cuda:1")));
  EXPECT_FALSE(closed.AreReplacedBy({"vulkan:1", "GPU", "aa-1", "it is synthetic"}));
  EXPECT_TRUE(closed.AreReplacedBy(same_as("cuda:0")));
  EXPECT_FALSE(closed.AreReplacedBy(same_as("cuda:0")));  // one is enough
}

}  // namespace
}  // namespace halyard::runtime
