// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/cuda/emit.h"

#include "base/gpu_image.h"
#include "base/parallel.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/codegen/cuda/prelude.h"
#include "compiler/codegen/cuda/writer.h"
#include "compiler/kernel/text.h"

namespace halyard::cuda {
namespace {

bool Has(const Target& target, GpuFeature feature) {
  return (target.gpu.features & static_cast<uint64_t>(feature)) != 0;
}

GpuKernel EntryOf(const kernel::Kernel& kernel, const Target& target) {
  GpuKernel entry;
  entry.name = kernel.name;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    entry.binding_count += buffer.space == kernel::MemorySpace::kGlobal ? 1 : 0;
  }
  entry.scalar_count = static_cast<uint32_t>(kernel.scalars.size());
  for (int axis = 0; axis < 3; ++axis) {
    entry.workgroup_size[axis] = static_cast<uint32_t>(kernel.workgroup_size[axis]);
  }
  entry.subgroup_size = static_cast<uint32_t>(kernel.subgroup_size);
  if (Has(target, GpuFeature::kDependentLaunch) && kernel.begins_early) {
    for (const kernel::Op& op : kernel.ops) {
      if (op.opcode == kernel::Opcode::kAwaitDispatches) entry.flags |= kGpuEntryWaitsItself;
    }
  }
  const int64_t bytes = WorkgroupMemoryBytes(kernel);
  if (bytes > kMostStaticWorkgroupBytes)
    entry.dynamic_workgroup_bytes = static_cast<uint32_t>(bytes);
  return entry;
}

Status CheckLimits(const kernel::Kernel& kernel, const Target& target) {
  const int64_t* size = kernel.workgroup_size;
  const int64_t workitems = size[0] * size[1] * size[2];
  if (workitems > target.gpu.max_workgroup_size) {
    return InvalidArgument(
        "Kernel '{}' has workgroups of {} workitems; target '{}' has at most {}.", kernel.name,
        workitems, target.name, target.gpu.max_workgroup_size);
  }
  const int64_t bytes = WorkgroupMemoryBytes(kernel);
  if (bytes > target.gpu.workgroup_memory_bytes) {
    return InvalidArgument(
        "Kernel '{}' has {} bytes of workgroup memory; target '{}' has at most {}.", kernel.name,
        bytes, target.name, target.gpu.workgroup_memory_bytes);
  }
  return OkStatus();
}

}  // namespace

Result<std::string> EmitCudaKernel(const kernel::Kernel& kernel, const Target& target) {
  return KernelWriter(kernel, target).Run();
}

Result<std::string> EmitCudaSource(std::span<const kernel::Kernel> kernels, const Target& target) {
  bool copies = false;
  bool fragments = false;
  bool arrivals = false;
  bool products = false;
  std::string bodies;
  for (const kernel::Kernel& kernel : kernels) {
    for (const kernel::Op& op : kernel.ops) {
      copies |= op.opcode == kernel::Opcode::kAsyncCopy ||
                op.opcode == kernel::Opcode::kAsyncCommit ||
                op.opcode == kernel::Opcode::kAsyncWait;
      products |= op.opcode == kernel::Opcode::kMmaAsync;
      arrivals |= op.opcode == kernel::Opcode::kLastArrival;
      fragments |= kernel::InfoOf(op.opcode).op_class == kernel::OpClass::kFragment;
    }
    HY_ASSIGN(const std::string body, EmitCudaKernel(kernel, target));
    bodies += "\n" + body;
  }
  std::string source(kPrelude);
  if (copies) source += kAsyncPrelude;
  if (arrivals) source += kArrivalPrelude;
  if (fragments) source += kFragmentPrelude;
  if (products) source += kProductPrelude;
  return source + bodies;
}

Result<std::vector<uint8_t>> EmitCudaImage(const kernel::Module& module, const Target& target) {
  if (target.kind != TargetKind::kCuda) {
    return InvalidArgument("Target '{}' is no CUDA device.", target.name);
  }
  GpuImage image;
  image.target = static_cast<uint32_t>(target.gpu.compute_capability);
  for (const kernel::Kernel& kernel : module.kernels) {
    HY_TRY(CheckLimits(kernel, target));
    image.kernels.push_back(EntryOf(kernel, target));
  }
  if (Has(target, GpuFeature::kKernelIr)) {
    image.kind = GpuModuleKind::kKernelIr;
    const std::string text = kernel::FormatModule(module);
    for (GpuKernel& entry : image.kernels) {
      entry.module = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    }
    return WriteGpuImage(image);
  }
  image.kind = GpuModuleKind::kCubin;
  std::vector<std::vector<uint8_t>> cubins(module.kernels.size());
  HY_TRY(ForEachInParallel(cubins.size(), [&](size_t i) -> Status {
    const kernel::Kernel& kernel = module.kernels[i];
    HY_ASSIGN(const std::string source, EmitCudaSource({&kernel, 1}, target));
    HY_ASSIGN(cubins[i], CompileCubin(kernel.name, source, target.gpu.compute_capability));
    return OkStatus();
  }));
  for (size_t i = 0; i < cubins.size(); ++i) image.kernels[i].module = cubins[i];
  return WriteGpuImage(image);
}

}  // namespace halyard::cuda
