// SPDX-License-Identifier: Apache-2.0
// CUDA code generation: Kernel IR to CUDA C++ text, compiled by NVRTC. It translates op by op and
// decides nothing; scheduling has chosen loops, lanes and unrolling, and expand-math has written
// the transcendental functions as arithmetic.
//
// Floats are IEEE: add, sub, mul, div, sqrt and fma round once, nothing is contracted, denormals
// are kept. Transcendentals of f32 may stay; they are the functions of CUDA's library with the
// largest errors that its documentation states, in ULP: log, log2 1; exp, sin, cos, tanh, erf,
// asin, acos, atan, cosh, rsqrt 2; sinh, asinh, atanh 3; tan, acosh, pow 4; but exp2 is the
// instruction: 2, and subnormal results are 0. Those of f64 are refused. A fragment is 16-bit
// floats or 8-bit integers in multiples of the tiles of mma.sync: rows of A and accumulator by 16,
// columns of B and accumulator by 8, the common dimension by 16 (floats) or 32. Kernels that await
// dispatches (from sm_90) say so in their image's entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"

namespace halyard::cuda {

// Above this a kernel's workgroup memory is requested at launch.
inline constexpr int64_t kMostStaticWorkgroupBytes = 48 << 10;

// Kernels as a translation unit that includes nothing. They must be verified. A kernel's name is
// its symbol, so it must not be that of a function of CUDA or of the prelude; names that the
// pipeline makes end in a number. Failures:
// UNIMPLEMENTED for what the target or this backend lacks (bf16 fragments before sm_80, a subgroup
// size other than 32, fragment shapes, transcendentals that were not expanded), INVALID_ARGUMENT
// for a target that is no CUDA device.
Result<std::string> EmitCudaSource(std::span<const kernel::Kernel> kernels, const Target& target);
// One of them without the prelude that all share; for dumps and goldens.
Result<std::string> EmitCudaKernel(const kernel::Kernel& kernel, const Target& target);

// Bytes of workgroup memory; each allocation starts at a multiple of 128.
int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel);

// A GPU image (base/gpu_image.h) with one CUBIN per kernel, compiled on all processors; for a
// target with GpuFeature::kKernelIr one module of Kernel IR text, without NVRTC. May be called from
// several threads at once. Failures beside those above: UNAVAILABLE where there is no NVRTC, saying
// where it was looked for; INTERNAL with the first lines of NVRTC's log.
Result<std::vector<uint8_t>> EmitCudaImage(const kernel::Module& module, const Target& target);

}  // namespace halyard::cuda
