// SPDX-License-Identifier: Apache-2.0
// The only file that includes LLVM's PassBuilder, which takes seconds to compile.
#include "compiler/codegen/cpu/optimize.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include "compiler/codegen/cpu/abandoned.h"

namespace halyard::cpu {

namespace {

struct Optimization : Abandonable {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::FunctionPassManager passes;

  void Run(llvm::Module* module, llvm::TargetMachine* machine) {
    llvm::PassBuilder builder(machine);
    // No library functions: a pass must not form a call to one.
    llvm::TargetLibraryInfoImpl library(llvm::Triple(module->getTargetTriple()));
    library.disableAllFunctions();
    functions.registerPass([&library] { return llvm::TargetLibraryAnalysis(library); });
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    passes.addPass(llvm::EarlyCSEPass(true));
    passes.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::EarlyCSEPass(true));
    for (llvm::Function& function : *module) {
      if (!function.isDeclaration()) passes.run(function, functions);
    }
  }
};

}  // namespace

void Optimize(llvm::Module* module, llvm::TargetMachine* machine) {
  auto optimization = std::make_unique<Optimization>();
  OrAbandon(optimization, [&](Optimization& o) { o.Run(module, machine); });
}

}  // namespace halyard::cpu
