// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/expand_math.h"

#include "base/cpu_kernel_abi.h"
#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/narrow_math.h"

namespace halyard::pipeline {

kernel::Kernel ExpandMathFor(const kernel::Kernel& code, const Target& target) {
  kernel::ExpandMathOptions options;
  options.has_fma = target.kind == TargetKind::kCpu
                        ? (target.cpu_features & static_cast<uint64_t>(CpuFeature::kAvx2)) != 0
                        : (target.gpu.features & static_cast<uint64_t>(GpuFeature::kFma)) != 0;
  options.has_scale = target.kind == TargetKind::kCpu &&
                      (target.cpu_features & static_cast<uint64_t>(CpuFeature::kAvx512)) != 0;
  // A call is an instruction or few where the arithmetic is dozens, of f64 for some, in the text
  // that NVRTC compiles for each element of a tile.
  options.has_f32_functions = target.kind == TargetKind::kCuda;
  options.has_exp2 = target.kind == TargetKind::kVulkan;
  if (target.kind == TargetKind::kCpu) {
    return kernel::ExpandMath(options.has_fma ? code : kernel::SplitFma(code), options);
  }
  const kernel::Kernel narrow = kernel::NarrowMath(code);
  return kernel::ExpandMath(options.has_fma ? narrow : kernel::SplitFma(narrow), options);
}

Status ExpandMath(CompileState& state) {
  for (Segment& segment : state.segments) {
    const Target& target = state.program.devices[segment.device].target;
    for (schedule::ScheduledKernel& scheduled : segment.kernels) {
      for (kernel::Kernel& code : scheduled.kernels) code = ExpandMathFor(code, target);
    }
  }
  return OkStatus();
}

}  // namespace halyard::pipeline
