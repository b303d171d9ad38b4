// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/spirv/emit.h"

#include "base/gpu_image.h"
#include "compiler/codegen/spirv/lower.h"

namespace halyard::spirv {
namespace {

Status CheckLimits(const kernel::Kernel& kernel, const Target& target) {
  int64_t workitems = 1;
  for (int64_t size : kernel.workgroup_size) {
    if (__builtin_mul_overflow(workitems, size, &workitems)) workitems = INT64_MAX;
  }
  if (workitems > target.gpu.max_workgroup_size) {
    return InvalidArgument("Kernel '{}' has a workgroup of {} workitems; the most on '{}' is {}.",
                           kernel.name, workitems, target.name, target.gpu.max_workgroup_size);
  }
  if (kernel.subgroup_size != 0 && kernel.subgroup_size != target.gpu.subgroup_size) {
    return InvalidArgument("Kernel '{}' relies on subgroups of {}; '{}' has {}.", kernel.name,
                           kernel.subgroup_size, target.name, target.gpu.subgroup_size);
  }
  int64_t bytes = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    if (buffer.space == kernel::MemorySpace::kGlobal) continue;
    const Result<int64_t> own = StorageBytes(buffer.dtype, buffer.elements);
    if (!own.ok() || *own > INT32_MAX) {
      return InvalidArgument(
          "Kernel '{}' has allocation '{}' of {} elements; it must be below 2 "
          "GiB.",
          kernel.name, buffer.name, buffer.elements);
    }
    if (buffer.space == kernel::MemorySpace::kWorkgroup) bytes += (*own + 15) / 16 * 16;
  }
  if (bytes > target.gpu.workgroup_memory_bytes) {
    return InvalidArgument("Kernel '{}' has {} bytes of workgroup memory; the most on '{}' is {}.",
                           kernel.name, bytes, target.name, target.gpu.workgroup_memory_bytes);
  }
  return OkStatus();
}

// Through which one workitem tells the others of its workgroup that they are the last.
kernel::Kernel WithArrivalFlag(kernel::Kernel kernel) {
  for (const kernel::Op& op : kernel.ops) {
    if (op.opcode != kernel::Opcode::kLastArrival) continue;
    kernel::Buffer flag;
    flag.name = "is_last";
    flag.dtype = DType::kI32;
    flag.space = kernel::MemorySpace::kWorkgroup;
    flag.access = kernel::Access::kReadWrite;
    flag.elements = 1;
    kernel.buffers.push_back(std::move(flag));
    break;
  }
  return kernel;
}

}  // namespace

Result<std::vector<uint8_t>> EmitSpirvImage(const kernel::Module& module, const Target& target) {
  if (target.kind != TargetKind::kVulkan) {
    return InvalidArgument("Target '{}' is no Vulkan device; SPIR-V is for Vulkan.", target.name);
  }
  std::vector<std::vector<uint32_t>> words;
  for (const kernel::Kernel& source : module.kernels) {
    const kernel::Kernel kernel = WithArrivalFlag(source);
    HY_TRY(CheckLimits(kernel, target));
    HY_ASSIGN(std::vector<uint32_t> code, KernelLowering(kernel, target).Run());
    words.push_back(std::move(code));
  }
  GpuImage image;
  image.kind = GpuModuleKind::kSpirv;
  for (size_t i = 0; i < words.size(); ++i) {
    const kernel::Kernel& kernel = module.kernels[i];
    GpuKernel entry;
    entry.name = kernel.name;
    entry.module = {reinterpret_cast<const uint8_t*>(words[i].data()), 4 * words[i].size()};
    for (const kernel::Buffer& buffer : kernel.buffers) {
      entry.binding_count += buffer.space == kernel::MemorySpace::kGlobal;
    }
    entry.scalar_count = static_cast<uint32_t>(kernel.scalars.size());
    for (int axis = 0; axis < 3; ++axis) {
      entry.workgroup_size[axis] = static_cast<uint32_t>(kernel.workgroup_size[axis]);
    }
    entry.subgroup_size = static_cast<uint32_t>(kernel.subgroup_size);
    image.kernels.push_back(entry);
  }
  return WriteGpuImage(image);
}

}  // namespace halyard::spirv
