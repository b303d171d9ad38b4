// SPDX-License-Identifier: Apache-2.0
// Target: the plain numbers that the compiler must know about the machine it compiles for. Filled by the
// runtime from a HAL device, from a name ("cpu", "cpu-avx2") or from a file; never includes the HAL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace halyard {

enum class TargetKind : uint8_t { kCpu, kCuda, kVulkan };

struct Target {
  TargetKind kind = TargetKind::kCpu;
  std::string name = "cpu";         // of the device it was made for; goes into reports only
  // CPU
  std::string triple = "x86_64-unknown-linux-gnu";
  std::string cpu_name;             // LLVM's name for tuning; empty: generic
  uint64_t cpu_features = 0;        // CpuFeature bits (base/cpu_kernel_abi.h)
  int32_t vector_bytes = 16;        // 16, 32 or 64
  int32_t vector_registers = 16;    // 16 or 32
  int32_t worker_count = 1;         // tasks that really run at once
  int64_t l1_bytes = 32 << 10;      // data cache of one core
  int64_t l2_bytes = 1 << 20;       // per core
  int64_t l3_bytes = 0;             // shared; 0: none or unknown
  // Every kind
  int64_t buffer_alignment = 64;
  int64_t max_buffer_bytes = INT64_MAX;

  // Numbers that generated code depends on; part of every cache key.
  uint64_t CodeHash() const;
};

// "cpu-sse4.2", "cpu-avx2", "cpu-avx512": a CPU target with that instruction set and common cache sizes.
Result<Target> ParseTarget(std::string_view name);

}  // namespace halyard
