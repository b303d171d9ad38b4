// SPDX-License-Identifier: Apache-2.0
// Target: the plain numbers that the compiler must know about the machine it compiles for. Filled
// by the runtime from a HAL device, from a name ("cpu", "cpu-avx2") or from a file; never includes
// the HAL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace halyard {

enum class TargetKind : uint8_t { kCpu, kCuda, kVulkan };

// A shape of the device's matrix units, one subgroup wide: C[m,n] (accumulator) += A[m,k] * B[k,n]
// (input).
struct MatrixShape {
  DType input = DType::kInvalid;
  DType accumulator = DType::kInvalid;
  int32_t m = 0, n = 0, k = 0;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

// What generated code may use and must not exceed on a GPU.
struct GpuTarget {
  int32_t compute_capability = 0;  // CUDA: 90 for 9.0; others: 0
  uint64_t features = 0;           // GpuFeature bits (base/gpu_kernel_abi.h)
  int32_t subgroup_size = 0;       // the one that kernels are compiled for
  int32_t max_workgroup_size = 0;  // workitems
  int64_t workgroup_memory_bytes = 0;
  int64_t max_grid[3] = {0, 0, 0};
  int32_t unit_count = 0;  // SMs; 0: unknown
  // Of all loops of one workitem together: the device ends them after so many and goes on behind
  // them. INT64_MAX: it does not.
  int64_t max_loop_iterations = INT64_MAX;
  std::vector<MatrixShape> matrix_shapes;
  friend bool operator==(const GpuTarget&, const GpuTarget&) = default;
};

// Of llvmpipe, Mesa's software device (LP_MAX_TGSI_LOOP_ITERATIONS in its sources); its API does
// not tell.
inline constexpr int64_t kLlvmpipeLoopIterations = 65535;

struct Target {
  TargetKind kind = TargetKind::kCpu;
  std::string name = "cpu";  // of the device it was made for; goes into reports only
  // CPU
  std::string triple = "x86_64-unknown-linux-gnu";
  std::string cpu_name;           // LLVM's name for tuning; empty: generic
  uint64_t cpu_features = 0;      // CpuFeature bits (base/cpu_kernel_abi.h)
  int32_t vector_bytes = 16;      // 16, 32 or 64
  int32_t vector_registers = 16;  // 16 or 32
  int32_t worker_count = 1;       // tasks that really run at once
  int64_t l1_bytes = 32 << 10;    // data cache of one core
  int64_t l2_bytes = 1 << 20;     // per core
  int64_t l3_bytes = 0;           // shared; 0: none or unknown
  GpuTarget gpu;                  // kCuda and kVulkan
  // Every kind
  int64_t buffer_alignment = 64;
  int64_t max_buffer_bytes = INT64_MAX;

  // Numbers that generated code depends on; part of every cache key.
  uint64_t CodeHash() const;
};

// The fragment shapes that our code for CUDA builds from mma.sync on that architecture.
std::vector<MatrixShape> CudaMatrixShapes(int32_t compute_capability);

// "cpu-sse4.2", "cpu-avx2", "cpu-avx512": a CPU target with that instruction set and common cache
// sizes. "cuda-sm75", "cuda-sm80", "cuda-sm90": a GPU of that architecture. "vulkan-4", "vulkan-8",
// "vulkan-16", "vulkan-32": a Vulkan device without matrix units and with that subgroup size, 32
// KiB of workgroup memory and every GpuFeature but matrix units; "llvmpipe-8": the same that ends
// loops as Mesa's software device does.
Result<Target> ParseTarget(std::string_view name);

}  // namespace halyard
