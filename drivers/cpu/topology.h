// SPDX-License-Identifier: Apache-2.0
// The processors that this process may really use: hwloc's picture of the machine, cut down by
// affinity, cpuset and CPU quota. It binds nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::cpu {

// Where the picture comes from; the defaults are this machine and this process, tests name files.
struct TopologySource {
  std::string hwloc_xml_path;  // empty: ask the running system
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string cgroup_membership_path = "/proc/self/cgroup";
  std::optional<std::vector<int>> affinity;  // CPU numbers; unset: sched_getaffinity of the process
  int64_t numa = -1;                         // keep this NUMA node (number of the system) only
};

struct CacheTopology {
  int32_t level = 0;
  int64_t size_bytes = 0;      // 0: hwloc does not know
  int64_t line_bytes = 0;      // 0: unknown
  int64_t ways = 0;            // 0 or less: unknown
  int64_t instance_count = 0;  // of the machine
  int64_t threads_per_instance = 0;
};

struct NumaTopology {
  uint32_t os_index = 0;
  int64_t memory_bytes = 0;
  int64_t core_count = 0;
  std::vector<int> cpus;           // CPU numbers
  std::vector<int64_t> distances;  // empty: unknown
  // From its own cores, as the firmware says (HMAT); 0: unknown.
  double bytes_per_s = 0, latency_ns = 0;
};

struct CpuTopology {
  int64_t package_count = 0;
  int64_t core_count = 0;          // of the machine
  int64_t thread_count = 0;        // of the machine
  std::vector<int> allowed_cpus;   // CPU numbers left by affinity, cpuset and the NUMA choice
  int64_t allowed_core_count = 0;  // cores with at least one of them
  std::optional<double> quota_threads;
  std::optional<int64_t> memory_limit_bytes;
  std::vector<CacheTopology> caches;  // data and unified, from level 1
  std::vector<NumaTopology> numa_nodes;
  std::string core_kinds;  // "8 x Performance, 4 x Efficiency"; empty: all alike, or unknown
  std::vector<std::string> notes;  // one sentence per limit that applies

  // Tasks to run at once: one per allowed core, or `asked` up to one per allowed CPU; never more
  // than the quota rounded up, never less than 1.
  int64_t WorkerCount(int64_t asked) const;
};

// NOT_FOUND for a NUMA node that is not there; UNAVAILABLE when hwloc cannot read the machine or no
// CPU is left.
Result<CpuTopology> ReadTopology(const TopologySource& source);

}  // namespace halyard::drivers::cpu
