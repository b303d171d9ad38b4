// SPDX-License-Identifier: Apache-2.0
// What /sys tells of a PCI device, from a folder of the test.
#include "hal/pci.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace halyard::hal {
namespace {

class PciTest : public testing::Test {
 protected:
  PciTest() {
    std::string name = testing::TempDir() + "/halyard_pci_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~PciTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/sys/bus/pci/devices/0000:3b:00.0/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::string root_;
};

TEST_F(PciTest, LinkAndNode) {
  Write("max_link_speed", "32.0 GT/s PCIe");
  Write("max_link_width", "16");
  Write("current_link_speed", "2.5 GT/s PCIe");
  Write("current_link_width", "8");
  Write("numa_node", "1");
  Write("local_cpulist", "24-47");
  Links links;
  links.pcie_width_max = {4, Source::kApi};  // told by the vendor: stays
  DescribePci(SystemFiles(root_), "0000:3b:00.0", &links);
  EXPECT_EQ(links.pcie_generation_max.value, 5);
  EXPECT_EQ(links.pcie_generation_max.source, Source::kOs);
  EXPECT_EQ(links.pcie_width_max.value, 4);
  EXPECT_EQ(links.numa_node.value, 1);
  EXPECT_EQ(links.near_cpus.value, "24-47");
  EXPECT_NEAR(links.pcie_peak_bytes_per_s.value, 32e9 / 8 * 128 / 130 * 4, 1);
  DeviceState state;
  ReadPciState(SystemFiles(root_), "0000:3b:00.0", &state);
  EXPECT_EQ(state.pcie_generation.value, 1);
  EXPECT_EQ(state.pcie_width.value, 8);
  EXPECT_FALSE(state.power_w.known());
}

TEST_F(PciTest, Monitor) {
  Write("hwmon/hwmon3/temp1_input", "45000");
  Write("hwmon/hwmon3/power1_average", "120500000");
  Write("hwmon/hwmon3/power1_cap", "300000000");
  Write("hwmon/hwmon3/freq1_input", "2100000000");
  DeviceState state;
  ReadPciState(SystemFiles(root_), "0000:3b:00.0", &state);
  EXPECT_DOUBLE_EQ(state.temperature_c.value, 45);
  EXPECT_DOUBLE_EQ(state.power_w.value, 120.5);
  EXPECT_DOUBLE_EQ(state.power_limit_w.value, 300);
  EXPECT_EQ(state.clock_hz.value, 2100000000);
}

TEST_F(PciTest, WhatIsNotThereStaysUnknown) {
  Write("numa_node", "-1");
  Write("max_link_speed", "Unknown");
  Write("max_link_width", "255");
  Links links;
  DescribePci(SystemFiles(root_), "0000:3b:00.0", &links);
  DescribePci(SystemFiles(root_), "", &links);
  EXPECT_FALSE(links.numa_node.known());
  EXPECT_FALSE(links.pcie_generation_max.known());
  EXPECT_FALSE(links.pcie_width_max.known());
  EXPECT_EQ(PciePeakBytesPerSecond(0, 16), 0);
  EXPECT_EQ(PciePeakBytesPerSecond(99, 16), 0);
  EXPECT_DOUBLE_EQ(PciePeakBytesPerSecond(2, 1), 5e8);
}

}  // namespace
}  // namespace halyard::hal
