// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this process may use: what the processor has and the operating system
// saves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_kernel_abi.h"

namespace halyard::drivers::cpu {

struct CpuId {
  std::string vendor;  // "GenuineIntel"; empty when unknown
  std::string brand;   // "Intel(R) Xeon(R) ..."; empty when unknown
  uint32_t family = 0;
  uint32_t model = 0;
  uint32_t stepping = 0;
  uint64_t features = 0;  // CpuFeature bits
  bool is_hypervised = false;
};

// Asks the kernel for permission to use AMX tiles, once per process; without it AMX counts as
// absent.
CpuId DetectCpu();

// "sse4.2", "avx2", ... of the bits set; bits without a name appear as "bit 17".
std::vector<std::string> FormatCpuFeatures(uint64_t features);
// All bits that have a name.
uint64_t KnownCpuFeatures();

}  // namespace halyard::drivers::cpu
