// SPDX-License-Identifier: Apache-2.0
// Vulkan code generation: Kernel IR to SPIR-V. It translates op by op and decides nothing;
// scheduling has chosen loops, lanes and unrolling, and expand-math has written the transcendental
// functions as arithmetic. No SPIR-V header is needed to use it.
//
// Modules are SPIR-V 1.5 for Vulkan 1.2 with the Vulkan memory model, 64-bit physical addresses and
// the arguments of base/gpu_kernel_abi.h. They need from every device: bufferDeviceAddress,
// vulkanMemoryModel, shaderInt64, and the GpuFeature bits of the target that a kernel uses.
//
// Floats: add, sub, mul and comparisons are exact, nothing is contracted. div of f32 has 2.5 ULP
// (for divisors from 2^-126 to 2^126), sqrt what 1 / inversesqrt has and exp2 of f32, the one
// transcendental function that stays, 3 + 2 |x| ULP, as Vulkan allows; most devices round the first
// two correctly. fma rounds once where the target has kFma and may round twice
// elsewhere. With kFloatControls every module asks for SignedZeroInfNanPreserve and RoundingModeRTE
// at the widths it uses, with kDenormPreserve for DenormPreserve of f32; without them Vulkan lets a
// device ignore NaN, round f16 conversions towards zero and take subnormal numbers for zero (one
// H200 does so in sqrt, comparisons and conversions from f32).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"

namespace halyard::spirv {

// A GPU image (base/gpu_image.h) with one module per kernel. The module must be verified. A kernel
// with last_arrival takes 16 bytes of workgroup memory more than its allocations. The same
// module and target give the same bytes. May be called from several threads at once. Failures:
// UNIMPLEMENTED for what the target lacks (features, matrix shapes, the elements of a fragment) and
// for transcendentals that were not expanded; INVALID_ARGUMENT for a target that is no Vulkan device, a workgroup above its
// limit or more workgroup memory than it has.
Result<std::vector<uint8_t>> EmitSpirvImage(const kernel::Module& module, const Target& target);

}  // namespace halyard::spirv
