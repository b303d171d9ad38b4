// SPDX-License-Identifier: Apache-2.0
// What a CPU is said to be, from an hwloc fixture and a folder in place of /proc and /sys.
#include "drivers/cpu/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "drivers/cpu/code_name.h"
#include "tests/drivers/golden.h"

namespace halyard::drivers::cpu {
namespace {

class CpuCapabilitiesTest : public testing::Test {
 protected:
  CpuCapabilitiesTest() {
    std::string name = testing::TempDir() + "/halyard_cpu_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~CpuCapabilitiesTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  CpuDescription Describe(const std::string& fixture) const {
    CpuDescription cpu;
    cpu.id.vendor = "GenuineIntel";
    cpu.id.brand = "Fixture 1234";
    cpu.id.family = 6;
    cpu.id.model = 143;
    cpu.id.stepping = 8;
    cpu.features = KnownCpuFeatures();
    TopologySource source;
    source.hwloc_xml_path = HALYARD_SOURCE_DIR "/tests/drivers/cpu/topologies/" + fixture;
    source.cgroup_root = root_;
    source.cgroup_membership_path = root_ + "/membership";
    cpu.topology = ReadTopology(source).value();
    cpu.worker_count = cpu.topology.WorkerCount(0);
    cpu.memory_limit_bytes = int64_t{60} << 30;
    return cpu;
  }
  std::string root_;
};

// Of the machine that runs the test.
bool IsOfFixture(const hal::FieldView& field) {
  for (const char* name : {"identity.architecture", "identity.driver_version", "identity.c_library",
                           "memory.page_bytes"}) {
    if (field.name == name) return false;
  }
  return true;
}

TEST_F(CpuCapabilitiesTest, GoldenOfTwoPackages) {
  Write("/proc/meminfo",
        "MemTotal:       67108864 kB\nMemAvailable:   50331648 kB\nHugepagesize:       2048 kB");
  Write("/proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0x2b000590\nflags\t\t: fpu nonstop_tsc\n");
  Write("/etc/machine-id", "0123456789abcdef0123456789abcdef");
  Write("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000");
  Write("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2100000");
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  Write("/sys/devices/system/edac/mc/mc0/mc_name", "EDAC");
  Write("/proc/sys/kernel/perf_event_paranoid", "2");
  const hal::Capabilities capabilities =
      DescribeCpu(Describe("two_packages_smt.xml"), SystemFiles(root_));
  // Numbers only: the rest of a kernel's name tells whose it is.
  EXPECT_THAT(capabilities.identity.driver_version.value,
              testing::MatchesRegex("[A-Za-z]+ [0-9.]+"));
  ExpectGolden("tests/drivers/cpu/goldens/two_packages_smt.txt",
               FormatFields(capabilities, IsOfFixture));
}

// One number can be several chips, which the stepping tells apart; another vendor's is none of
// them.
TEST(CodeName, FollowsFamilyModelAndStepping) {
  const auto name_of = [](const char* vendor, uint32_t family, uint32_t model, uint32_t stepping) {
    CpuId id;
    id.vendor = vendor;
    id.family = family;
    id.model = model;
    id.stepping = stepping;
    return CodeNameOf(id);
  };
  EXPECT_EQ(name_of("GenuineIntel", 6, 85, 4), "Skylake-SP");
  EXPECT_EQ(name_of("GenuineIntel", 6, 85, 7), "Cascade Lake");
  EXPECT_EQ(name_of("GenuineIntel", 6, 85, 11), "Cooper Lake");
  EXPECT_EQ(name_of("GenuineIntel", 6, 85, 12), "");
  EXPECT_EQ(name_of("GenuineIntel", 6, 207, 2), "Emerald Rapids (Raptor Cove)");
  EXPECT_EQ(name_of("AuthenticAMD", 25, 1, 1), "Milan (Zen 3)");
  EXPECT_EQ(name_of("AuthenticAMD", 26, 2, 1), "Turin (Zen 5)");
  EXPECT_EQ(name_of("AuthenticAMD", 6, 85, 4), "");
  EXPECT_EQ(name_of("Unknown", 6, 85, 4), "");
}

// As a virtual machine has it whose numbers are not those of its processor.
TEST(CodeName, IsUnknownWhereTheChipHasNoSuchFeatures) {
  CpuId id;
  id.vendor = "GenuineIntel";
  id.family = 6;
  id.model = 167;
  EXPECT_EQ(CodeNameOf(id), "Rocket Lake (Cypress Cove)");
  id.features = static_cast<uint64_t>(CpuFeature::kAmxTile);
  EXPECT_EQ(CodeNameOf(id), "");
  id.model = 143;
  EXPECT_EQ(CodeNameOf(id), "Sapphire Rapids (Golden Cove)");
}

TEST_F(CpuCapabilitiesTest, WithoutFilesMuchIsUnknown) {
  const hal::Capabilities capabilities =
      DescribeCpu(Describe("four_cores_no_caches.xml"), SystemFiles(root_));
  EXPECT_TRUE(capabilities.caches.empty());
  EXPECT_FALSE(capabilities.compute.max_clock_hz.known());
  EXPECT_FALSE(capabilities.memory.total_bytes.known());
  EXPECT_FALSE(capabilities.identity.uuid.known());
  EXPECT_EQ(capabilities.compute.unit_count.value, 4);
  const hal::DeviceState state = ReadCpuState(SystemFiles(root_));
  hal::VisitFields(state, [](const hal::FieldView& field) {
    EXPECT_EQ(field.source, hal::Source::kUnknown) << field.name;
  });
}

TEST_F(CpuCapabilitiesTest, State) {
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const std::string folder = std::string("/sys/devices/system/cpu/") + cpu;
    Write(folder + "/cpufreq/scaling_cur_freq", cpu[3] == '0' ? "2000000" : "3000000");
    Write(folder + "/cpufreq/scaling_governor", "powersave");
    Write(folder + "/thermal_throttle/core_throttle_count", "2");
  }
  Write("/sys/devices/system/cpu/cpufreq/ignored", "1");
  Write("/proc/loadavg", "1.50 1.00 0.50 2/300 12345");
  // The group itself, and its container's.
  Write("/proc/self/cgroup", "0::/box/job");
  Write("/sys/fs/cgroup/box/cpu.stat",
        "usage_usec 9\nnr_periods 90\nnr_throttled 3\nthrottled_usec 250000");
  Write("/sys/fs/cgroup/box/job/cpu.stat",
        "nr_periods 90\nnr_throttled 2\nthrottled_usec 500000\nnr_bursts 7");
  Write("/sys/fs/cgroup/cpu.stat", "usage_usec 9\nuser_usec 9");
  Write("/sys/devices/system/edac/mc/mc0/ce_count", "3");
  Write("/sys/devices/system/edac/mc/mc1/ce_count", "4");
  Write("/sys/devices/system/edac/mc/mc1/ue_count", "1");
  Write("/sys/class/thermal/thermal_zone0/type", "acpitz");
  Write("/sys/class/thermal/thermal_zone0/temp", "20000");
  Write("/sys/class/thermal/thermal_zone1/type", "x86_pkg_temp");
  Write("/sys/class/thermal/thermal_zone1/temp", "61000");
  const hal::DeviceState state = ReadCpuState(SystemFiles(root_));
  EXPECT_EQ(state.clock_hz.value, 2500000000);
  EXPECT_EQ(state.performance_state.value, "powersave");
  EXPECT_EQ(state.throttle_reasons.value, "heat, 4 times since the start");
  EXPECT_DOUBLE_EQ(state.load_average.value, 1.5);
  EXPECT_DOUBLE_EQ(state.temperature_c.value, 61);
  EXPECT_FALSE(state.energy_j.known());
  EXPECT_EQ(state.corrected_memory_errors.value, 7);
  EXPECT_EQ(state.uncorrected_memory_errors.value, 1);
  EXPECT_EQ(state.quota_pauses.value, 5);
  EXPECT_DOUBLE_EQ(state.quota_paused_s.value, 0.75);
}

TEST_F(CpuCapabilitiesTest, PausesUnderVersion1) {
  Write("/proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/box");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.stat",
        "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000");
  std::filesystem::create_directory_symlink("cpu,cpuacct", root_ + "/sys/fs/cgroup/cpu");
  const hal::DeviceState state = ReadCpuState(SystemFiles(root_));
  EXPECT_EQ(state.quota_pauses.value, 4);
  EXPECT_DOUBLE_EQ(state.quota_paused_s.value, 1.5);
}

}  // namespace
}  // namespace halyard::drivers::cpu
