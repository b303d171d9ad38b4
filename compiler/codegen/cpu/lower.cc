// SPDX-License-Identifier: Apache-2.0
// Structure, control flow and memory of a kernel in LLVM IR.
#include "compiler/codegen/cpu/lower.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <cstddef>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/opcode.h"

namespace halyard::cpu {
namespace {

using kernel::Opcode;

constexpr int64_t kAllocationAlignment = 64;
// A worker's stack is at least 1 MiB everywhere we run; this leaves most of it alone.
constexpr int64_t kMaxPrivateBytes = 256 << 10;

int64_t AllocationBytes(const kernel::Buffer& buffer) {
  const Result<int64_t> bytes = StorageBytes(buffer.dtype, buffer.elements);
  if (!bytes.ok() || *bytes > INT64_MAX / 2) return INT64_MAX / 4;
  return (*bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

}  // namespace

std::string KernelSymbol(const kernel::Kernel& kernel) { return "hyk_" + kernel.name; }

int64_t WorkgroupMemoryBytes(const kernel::Kernel& kernel) {
  int64_t total = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kernel::MemorySpace::kWorkgroup) continue;
    if (__builtin_add_overflow(total, AllocationBytes(buffer), &total)) return INT64_MAX;
  }
  return total;
}

KernelLowering::KernelLowering(llvm::Module* module, const kernel::Kernel& kernel,
                               CodegenFeatures features)
    : kernel_(kernel),
      features_(features),
      module_(module),
      b_(module->getContext()),
      values_(kernel.values.size(), nullptr) {}

llvm::Type* KernelLowering::ElementType(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return b_.getInt1Ty();
    case DType::kF32:
      return b_.getFloatTy();
    case DType::kF64:
      return b_.getDoubleTy();
    default:
      return b_.getIntNTy(static_cast<unsigned>(BitWidth(dtype)));
  }
}

llvm::Type* KernelLowering::MemoryElementType(DType dtype) {
  return dtype == DType::kBool ? b_.getInt8Ty() : ElementType(dtype);
}

llvm::Type* KernelLowering::WithLanes(llvm::Type* element, int lanes) {
  if (lanes == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

llvm::Type* KernelLowering::ValueType(kernel::Type type) {
  return WithLanes(ElementType(type.dtype), type.lanes);
}

llvm::Value* KernelLowering::Int(llvm::Type* type, int64_t value) {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value), true);
}

llvm::Value* KernelLowering::AsVector(llvm::Value* value) {
  if (value->getType()->isVectorTy()) return value;
  llvm::Type* type = llvm::FixedVectorType::get(value->getType(), 1);
  return b_.CreateInsertElement(llvm::PoisonValue::get(type), value, uint64_t{0});
}

Status KernelLowering::Run() {
  if (kernel_.workgroup_size[0] != 1 || kernel_.workgroup_size[1] != 1 ||
      kernel_.workgroup_size[2] != 1) {
    return Unimplemented(
        "Kernel '{}' has a workgroup of {} x {} x {}; on the CPU a workgroup is 1 x 1 x 1.",
        kernel_.name, kernel_.workgroup_size[0], kernel_.workgroup_size[1],
        kernel_.workgroup_size[2]);
  }
  llvm::Type* index = b_.getInt64Ty();
  llvm::FunctionType* type =
      llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), index, index, index}, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                     KernelSymbol(kernel_), module_);
  function_->setDSOLocal(true);
  function_->setDoesNotThrow();
  function_->addFnAttr("no-builtins");
  function_->addFnAttr("prefer-vector-width", "512");
  function_->addFnAttr("min-legal-vector-width", "512");
  function_->addParamAttr(0, llvm::Attribute::NoAlias);
  function_->addParamAttr(0, llvm::Attribute::ReadOnly);
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", function_));
  HY_TRY(Prologue());
  HY_TRY(LowerBlock(0));
  b_.CreateRetVoid();
  return OkStatus();
}

