// SPDX-License-Identifier: Apache-2.0
// The passes that run on the LLVM IR before code generation. Private to this folder.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace halyard::cpu {

// early-cse, instcombine, early-cse: the kernels are scheduled already, and the O3 pipeline costs
// two to three times the compile time for the same code.
void Optimize(llvm::Module* module, llvm::TargetMachine* machine);

}  // namespace halyard::cpu
