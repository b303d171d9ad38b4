// SPDX-License-Identifier: Apache-2.0
// The named CPU targets and the hash of a target.
#include "compiler/target/target.h"

#include "base/cpu_kernel_abi.h"
#include "base/gpu_kernel_abi.h"
#include "base/hash.h"

namespace halyard {
namespace {

constexpr uint64_t Bit(CpuFeature feature) { return static_cast<uint64_t>(feature); }
constexpr uint64_t Bit(GpuFeature feature) { return static_cast<uint64_t>(feature); }

struct NamedTarget {
  std::string_view name;
  uint64_t features;
  int32_t vector_bytes;
  int32_t vector_registers;
  std::string_view cpu_name;
};
constexpr uint64_t kSse42Bits = Bit(CpuFeature::kSse42);
constexpr uint64_t kAvx2Bits = kSse42Bits | Bit(CpuFeature::kAvx2);
constexpr uint64_t kAvx512Bits = kAvx2Bits | Bit(CpuFeature::kAvx512);
constexpr NamedTarget kNamedTargets[] = {
    {"cpu-sse4.2", kSse42Bits, 16, 16, "x86-64-v2"},
    {"cpu-avx2", kAvx2Bits, 32, 16, "x86-64-v3"},
    {"cpu-avx512", kAvx512Bits, 64, 32, "x86-64-v4"},
};

constexpr uint64_t kCommonGpuBits =
    Bit(GpuFeature::kInt8) | Bit(GpuFeature::kInt16) | Bit(GpuFeature::kInt64) |
    Bit(GpuFeature::kFloat16) | Bit(GpuFeature::kFloat64) | Bit(GpuFeature::kStorage8) |
    Bit(GpuFeature::kStorage16) | Bit(GpuFeature::kWorkgroupStorage8) |
    Bit(GpuFeature::kWorkgroupStorage16) | Bit(GpuFeature::kAtomicInt64) |
    Bit(GpuFeature::kFloatControls) | Bit(GpuFeature::kDenormPreserve) | Bit(GpuFeature::kFma);

struct NamedGpu {
  std::string_view name;
  int32_t compute_capability;  // 0: Vulkan
  uint64_t features;
  int32_t subgroup_size;
  int64_t workgroup_memory_bytes;  // one workgroup may have
  int32_t unit_count;
  int64_t max_loop_iterations = INT64_MAX;
};
constexpr uint64_t kSm75Bits = kCommonGpuBits | Bit(GpuFeature::kMatrix);
constexpr uint64_t kSm80Bits = kSm75Bits | Bit(GpuFeature::kAsyncCopy) | Bit(GpuFeature::kBFloat16);
constexpr uint64_t kSm90Bits = kSm80Bits | Bit(GpuFeature::kDependentLaunch);
constexpr NamedGpu kNamedGpus[] = {
    {"cuda-sm75", 75, kSm75Bits, 32, 64 << 10, 40},
    {"cuda-sm80", 80, kSm80Bits, 32, 163 << 10, 108},
    {"cuda-sm90", 90, kSm90Bits, 32, 227 << 10, 132},
    {"vulkan-4", 0, kCommonGpuBits, 4, 32 << 10, 0},
    {"vulkan-8", 0, kCommonGpuBits, 8, 32 << 10, 0},
    {"vulkan-16", 0, kCommonGpuBits, 16, 32 << 10, 0},
    {"vulkan-32", 0, kCommonGpuBits, 32, 32 << 10, 0},
    {"llvmpipe-8", 0, kCommonGpuBits, 8, 32 << 10, 0, kLlvmpipeLoopIterations},
};

Target TargetOf(const NamedGpu& named) {
  Target target;
  target.name = named.name;
  target.kind = named.compute_capability > 0 ? TargetKind::kCuda : TargetKind::kVulkan;
  target.gpu.compute_capability = named.compute_capability;
  target.gpu.features = named.features;
  target.gpu.subgroup_size = named.subgroup_size;
  target.gpu.max_workgroup_size = 1024;
  target.gpu.workgroup_memory_bytes = named.workgroup_memory_bytes;
  target.gpu.max_grid[0] = named.compute_capability > 0 ? INT32_MAX : 65535;
  target.gpu.max_grid[1] = target.gpu.max_grid[2] = 65535;
  target.gpu.unit_count = named.unit_count;
  target.gpu.max_loop_iterations = named.max_loop_iterations;
  if (named.compute_capability >= 75) {
    target.gpu.matrix_shapes = CudaMatrixShapes(named.compute_capability);
  }
  target.buffer_alignment = 256;
  return target;
}

}  // namespace

std::vector<MatrixShape> CudaMatrixShapes(int32_t compute_capability) {
  std::vector<MatrixShape> shapes;
  if (compute_capability < 75) return shapes;
  shapes.push_back({DType::kF16, DType::kF32, 16, 16, 16});
  shapes.push_back({DType::kI8, DType::kI32, 16, 16, 32});
  if (compute_capability >= 80) shapes.push_back({DType::kBF16, DType::kF32, 16, 16, 16});
  return shapes;
}

uint64_t Target::CodeHash() const {
  std::string text =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(kind), triple, cpu_name,
                  cpu_features, vector_bytes, vector_registers, worker_count, l1_bytes, l2_bytes,
                  l3_bytes, buffer_alignment, max_buffer_bytes);
  if (kind != TargetKind::kCpu) {
    text += fmt::format("|{}|{}|{}|{}|{}|{}|{}|{}|{}", gpu.compute_capability, gpu.features,
                        gpu.subgroup_size, gpu.max_workgroup_size, gpu.workgroup_memory_bytes,
                        gpu.max_grid[0], gpu.max_grid[1], gpu.max_grid[2], gpu.unit_count);
    if (gpu.max_loop_iterations != INT64_MAX) {
      text += fmt::format("|loops {}", gpu.max_loop_iterations);
    }
    for (const MatrixShape& shape : gpu.matrix_shapes) {
      text += fmt::format("|{} {} {}x{}x{}", FormatDType(shape.input),
                          FormatDType(shape.accumulator), shape.m, shape.n, shape.k);
    }
  }
  return HashString(text);
}

Result<Target> ParseTarget(std::string_view name) {
  std::string known;
  for (const NamedTarget& named : kNamedTargets) {
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", named.name);
    if (named.name != name) continue;
    Target target;
    target.name = named.name;
    target.cpu_name = named.cpu_name;
    target.cpu_features = named.features;
    target.vector_bytes = named.vector_bytes;
    target.vector_registers = named.vector_registers;
    return target;
  }
  for (const NamedGpu& named : kNamedGpus) {
    known += fmt::format(", '{}'", named.name);
    if (named.name == name) return TargetOf(named);
  }
  return NotFound("There is no target '{}'; known are {}.", name, known);
}

}  // namespace halyard
