// SPDX-License-Identifier: Apache-2.0
// KernelLowering: one Kernel IR kernel as one LLVM function. Private to this folder; includes LLVM.
// Values: bool is i1, f16 and bf16 are i16 (they carry no arithmetic, and LLVM's half would bring
// library calls), lanes 1 is a scalar, more lanes a fixed vector. In memory a bool is a byte.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/kernel/kernel_ir.h"

namespace halyard::cpu {

// What the instruction set lets the translation use.
struct CodegenFeatures {
  bool fma = false;   // fused multiply-add in hardware
  bool f16c = false;  // f16 <-> f32 conversion in hardware
  bool avx512 = false;
};

// The symbol of a kernel; a prefix keeps names such as "exp" from meaning a library function to
// LLVM.
std::string KernelSymbol(const kernel::Kernel& kernel);

class KernelLowering {
 public:
  KernelLowering(llvm::Module* module, const kernel::Kernel& kernel, CodegenFeatures features);

  // Adds the function. UNIMPLEMENTED for ops that this backend does not have.
  Status Run();

 private:
  using Op = kernel::Op;

  // Types and small pieces (lower.cc)
  llvm::Type* ElementType(DType dtype);
  llvm::Type* MemoryElementType(DType dtype);
  llvm::Type* ValueType(kernel::Type type);
  llvm::Type* WithLanes(llvm::Type* element, int lanes);
  llvm::Value* Int(llvm::Type* type, int64_t value);  // splat for vectors
  llvm::Value* Of(kernel::ValueId value) { return values_[value]; }
  kernel::Type TypeOf(kernel::ValueId value) const { return kernel_.values[value].type; }
  llvm::Value* AsVector(llvm::Value* value);  // a scalar becomes a vector of one lane
  void SetResult(const Op& op, llvm::Value* value) { values_[op.results[0]] = value; }

  // Structure and memory (lower.cc)
  Status Prologue();
  Status LowerBlock(kernel::BlockId block);
  Status LowerOp(const Op& op);
  Status LowerFor(const Op& op);
  Status LowerBody(const Op& op, llvm::Value* iv, std::vector<llvm::Value*>* carried);
  Status LowerLoop(const Op& op, llvm::Value* lo, std::vector<llvm::Value*>* carried, int copies,
                   llvm::Value** iv_end);
  Status LowerIf(const Op& op);
  void LowerReport(const Op& op);
  llvm::Value* Address(const Op& op, llvm::Value* index);
  template <typename Instruction>
  Instruction* Annotate(Instruction* instruction, const Op& op);
  llvm::Value* FromMemory(llvm::Value* value, DType dtype);
  llvm::Value* ToMemory(llvm::Value* value, DType dtype);
  void LowerMemory(const Op& op);
  llvm::Value* LowerMaskedLoad(const Op& op, bool gather);
  void LowerMaskedStore(const Op& op, bool scatter);

  // Values (lower_values.cc)
  llvm::Value* Constant(const Op& op);
  llvm::Value* Shuffle(const Op& op);
  Result<llvm::Value*> Arithmetic(const Op& op);
  llvm::Value* Compare(const Op& op);
  llvm::Value* Combine(kernel::Opcode opcode, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* MinMax(bool is_min, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* Divide(bool is_rem, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* Shift(bool is_left, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* Scale(llvm::Value* x, llvm::Value* n);
  llvm::Value* SoftwareFma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* ReduceLanes(const Op& op);
  llvm::Value* Convert(llvm::Value* value, DType from, DType to);
  llvm::Value* F16ToF32(llvm::Value* half);
  llvm::Value* F32ToF16(llvm::Value* value);
  llvm::Value* BF16ToF32(llvm::Value* value);
  llvm::Value* F32ToBF16(llvm::Value* value);

  const kernel::Kernel& kernel_;
  CodegenFeatures features_;
  llvm::Module* module_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  llvm::Value* error_ = nullptr;           // ErrorRecord*
  llvm::Value* dispatch_index_ = nullptr;  // i32
  std::vector<llvm::Value*> values_;
  std::vector<llvm::Value*> buffers_;  // base addresses
  std::vector<llvm::Value*> scalars_;
  std::vector<llvm::MDNode*> scopes_;    // per buffer: the list with its own alias scope
  std::vector<llvm::MDNode*> no_alias_;  // per buffer: the scopes that do not overlap it
};

}  // namespace halyard::cpu