// Loads the arguments that the kernel needs, all at the entry, where they dominate every use.
Status KernelLowering::Prologue() {
  llvm::LLVMContext& context = b_.getContext();
  llvm::MDNode* empty = llvm::MDNode::get(context, {});
  llvm::MDNode* align64 = llvm::MDNode::get(
      context,
      {llvm::ConstantAsMetadata::get(b_.getInt64(static_cast<uint64_t>(kAllocationAlignment)))});
  const auto load_field = [&](llvm::Type* type, llvm::Value* base, uint64_t offset,
                              uint64_t alignment) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(
        type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset), llvm::Align(alignment));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, empty);
    load->setMetadata(llvm::LLVMContext::MD_noundef, empty);
    return load;
  };
  llvm::Value* args = function_->getArg(0);
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Value* bindings = load_field(pointer, args, offsetof(CpuDispatchArgs, bindings), 8);
  llvm::Value* scalars = load_field(pointer, args, offsetof(CpuDispatchArgs, scalars), 8);
  llvm::Value* workgroup = nullptr;
  for (const kernel::Op& op : kernel_.ops) {
    if (op.opcode != Opcode::kReport || error_) continue;
    error_ = load_field(pointer, args, offsetof(CpuDispatchArgs, error), 8);
    dispatch_index_ =
        load_field(b_.getInt32Ty(), args, offsetof(CpuDispatchArgs, dispatch_index), 4);
  }
  for (size_t i = 0; i < kernel_.scalars.size(); ++i) {
    scalars_.push_back(load_field(b_.getInt64Ty(), scalars, 8 * i, 8));
  }
  int64_t workgroup_offset = 0;
  int64_t private_bytes = 0;
  size_t binding = 0;
  for (const kernel::Buffer& buffer : kernel_.buffers) {
    if (buffer.space == kernel::MemorySpace::kGlobal) {
      llvm::LoadInst* base = load_field(pointer, bindings, 8 * binding++, 8);
      base->setMetadata(llvm::LLVMContext::MD_align, align64);
      buffers_.push_back(base);
    } else if (buffer.space == kernel::MemorySpace::kWorkgroup) {
      if (!workgroup) {
        llvm::LoadInst* base =
            load_field(pointer, args, offsetof(CpuDispatchArgs, workgroup_memory), 8);
        base->setMetadata(llvm::LLVMContext::MD_align, align64);
        workgroup = base;
      }
      buffers_.push_back(b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), workgroup,
                                                       static_cast<uint64_t>(workgroup_offset)));
      workgroup_offset += AllocationBytes(buffer);
    } else {
      private_bytes += AllocationBytes(buffer);
      if (private_bytes > kMaxPrivateBytes) {
        return Unimplemented("Kernel '{}' has {} bytes of private memory; the most is {}.",
                             kernel_.name, private_bytes, kMaxPrivateBytes);
      }
      llvm::AllocaInst* slot = b_.CreateAlloca(llvm::ArrayType::get(
          MemoryElementType(buffer.dtype), static_cast<uint64_t>(buffer.elements)));
      slot->setAlignment(llvm::Align(static_cast<uint64_t>(kAllocationAlignment)));
      buffers_.push_back(slot);
    }
  }
  llvm::MDBuilder metadata(context);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(kernel_.name);
  std::vector<llvm::MDNode*> scopes;
  for (const kernel::Buffer& buffer : kernel_.buffers) {
    scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer.name));
    scopes_.push_back(llvm::MDNode::get(context, {scopes.back()}));
  }
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    std::vector<llvm::Metadata*> others;
    for (size_t j = 0; j < kernel_.buffers.size(); ++j) {
      if (i != j && (kernel_.buffers[i].no_alias || kernel_.buffers[j].no_alias))
        others.push_back(scopes[j]);
    }
    no_alias_.push_back(others.empty() ? nullptr : llvm::MDNode::get(context, others));
  }
  return OkStatus();
}

