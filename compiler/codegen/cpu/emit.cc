// SPDX-License-Identifier: Apache-2.0
// Drives LLVM: one context, module and target machine per call, so calls on several threads share
// nothing. LLVM's fatal errors, and want of memory, leave by an exception; what LLVM held then is
// kept for good (abandoned.h).
#include "compiler/codegen/cpu/emit.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <mutex>
#include <new>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "compiler/codegen/cpu/abandoned.h"
#include "compiler/codegen/cpu/link.h"
#include "compiler/codegen/cpu/lower.h"
#include "compiler/codegen/cpu/optimize.h"

namespace halyard::cpu {
namespace {

struct LlvmFatalError {
  std::string reason;
};

void ThrowFatalError(void*, const char* reason, bool) {
  throw LlvmFatalError{reason ? reason : ""};
}

// Of LLVM's own uses of malloc; where it uses operator new, that throws the same.
void ThrowBadAlloc(void*, const char*, bool) { throw std::bad_alloc(); }

// Once per process. The handlers stay: LLVM would otherwise end the process.
void InitialiseLlvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(ThrowFatalError);
    llvm::install_bad_alloc_error_handler(ThrowBadAlloc);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

bool Has(const Target& target, CpuFeature feature) {
  return (target.cpu_features & static_cast<uint64_t>(feature)) != 0;
}

// The features of base/cpu_kernel_abi.h in LLVM's names, and nothing that they do not promise. Not
// avx512vnni: what LLVM makes of it alone are sums of products of i8 and u8 by vpdpbusd, and those
// of 8 and 16 lanes that no loop adds up come out wrong.
std::string LlvmFeatures(const Target& target) {
  static constexpr struct {
    CpuFeature feature;
    const char* names;
  } kRows[] = {
      {CpuFeature::kSse42, "+sse4.2"},
      {CpuFeature::kAvx2, "+avx2,+fma,+bmi2,+f16c"},
      {CpuFeature::kAvx512, "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+evex512"},
      {CpuFeature::kAvx512Bf16, "+avx512bf16"},
      {CpuFeature::kAvx512Fp16, "+avx512fp16"},
      {CpuFeature::kAmxTile, "+amx-tile"},
      {CpuFeature::kAmxInt8, "+amx-int8"},
      {CpuFeature::kAmxBf16, "+amx-bf16"},
  };
  std::string features;
  for (const auto& row : kRows) {
    if (!Has(target, row.feature)) continue;
    if (!features.empty()) features += ",";
    features += row.names;
  }
  return features;
}

struct DiagnosticLog : llvm::DiagnosticHandler {
  explicit DiagnosticLog(std::string* errors) : errors_(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(*errors_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    stream << "; ";
    return true;
  }
  std::string* errors_;
};

enum class Stage { kLlvmIr, kOptimizedIr, kAssembly, kObject };

struct Emission : Abandonable {
  std::string errors;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
  llvm::SmallVector<char, 0> output;
  llvm::raw_svector_ostream stream{output};
  std::unique_ptr<llvm::legacy::PassManager> passes;  // writes into the stream until its end

