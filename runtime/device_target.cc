// SPDX-License-Identifier: Apache-2.0
// Translation of capabilities into a target.
#include "runtime/device_target.h"

#include <algorithm>
#include <limits>

#include "base/cpu_kernel_abi.h"
#include "base/gpu_kernel_abi.h"
#include "base/quantity.h"

namespace halyard::runtime {
namespace {

// LLVM's name of the level that the features reach.
std::string_view LevelName(uint64_t features) {
  const auto has = [features](CpuFeature f) { return (features & static_cast<uint64_t>(f)) != 0; };
  if (has(CpuFeature::kAvx512)) return "x86-64-v4";
  if (has(CpuFeature::kAvx2)) return "x86-64-v3";
  if (has(CpuFeature::kSse42)) return "x86-64-v2";
  return "";
}

int32_t Narrow(int64_t value, int32_t lowest) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, lowest, std::numeric_limits<int32_t>::max()));
}

GpuTarget GpuTargetOf(const hal::Capabilities& capabilities) {
  const hal::Compute& compute = capabilities.compute;
  GpuTarget gpu;
  gpu.compute_capability = Narrow(compute.compute_capability.ValueOr(0), 0);
  gpu.features = compute.gpu_features.ValueOr(0);
  gpu.subgroup_size = Narrow(compute.subgroup_size_max.ValueOr(1), 1);
  gpu.max_workgroup_size = Narrow(compute.max_workgroup_size.ValueOr(1), 1);
  gpu.workgroup_memory_bytes = compute.workgroup_memory_bytes.ValueOr(0);
  gpu.max_grid[0] = compute.max_grid_x.ValueOr(1);
  gpu.max_grid[1] = compute.max_grid_y.ValueOr(1);
  gpu.max_grid[2] = compute.max_grid_z.ValueOr(1);
  gpu.unit_count = Narrow(compute.unit_count.ValueOr(0), 0);
  if (capabilities.identity.driver_name.ValueOr("").find("llvmpipe") != std::string::npos) {
    gpu.max_loop_iterations = kLlvmpipeLoopIterations;
  }
  if (gpu.compute_capability > 0) {
    // The driver lists the instructions' shapes; our code builds larger ones from them.
    gpu.matrix_shapes = CudaMatrixShapes(gpu.compute_capability);
    return gpu;
  }
  for (const hal::MatrixShape& shape : capabilities.matrix_shapes) {
    const Result<DType> input = ParseDType(shape.input_dtype);
    const Result<DType> accumulator = ParseDType(shape.output_dtype);
    if (!input.ok() || !accumulator.ok()) continue;  // a number that we have no name for
    gpu.matrix_shapes.push_back({*input, *accumulator, shape.m, shape.n, shape.k});
  }
  return gpu;
}

}  // namespace

Target TargetOf(const hal::Device& device) {
  const hal::Capabilities& capabilities = device.capabilities();
  Target target;
  target.name = device.path();
  const std::string type = std::string(device.path().substr(0, device.path().find(':')));
  if (type == "cuda") target.kind = TargetKind::kCuda;
  if (type == "vulkan") target.kind = TargetKind::kVulkan;
#if defined(__aarch64__)
  target.triple = "aarch64-unknown-linux-gnu";
#endif
  const hal::Compute& compute = capabilities.compute;
  target.cpu_features = compute.cpu_features.ValueOr(target.cpu_features);
  target.cpu_name = LevelName(target.cpu_features);
  target.vector_bytes = Narrow(compute.vector_bytes.ValueOr(target.vector_bytes), 1);
  target.vector_registers = Narrow(compute.vector_registers.ValueOr(target.vector_registers), 1);
  target.worker_count = Narrow(compute.usable_worker_count.ValueOr(target.worker_count), 1);
  for (const hal::Cache& cache : capabilities.caches) {
    if (!cache.size_bytes.known()) continue;
    if (cache.level.value == 1) target.l1_bytes = cache.size_bytes.value;
    if (cache.level.value == 2) target.l2_bytes = cache.size_bytes.value;
    if (cache.level.value == 3) target.l3_bytes = cache.size_bytes.value;
  }
  if (target.kind != TargetKind::kCpu) target.gpu = GpuTargetOf(capabilities);
  target.buffer_alignment = device.buffer_alignment();
  target.max_buffer_bytes =
      capabilities.memory.max_allocation_bytes.ValueOr(target.max_buffer_bytes);
  return target;
}

bool IsHostDevice(const hal::Device& device) {
  return device.path().starts_with("cpu:") &&
         device.capabilities().memory.is_host_memory.ValueOr(false);
}

std::string IdentityOf(const hal::Device& device) {
  const hal::Identity& identity = device.capabilities().identity;
  const int64_t workers = device.capabilities().compute.usable_worker_count.ValueOr(0);
  return fmt::format(
      "{}; {}; driver {} {}{}", identity.name.ValueOr("unknown"),
      identity.uuid.known() ? identity.uuid.value : identity.model_id.ValueOr("unknown"),
      identity.driver_name.ValueOr("unknown"), identity.driver_version.ValueOr("unknown"),
      workers > 0 ? "; " + Counted(workers, "worker") : "");
}

}  // namespace halyard::runtime