Status KernelLowering::LowerBlock(kernel::BlockId block) {
  for (kernel::OpId id : kernel_.blocks[block].ops) {
    const Op& op = kernel_.ops[id];
    if (op.opcode != Opcode::kYield) HY_TRY(LowerOp(op));
  }
  return OkStatus();
}

Status KernelLowering::LowerOp(const Op& op) {
  const kernel::OpcodeInfo& info = kernel::InfoOf(op.opcode);
  switch (info.op_class) {
    case kernel::OpClass::kArithmetic: {
      HY_ASSIGN(llvm::Value * value, Arithmetic(op));
      SetResult(op, value);
      return OkStatus();
    }
    case kernel::OpClass::kCpu:
      SetResult(op, Scale(Of(op.operands[0]), Of(op.operands[1])));
      return OkStatus();
    case kernel::OpClass::kCompare:
      SetResult(op, Compare(op));
      return OkStatus();
    case kernel::OpClass::kReduce:
      SetResult(op, ReduceLanes(op));
      return OkStatus();
    case kernel::OpClass::kMemory:
      LowerMemory(op);
      return OkStatus();
    default:
      break;
  }
  switch (op.opcode) {
    case Opcode::kConst:
      SetResult(op, Constant(op));
      return OkStatus();
    case Opcode::kScalar:
      SetResult(op, scalars_[static_cast<size_t>(op.immediates[0])]);
      return OkStatus();
    case Opcode::kWorkgroupId:
      SetResult(op, b_.CreateTrunc(function_->getArg(static_cast<unsigned>(op.immediates[0]) + 1),
                                   ElementType(op.type.dtype)));
      return OkStatus();
    case Opcode::kWorkitemId:
    case Opcode::kSubgroupLane:
    case Opcode::kSubgroupId:
      SetResult(op, llvm::ConstantInt::get(ElementType(op.type.dtype), 0));
      return OkStatus();
    case Opcode::kSubgroupSize:
      SetResult(op, llvm::ConstantInt::get(ElementType(op.type.dtype), 1));
      return OkStatus();
    case Opcode::kIota: {
      std::vector<llvm::Constant*> lanes;
      for (int i = 0; i < op.type.lanes; ++i) {
        lanes.push_back(
            llvm::ConstantInt::get(ElementType(op.type.dtype), static_cast<uint64_t>(i)));
      }
      SetResult(op, op.type.lanes == 1 ? lanes[0] : llvm::ConstantVector::get(lanes));
      return OkStatus();
    }
    case Opcode::kSplat:
      SetResult(op, op.type.lanes == 1 ? Of(op.operands[0])
                                       : b_.CreateVectorSplat(op.type.lanes, Of(op.operands[0])));
      return OkStatus();
    case Opcode::kExtract:
      SetResult(op, b_.CreateExtractElement(AsVector(Of(op.operands[0])),
                                            static_cast<uint64_t>(op.immediates[0])));
      return OkStatus();
    case Opcode::kInsert:
      SetResult(op, op.type.lanes == 1
                        ? Of(op.operands[1])
                        : b_.CreateInsertElement(Of(op.operands[0]), Of(op.operands[1]),
                                                 static_cast<uint64_t>(op.immediates[0])));
      return OkStatus();
    case Opcode::kShuffle:
      SetResult(op, Shuffle(op));
      return OkStatus();
    case Opcode::kSelect:
      SetResult(op, b_.CreateSelect(Of(op.operands[0]), Of(op.operands[1]), Of(op.operands[2])));
      return OkStatus();
    case Opcode::kConvert:
      SetResult(op, Convert(Of(op.operands[0]), TypeOf(op.operands[0]).dtype, op.type.dtype));
      return OkStatus();
    case Opcode::kBitcast:
      SetResult(op, b_.CreateBitCast(Of(op.operands[0]), ValueType(op.type)));
      return OkStatus();
    case Opcode::kFor:
      return LowerFor(op);
    case Opcode::kIf:
      return LowerIf(op);
    case Opcode::kReport:
      LowerReport(op);
      return OkStatus();
    default:
      return Unimplemented("Kernel '{}' has the op '{}', which the CPU backend does not have.",
                           kernel_.name, info.name);
  }
}

