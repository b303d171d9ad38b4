// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process allow: CPU quota, CPU set and memory, under versions 1
// and 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace halyard::drivers::cpu {

struct CgroupLimits {
  std::optional<double> quota_threads;   // CPU seconds per second
  std::string quota_file;                // the file that set it
  std::optional<std::vector<int>> cpus;  // CPU numbers of the operating system
  std::string cpus_file;
  std::optional<int64_t> memory_bytes;
  std::string memory_file;
};

// `root`: where the hierarchies are mounted ("/sys/fs/cgroup"). `membership`: the content of
// /proc/self/cgroup. A limit of any ancestor counts; the tightest wins. Files that are missing or
// odd are no limit, because a container often hides them.
CgroupLimits ReadCgroupLimits(const std::string& root, std::string_view membership);

// How often and how long the CPU quotas of the group and its ancestors have paused it since they
// were made.
struct CgroupPauses {
  int64_t count = 0;   // periods in which a quota was used up
  double seconds = 0;  // of all processors
};
// Nothing where no file tells it.
std::optional<CgroupPauses> ReadCgroupPauses(const std::string& root, std::string_view membership);

// "0-3,8" as numbers. INVALID_ARGUMENT when it is not of that form or names more than 65536 CPUs.
Result<std::vector<int>> ParseCpuList(std::string_view text);

}  // namespace halyard::drivers::cpu