  Status Run(const kernel::Module& kernels, const Target& target, const char* llvm_cpu,
             Stage stage);
  Status MakeMachine(const Target& target, const char* llvm_cpu);
};

Status Emission::MakeMachine(const Target& target, const char* llvm_cpu) {
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!backend || llvm::Triple(target.triple).getArch() != llvm::Triple::x86_64) {
    return InvalidArgument("Target '{}' has the triple '{}'; the CPU backend knows x86_64 only.",
                           target.name, target.triple);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine.reset(backend->createTargetMachine(target.triple, llvm_cpu, LlvmFeatures(target), options,
                                             llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                             llvm::CodeGenOptLevel::Default));
  if (!machine) return Internal("LLVM has no target machine for '{}'.", target.triple);
  if (!target.cpu_name.empty() &&
      !machine->getMCSubtargetInfo()->isCPUStringValid(target.cpu_name)) {
    return InvalidArgument("Target '{}' asks to tune for '{}', which LLVM does not know.",
                           target.name, target.cpu_name);
  }
  return OkStatus();
}

Status Emission::Run(const kernel::Module& kernels, const Target& target, const char* llvm_cpu,
                     Stage stage) {
  HY_TRY(MakeMachine(target, llvm_cpu));
  context.setDiagnosticHandler(std::make_unique<DiagnosticLog>(&errors));
  module = std::make_unique<llvm::Module>("halyard", context);
  module->setTargetTriple(target.triple);
  module->setDataLayout(machine->createDataLayout());
  module->setPICLevel(llvm::PICLevel::SmallPIC);
  const CodegenFeatures features{Has(target, CpuFeature::kAvx2), Has(target, CpuFeature::kAvx2),
                                 Has(target, CpuFeature::kAvx512)};
  const std::string feature_names = LlvmFeatures(target);
  for (const kernel::Kernel& kernel : kernels.kernels) {
    HY_TRY(KernelLowering(module.get(), kernel, features).Run());
    llvm::Function* function = module->getFunction(KernelSymbol(kernel));
    function->addFnAttr("target-cpu", llvm_cpu);
    function->addFnAttr("target-features", feature_names);
    if (!target.cpu_name.empty()) function->addFnAttr("tune-cpu", target.cpu_name);
  }
  {
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module, &stream)) {
      return Internal("The LLVM IR of a kernel is invalid: {}.", stream.str());
    }
  }
  if (stage != Stage::kLlvmIr) Optimize(module.get(), machine.get());
  if (stage == Stage::kLlvmIr || stage == Stage::kOptimizedIr) {
    module->print(stream, nullptr);
    return OkStatus();
  }
  passes = std::make_unique<llvm::legacy::PassManager>();
  llvm::TargetLibraryInfoImpl library((llvm::Triple(target.triple)));
  library.disableAllFunctions();
  passes->add(new llvm::TargetLibraryInfoWrapperPass(library));
  if (machine->addPassesToEmitFile(*passes, stream, nullptr,
                                   stage == Stage::kObject ? llvm::CodeGenFileType::ObjectFile
                                                           : llvm::CodeGenFileType::AssemblyFile)) {
    return Internal("LLVM cannot write code for '{}'.", target.triple);
  }
  passes->run(*module);
  passes.reset();
  if (!errors.empty()) return Internal("LLVM reports: {}.", errors);
  return OkStatus();
}

Result<std::unique_ptr<Emission>> Emit(const kernel::Module& kernels, const Target& target,
                                       const char* llvm_cpu, Stage stage) {
  if (target.kind != TargetKind::kCpu) {
    return InvalidArgument("Target '{}' is not a CPU; the CPU backend cannot compile for it.",
                           target.name);
  }
  if (!Has(target, CpuFeature::kSse42)) {
    return InvalidArgument("Target '{}' lacks SSE4.2, which the CPU backend needs.", target.name);
  }
  InitialiseLlvm();
  auto emission = std::make_unique<Emission>();
  try {
    HY_TRY(
        OrAbandon(emission, [&](Emission& e) { return e.Run(kernels, target, llvm_cpu, stage); }));
  } catch (const LlvmFatalError& error) {
    return Internal("LLVM gave up: {}.", error.reason);
  }
  return emission;
}

Result<CpuImage> EmitImage(const kernel::Module& kernels, const Target& target,
                           const char* llvm_cpu) {
  HY_ASSIGN(const std::unique_ptr<Emission> emission,
            Emit(kernels, target, llvm_cpu, Stage::kObject));
  std::vector<LinkEntry> entries;
  for (const kernel::Kernel& kernel : kernels.kernels) {
    LinkEntry entry;
    entry.name = kernel.name;
    entry.symbol = KernelSymbol(kernel);
    entry.workgroup_memory_bytes = static_cast<uint64_t>(WorkgroupMemoryBytes(kernel));
    for (const kernel::Buffer& buffer : kernel.buffers) {
      if (buffer.space == kernel::MemorySpace::kGlobal) ++entry.binding_count;
    }
    entry.scalar_count = static_cast<uint32_t>(kernel.scalars.size());
    entries.push_back(std::move(entry));
  }
  CpuImage image;
  const auto* bytes = reinterpret_cast<const uint8_t*>(emission->output.data());
  HY_ASSIGN(image.bytes,
            LinkFlatImage({bytes, emission->output.size()}, entries, target.cpu_features));
  return image;
}

Result<std::string> EmitText(const kernel::Module& kernels, const Target& target, Stage stage) {
  HY_ASSIGN(const std::unique_ptr<Emission> emission, Emit(kernels, target, "x86-64", stage));
  return std::string(emission->output.data(), emission->output.size());
}

}  // namespace

Result<CpuImage> EmitCpuImage(const kernel::Module& module, const Target& target) {
  return EmitImage(module, target, "x86-64");
}

Result<std::string> EmitCpuAssembly(const kernel::Module& module, const Target& target) {
  return EmitText(module, target, Stage::kAssembly);
}

Result<std::string> EmitLlvmIr(const kernel::Module& module, const Target& target, bool optimized) {
  return EmitText(module, target, optimized ? Stage::kOptimizedIr : Stage::kLlvmIr);
}

namespace internal {
Result<CpuImage> EmitWithLlvmCpu(const kernel::Module& module, const Target& target,
                                 const char* llvm_cpu) {
  return EmitImage(module, target, llvm_cpu);
}
}  // namespace internal

}  // namespace halyard::cpu