// Runs the body once with `iv` and `carried`, which become what it yields.
Status KernelLowering::LowerBody(const Op& op, llvm::Value* iv,
                                 std::vector<llvm::Value*>* carried) {
  const kernel::Block& body = kernel_.blocks[op.blocks[0]];
  values_[body.parameters[0]] = iv;
  for (size_t i = 0; i < carried->size(); ++i) values_[body.parameters[i + 1]] = (*carried)[i];
  HY_TRY(LowerBlock(op.blocks[0]));
  const Op& yield = kernel_.ops[body.ops.back()];
  for (size_t i = 0; i < carried->size(); ++i) (*carried)[i] = Of(yield.operands[i]);
  return OkStatus();
}

// A loop tested at its end behind a guard, which needs no rotation by a pass. Runs while
// iv + (copies - 1) * step < hi, `copies` bodies per round.
Status KernelLowering::LowerLoop(const Op& op, llvm::Value* lo, std::vector<llvm::Value*>* carried,
                                 int copies, llvm::Value** iv_end) {
  llvm::Value* hi = Of(op.operands[1]);
  llvm::Value* step = Of(op.operands[2]);
  llvm::Value* last_offset = b_.CreateMul(step, Int(step->getType(), copies - 1));
  const auto runs = [&](llvm::Value* iv) {
    return b_.CreateICmpSLT(b_.CreateNSWAdd(iv, last_offset), hi);
  };
  llvm::LLVMContext& context = b_.getContext();
  llvm::BasicBlock* body = llvm::BasicBlock::Create(context, "loop", function_);
  llvm::BasicBlock* exit = llvm::BasicBlock::Create(context, "done", function_);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::Value* guard = runs(lo);
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(guard);
  const bool guarded = !(known && known->isOne());
  if (guarded) {
    b_.CreateCondBr(guard, body, exit);
  } else {
    b_.CreateBr(body);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* iv = b_.CreatePHI(lo->getType(), 2);
  iv->addIncoming(lo, before);
  std::vector<llvm::PHINode*> phis;
  std::vector<llvm::Value*> current;
  for (llvm::Value* init : *carried) {
    phis.push_back(b_.CreatePHI(init->getType(), 2));
    phis.back()->addIncoming(init, before);
    current.push_back(phis.back());
  }
  llvm::Value* position = iv;
  for (int copy = 0; copy < copies; ++copy) {
    HY_TRY(LowerBody(op, position, &current));
    position = b_.CreateNSWAdd(position, step);
  }
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  b_.CreateCondBr(runs(position), body, exit);
  iv->addIncoming(position, latch);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(current[i], latch);

  b_.SetInsertPoint(exit);
  const auto merge = [&](llvm::Value* skipped, llvm::Value* ran) {
    llvm::PHINode* phi = b_.CreatePHI(ran->getType(), 2);
    if (guarded) phi->addIncoming(skipped, before);
    phi->addIncoming(ran, latch);
    return phi;
  };
  if (iv_end) *iv_end = merge(lo, position);
  for (size_t i = 0; i < carried->size(); ++i) (*carried)[i] = merge((*carried)[i], current[i]);
  return OkStatus();
}

Status KernelLowering::LowerFor(const Op& op) {
  std::vector<llvm::Value*> carried;
  for (size_t i = 3; i < op.operands.size(); ++i) carried.push_back(Of(op.operands[i]));
  llvm::Value* lo = Of(op.operands[0]);
  const int copies = op.immediates[0] > 1 ? static_cast<int>(op.immediates[0]) : 1;
  const auto* lo_known = llvm::dyn_cast<llvm::ConstantInt>(lo);
  const auto* hi_known = llvm::dyn_cast<llvm::ConstantInt>(Of(op.operands[1]));
  const auto* step_known = llvm::dyn_cast<llvm::ConstantInt>(Of(op.operands[2]));
  int64_t trips = -1;
  if (lo_known && hi_known && step_known && step_known->getSExtValue() > 0) {
    const __int128 span =
        static_cast<__int128>(hi_known->getSExtValue()) - lo_known->getSExtValue();
    const __int128 step = step_known->getSExtValue();
    const __int128 count = span <= 0 ? 0 : (span + step - 1) / step;
    if (count < INT64_MAX) trips = static_cast<int64_t>(count);
  }
  if (trips >= 0 && trips <= copies && copies > 1) {  // the whole loop in a line
    llvm::Value* iv = lo;
    for (int64_t i = 0; i < trips; ++i) {
      HY_TRY(LowerBody(op, iv, &carried));
      iv = b_.CreateNSWAdd(iv, Of(op.operands[2]));
    }
  } else if (trips != 0) {
    const bool remainder = copies > 1 && (trips < 0 || trips % copies != 0);
    llvm::Value* iv = nullptr;
    HY_TRY(LowerLoop(op, lo, &carried, copies, remainder ? &iv : nullptr));
    if (remainder) HY_TRY(LowerLoop(op, iv, &carried, 1, nullptr));
  }
  for (size_t i = 0; i < carried.size(); ++i) values_[op.results[i]] = carried[i];
  return OkStatus();
}

Status KernelLowering::LowerIf(const Op& op) {
  llvm::LLVMContext& context = b_.getContext();
  llvm::BasicBlock* starts[2] = {llvm::BasicBlock::Create(context, "then", function_),
                                 llvm::BasicBlock::Create(context, "else", function_)};
  llvm::BasicBlock* merge = llvm::BasicBlock::Create(context, "merge", function_);
  b_.CreateCondBr(Of(op.operands[0]), starts[0], starts[1]);
  std::vector<llvm::Value*> yielded[2];
  llvm::BasicBlock* ends[2];
  for (int side = 0; side < 2; ++side) {
    b_.SetInsertPoint(starts[side]);
    HY_TRY(LowerBlock(op.blocks[static_cast<size_t>(side)]));
    const kernel::Block& block = kernel_.blocks[op.blocks[static_cast<size_t>(side)]];
    for (kernel::ValueId value : kernel_.ops[block.ops.back()].operands)
      yielded[side].push_back(Of(value));
    ends[side] = b_.GetInsertBlock();
    b_.CreateBr(merge);
  }
  b_.SetInsertPoint(merge);
  for (size_t i = 0; i < op.results.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(yielded[0][i]->getType(), 2);
    phi->addIncoming(yielded[0][i], ends[0]);
    phi->addIncoming(yielded[1][i], ends[1]);
    values_[op.results[i]] = phi;
  }
  return OkStatus();
}

void KernelLowering::LowerReport(const Op& op) {
  llvm::LLVMContext& context = b_.getContext();
  llvm::Value* condition = Of(op.operands[0]);
  llvm::Value* value = Of(op.operands[1]);
  llvm::Value* any = condition;
  const unsigned lanes = TypeOf(op.operands[0]).lanes;
  if (lanes > 1) any = b_.CreateOrReduce(condition);
  llvm::MDNode* unlikely = llvm::MDBuilder(context).createBranchWeights(1, 1 << 20);
  llvm::BasicBlock* failed = llvm::BasicBlock::Create(context, "failed", function_);
  llvm::BasicBlock* first = llvm::BasicBlock::Create(context, "first", function_);
  llvm::BasicBlock* next = llvm::BasicBlock::Create(context, "next", function_);
  b_.CreateCondBr(any, failed, next, unlikely);
  b_.SetInsertPoint(failed);
  if (lanes > 1) {  // the lowest true lane
    llvm::Value* bits = b_.CreateBitCast(condition, b_.getIntNTy(lanes));
    llvm::Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b_.getTrue());
    value = b_.CreateExtractElement(value, lane);
  }
  const auto field = [&](uint64_t offset) {
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), error_, offset);
  };
  llvm::Value* exchange = b_.CreateAtomicCmpXchg(
      field(offsetof(ErrorRecord, state)), b_.getInt32(0), b_.getInt32(1), llvm::MaybeAlign(4),
      llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic);
  b_.CreateCondBr(b_.CreateExtractValue(exchange, 1), first, next);
  b_.SetInsertPoint(first);
  b_.CreateStore(dispatch_index_, field(offsetof(ErrorRecord, dispatch)));
  b_.CreateStore(b_.getInt32(static_cast<uint32_t>(op.immediates[0])),
                 field(offsetof(ErrorRecord, reason)));
  b_.CreateStore(b_.getInt32(static_cast<uint32_t>(op.immediates[1])),
                 field(offsetof(ErrorRecord, site)));
  b_.CreateStore(value, field(offsetof(ErrorRecord, value)));
  b_.CreateStore(Of(op.operands[2]), field(offsetof(ErrorRecord, limit)));
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

