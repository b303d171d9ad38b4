// SPDX-License-Identifier: Apache-2.0
// What the process may use: hwloc fixtures, affinity, and control groups in a folder of the test.
#include "drivers/cpu/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "drivers/cpu/cgroup.h"

namespace halyard::drivers::cpu {
namespace {

const std::string kTopologies = HALYARD_SOURCE_DIR "/tests/drivers/cpu/topologies/";

// A cgroup hierarchy in a temporary folder.
class TopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hy-cgroup-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path full = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  TopologySource Source(const std::string& xml) {
    TopologySource source;
    source.hwloc_xml_path = kTopologies + xml;
    source.cgroup_root = root_;
    source.cgroup_membership_path = root_ + "/membership";
    return source;
  }
  CpuTopology Read(const TopologySource& source) {
    Result<CpuTopology> topology = ReadTopology(source);
    EXPECT_TRUE(topology.ok()) << topology.status().ToString();
    return topology.ok() ? *topology : CpuTopology();
  }

  std::string root_;
};

TEST_F(TopologyTest, ReadsTheWholeMachine) {
  CpuTopology topology = Read(Source("two_packages_smt.xml"));
  EXPECT_EQ(topology.package_count, 2);
  EXPECT_EQ(topology.core_count, 8);
  EXPECT_EQ(topology.thread_count, 16);
  EXPECT_EQ(topology.allowed_cpus.size(), 16u);
  EXPECT_EQ(topology.allowed_core_count, 8);
  EXPECT_EQ(topology.WorkerCount(0), 8);
  EXPECT_EQ(topology.WorkerCount(3), 3);
  EXPECT_EQ(topology.WorkerCount(100), 16);
  ASSERT_EQ(topology.caches.size(), 3u);
  EXPECT_EQ(topology.caches[0].size_bytes, 49152);
  EXPECT_EQ(topology.caches[1].size_bytes, 2097152);
  EXPECT_EQ(topology.caches[2].instance_count, 2);
  EXPECT_EQ(topology.caches[2].threads_per_instance, 8);
  ASSERT_EQ(topology.numa_nodes.size(), 2u);
  EXPECT_EQ(topology.numa_nodes[1].memory_bytes, 34359738368);
  EXPECT_EQ(topology.numa_nodes[1].core_count, 4);
  EXPECT_TRUE(topology.notes.empty());
}

TEST_F(TopologyTest, MissingCachesStayUnknown) {
  CpuTopology topology = Read(Source("four_cores_no_caches.xml"));
  EXPECT_TRUE(topology.caches.empty());
  EXPECT_EQ(topology.WorkerCount(0), 4);
}

TEST_F(TopologyTest, AffinityCountsCoresNotThreads) {
  TopologySource source = Source("two_packages_smt.xml");
  source.affinity = std::vector<int>{0, 1, 2, 9};
  CpuTopology topology = Read(source);
  EXPECT_EQ(topology.allowed_cpus, (std::vector<int>{0, 1, 2, 9}));
  EXPECT_EQ(topology.allowed_core_count, 3);
  EXPECT_EQ(topology.WorkerCount(0), 3);
  EXPECT_EQ(topology.WorkerCount(9), 4);
  ASSERT_EQ(topology.notes.size(), 1u);
  EXPECT_EQ(topology.notes[0], "The CPU affinity of the process leaves 4 of 16 CPUs.");
  source.affinity = std::vector<int>{99};
  EXPECT_EQ(ReadTopology(source).status().code(), StatusCode::kUnavailable);
}

TEST_F(TopologyTest, QuotaOfVersion2) {
  Write("membership", "0::/a/b\n");
  Write("a/b/cpu.max", "max 100000\n");
  Write("a/cpu.max", "150000 100000\n");
  Write("a/memory.max", "1073741824\n");
  Write("a/b/memory.max", "max\n");
  CpuTopology topology = Read(Source("two_packages_smt.xml"));
  EXPECT_DOUBLE_EQ(topology.quota_threads.value(), 1.5);
  EXPECT_EQ(topology.WorkerCount(0), 2);
  EXPECT_EQ(topology.WorkerCount(8), 2);
  EXPECT_EQ(topology.memory_limit_bytes.value(), 1073741824);
  EXPECT_EQ(topology.allowed_cpus.size(), 16u);
}

TEST_F(TopologyTest, QuotaBelowOneStillLeavesOneWorker) {
  Write("membership", "0::/\n");
  Write("cpu.max", "50000 100000\n");
  EXPECT_EQ(Read(Source("two_packages_smt.xml")).WorkerCount(0), 1);
}

TEST_F(TopologyTest, QuotaAndSetOfVersion1) {
  Write("membership", "5:cpu,cpuacct:/job\n4:cpuset:/job\n3:memory:/hidden/path\n");
  Write("cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  Write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  Write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("cpuset/job/cpuset.cpus", "0-3,12\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  CpuTopology topology = Read(Source("two_packages_smt.xml"));
  EXPECT_DOUBLE_EQ(topology.quota_threads.value(), 3.0);
  EXPECT_EQ(topology.allowed_cpus, (std::vector<int>{0, 1, 2, 3, 12}));
  EXPECT_EQ(topology.allowed_core_count, 3);
  EXPECT_EQ(topology.WorkerCount(0), 3);
  EXPECT_EQ(topology.WorkerCount(5), 3);
  EXPECT_FALSE(topology.memory_limit_bytes.has_value());
  EXPECT_EQ(topology.notes.size(), 2u);
}

TEST_F(TopologyTest, SetOfVersion2IntersectsAffinity) {
  Write("membership", "0::/x\n");
  Write("x/cpuset.cpus.effective", "2-5\n");
  TopologySource source = Source("two_packages_smt.xml");
  source.affinity = std::vector<int>{0, 1, 2, 3};
  EXPECT_EQ(Read(source).allowed_cpus, (std::vector<int>{2, 3}));
}

TEST_F(TopologyTest, OddFilesAreNoLimit) {
  Write("membership", "nonsense\n0::relative\n7:cpu\n");
  Write("cpu.max", "many 0\n");
  Write("memory.max", "-5\n");
  Write("cpuset.cpus.effective", "9-2\n");
  CpuTopology topology = Read(Source("two_packages_smt.xml"));
  EXPECT_FALSE(topology.quota_threads.has_value());
  EXPECT_FALSE(topology.memory_limit_bytes.has_value());
  EXPECT_EQ(topology.allowed_cpus.size(), 16u);
}

TEST_F(TopologyTest, OneNumaNode) {
  TopologySource source = Source("two_packages_smt.xml");
  source.numa = 1;
  CpuTopology topology = Read(source);
  EXPECT_EQ(topology.allowed_cpus, (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(topology.WorkerCount(0), 4);
  source.numa = 2;
  EXPECT_EQ(ReadTopology(source).status().message(), "There is no NUMA node 2; the machine has 2.");
}

TEST_F(TopologyTest, BadFixtureIsAStatus) {
  EXPECT_EQ(ReadTopology(Source("missing.xml")).status().code(), StatusCode::kUnavailable);
}

TEST_F(TopologyTest, ThisMachine) {
  Result<CpuTopology> topology = ReadTopology(TopologySource());
  ASSERT_TRUE(topology.ok()) << topology.status().ToString();
  EXPECT_GE(topology->thread_count, static_cast<int64_t>(topology->allowed_cpus.size()));
  EXPECT_GE(topology->WorkerCount(0), 1);
}

TEST(CpuList, ParsesAndRefuses) {
  EXPECT_EQ(ParseCpuList("").value(), std::vector<int>());
  EXPECT_EQ(ParseCpuList("3").value(), std::vector<int>{3});
  EXPECT_EQ(ParseCpuList("0-2,7").value(), (std::vector<int>{0, 1, 2, 7}));
  for (const char* bad : {"a", "1-", "-1", "3-1", "0-99999999", "1,,2", "0-65535,0-65535"}) {
    EXPECT_FALSE(ParseCpuList(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace halyard::drivers::cpu
