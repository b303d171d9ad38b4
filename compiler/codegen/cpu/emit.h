// SPDX-License-Identifier: Apache-2.0
// CPU code generation: Kernel IR to a flat image of machine code through LLVM. It translates op by
// op and decides nothing; scheduling has chosen loops, lanes and unrolling, and expand-math has
// written the transcendental functions as arithmetic. No LLVM header is needed to use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"
#include "compiler/target/target.h"

namespace halyard::cpu {

// The layout is base/cpu_kernel_abi.h. Position-independent and self-contained; the same module and
// target give the same bytes.
struct CpuImage {
  std::vector<uint8_t> bytes;
};

// The module must be verified. Every function here may be called from several threads at once.
// Failures: UNIMPLEMENTED for an op this backend does not have (fragments, barriers,
// transcendentals that were not expanded, f64 fma without FMA hardware), INVALID_ARGUMENT for a
// target that is no x86-64 CPU, INTERNAL when LLVM gives up or the code needs a symbol outside the
// image.
Result<CpuImage> EmitCpuImage(const kernel::Module& module, const Target& target);

// The same code as text, for dumps and for tests that count instructions.
Result<std::string> EmitCpuAssembly(const kernel::Module& module, const Target& target);
// The LLVM IR: as translated, or after the passes that run before code generation.
Result<std::string> EmitLlvmIr(const kernel::Module& module, const Target& target, bool optimized);

// Bytes of workgroup memory that one call needs; each allocation starts at a multiple of 64.
int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel);

namespace internal {
// Emits with another LLVM CPU name, so that a test can provoke a fatal error inside LLVM.
Result<CpuImage> EmitWithLlvmCpu(const kernel::Module& module, const Target& target,
                                 const char* llvm_cpu);
}  // namespace internal

}  // namespace halyard::cpu