llvm::Value* KernelLowering::Address(const Op& op, llvm::Value* index) {
  llvm::Type* wide = WithLanes(b_.getInt64Ty(), TypeOf(op.operands[0]).lanes);
  llvm::Type* element = MemoryElementType(kernel_.buffers[op.buffer].dtype);
  return b_.CreateInBoundsGEP(element, buffers_[op.buffer], b_.CreateSExt(index, wide));
}

template <typename Instruction>
Instruction* KernelLowering::Annotate(Instruction* instruction, const Op& op) {
  instruction->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes_[op.buffer]);
  if (no_alias_[op.buffer])
    instruction->setMetadata(llvm::LLVMContext::MD_noalias, no_alias_[op.buffer]);
  return instruction;
}

llvm::Value* KernelLowering::FromMemory(llvm::Value* value, DType dtype) {
  if (dtype != DType::kBool) return value;
  return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

llvm::Value* KernelLowering::ToMemory(llvm::Value* value, DType dtype) {
  if (dtype != DType::kBool) return value;
  return b_.CreateZExt(value, value->getType()->getWithNewBitWidth(8));
}

llvm::Value* KernelLowering::LowerMaskedLoad(const Op& op, bool gather) {
  const kernel::Buffer& buffer = kernel_.buffers[op.buffer];
  const llvm::Align alignment(static_cast<uint64_t>(BitWidth(buffer.dtype) / 8));
  llvm::Value* address = Address(op, Of(op.operands[0]));
  llvm::Value* mask = op.operands.size() > 1 ? Of(op.operands[1]) : nullptr;
  llvm::Value* passthrough =
      op.operands.size() > 1 ? ToMemory(Of(op.operands[2]), buffer.dtype) : nullptr;
  llvm::Type* type = WithLanes(MemoryElementType(buffer.dtype), op.type.lanes);
  if (op.type.lanes > 1) {
    llvm::CallInst* call = gather
                               ? b_.CreateMaskedGather(type, address, alignment, mask, passthrough)
                               : b_.CreateMaskedLoad(type, address, alignment, mask, passthrough);
    return Annotate(call, op);
  }
  if (!mask) return Annotate(b_.CreateAlignedLoad(type, address, alignment), op);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* active = llvm::BasicBlock::Create(b_.getContext(), "active", function_);
  llvm::BasicBlock* next = llvm::BasicBlock::Create(b_.getContext(), "next", function_);
  b_.CreateCondBr(mask, active, next);
  b_.SetInsertPoint(active);
  llvm::Value* loaded = Annotate(b_.CreateAlignedLoad(type, address, alignment), op);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(passthrough, before);
  phi->addIncoming(loaded, active);
  return phi;
}

void KernelLowering::LowerMaskedStore(const Op& op, bool scatter) {
  const kernel::Buffer& buffer = kernel_.buffers[op.buffer];
  const llvm::Align alignment(static_cast<uint64_t>(BitWidth(buffer.dtype) / 8));
  llvm::Value* address = Address(op, Of(op.operands[0]));
  llvm::Value* value = ToMemory(Of(op.operands[1]), buffer.dtype);
  llvm::Value* mask = op.operands.size() > 2 ? Of(op.operands[2]) : nullptr;
  if (TypeOf(op.operands[1]).lanes > 1) {
    llvm::CallInst* call = scatter ? b_.CreateMaskedScatter(value, address, alignment, mask)
                                   : b_.CreateMaskedStore(value, address, alignment, mask);
    Annotate(call, op);
    return;
  }
  if (!mask) {
    Annotate(b_.CreateAlignedStore(value, address, alignment), op);
    return;
  }
  llvm::BasicBlock* active = llvm::BasicBlock::Create(b_.getContext(), "active", function_);
  llvm::BasicBlock* next = llvm::BasicBlock::Create(b_.getContext(), "next", function_);
  b_.CreateCondBr(mask, active, next);
  b_.SetInsertPoint(active);
  Annotate(b_.CreateAlignedStore(value, address, alignment), op);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

void KernelLowering::LowerMemory(const Op& op) {
  const kernel::Buffer& buffer = kernel_.buffers[op.buffer];
  const llvm::Align alignment(static_cast<uint64_t>(BitWidth(buffer.dtype) / 8));
  switch (op.opcode) {
    case Opcode::kLoad:
    case Opcode::kBroadcastLoad: {
      llvm::Value* value = nullptr;
      if (op.operands.size() > 1) {
        value = LowerMaskedLoad(op, false);
      } else {
        const int lanes = op.opcode == Opcode::kLoad ? op.type.lanes : 1;
        llvm::Type* type = WithLanes(MemoryElementType(buffer.dtype), lanes);
        llvm::LoadInst* load =
            Annotate(b_.CreateAlignedLoad(type, Address(op, Of(op.operands[0])), alignment), op);
        if (buffer.access == kernel::Access::kRead && buffer.no_alias) {
          load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                            llvm::MDNode::get(b_.getContext(), {}));
        }
        value = load;
      }
      value = FromMemory(value, buffer.dtype);
      if (op.opcode == Opcode::kBroadcastLoad && op.type.lanes > 1) {
        value = b_.CreateVectorSplat(op.type.lanes, value);
      }
      SetResult(op, value);
      return;
    }
    case Opcode::kGather:
      SetResult(op, FromMemory(LowerMaskedLoad(op, true), buffer.dtype));
      return;
    case Opcode::kStore:
      if (op.operands.size() > 2) return LowerMaskedStore(op, false);
      Annotate(b_.CreateAlignedStore(ToMemory(Of(op.operands[1]), buffer.dtype),
                                     Address(op, Of(op.operands[0])), alignment),
               op);
      return;
    case Opcode::kScatter:
      return LowerMaskedStore(op, true);
    case Opcode::kPrefetch:
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {Address(op, Of(op.operands[0])), b_.getInt32(0),
                          b_.getInt32(static_cast<uint32_t>(op.immediates[0])), b_.getInt32(1)});
      return;
    case Opcode::kAtomicAdd:
      Annotate(b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, Address(op, Of(op.operands[0])),
                                  Of(op.operands[1]), alignment, llvm::AtomicOrdering::Monotonic),
               op);
      return;
    default:
      HY_UNREACHABLE("{} is no memory op", kernel::FormatOpcode(op.opcode));
  }
}

}  // namespace halyard::cpu
