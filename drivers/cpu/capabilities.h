// SPDX-License-Identifier: Apache-2.0
// Fills hal::Capabilities and hal::DeviceState for the CPU from hwloc, cpuid, /proc and /sys.
#pragma once

#include "base/system_files.h"
#include "drivers/cpu/features.h"
#include "drivers/cpu/options.h"
#include "drivers/cpu/topology.h"
#include "hal/capabilities.h"

namespace halyard::drivers::cpu {

struct CpuDescription {
  CpuId id;
  uint64_t features = 0;  // what this device reports, which tests may narrow
  CpuTopology topology;
  int64_t worker_count = 0;
  int64_t memory_limit_bytes = INT64_MAX;
  CpuOptions options;

  bool has_own_memory() const { return options.discrete != 0 || options.synthetic != 0; }
};

hal::Capabilities DescribeCpu(const CpuDescription& cpu, const SystemFiles& files = SystemFiles());
hal::DeviceState ReadCpuState(const SystemFiles& files = SystemFiles());

// Bytes of main memory and of what is free of it; 0 when the system does not tell.
struct SystemMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
  int64_t huge_page_bytes = 0;
};
SystemMemory ReadSystemMemory(const SystemFiles& files = SystemFiles());

}  // namespace halyard::drivers::cpu
