// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/codegen.h"

#include "base/check.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/codegen/cuda/emit.h"
#include "compiler/codegen/spirv/emit.h"

namespace halyard {

Result<std::vector<uint8_t>> EmitImage(const kernel::Module& module, const Target& target) {
  switch (target.kind) {
    case TargetKind::kCpu: {
      HY_ASSIGN(cpu::CpuImage image, cpu::EmitCpuImage(module, target));
      return std::move(image.bytes);
    }
    case TargetKind::kVulkan:
      return spirv::EmitSpirvImage(module, target);
    case TargetKind::kCuda:
      return cuda::EmitCudaImage(module, target);
  }
  HY_UNREACHABLE("target kind {}", static_cast<int>(target.kind));
}

std::string_view ImageFormat(TargetKind kind) {
  switch (kind) {
    case TargetKind::kCpu:
      return "cpu-image";
    case TargetKind::kCuda:
      return "cuda-image";
    case TargetKind::kVulkan:
      return "spirv-image";
  }
  HY_UNREACHABLE("target kind {}", static_cast<int>(kind));
}

}  // namespace halyard
