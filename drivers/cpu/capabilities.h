// SPDX-License-Identifier: Apache-2.0
// Fills hal::Capabilities for the CPU from hwloc, cpuid, /proc and /sys.
#pragma once

#include "drivers/cpu/features.h"
#include "drivers/cpu/topology.h"
#include "hal/capabilities.h"

namespace halyard::drivers::cpu {

// `features`: what this device reports, which tests may narrow.
hal::Capabilities DescribeCpu(const CpuId& id, uint64_t features, const CpuTopology& topology,
                              int64_t worker_count, int64_t queue_count, int64_t memory_limit_bytes,
                              bool is_discrete);

// Bytes of main memory and of what is free of it; 0 when the system does not tell.
struct SystemMemory {
  int64_t total_bytes = 0;
  int64_t available_bytes = 0;
  int64_t huge_page_bytes = 0;
};
SystemMemory ReadSystemMemory();

}  // namespace halyard::drivers::cpu
