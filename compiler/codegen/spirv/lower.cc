// SPDX-License-Identifier: Apache-2.0
// Arguments, sources, lanes and subgroup operations of a kernel in SPIR-V.
#include "compiler/codegen/spirv/lower.h"

#include "base/check.h"
#include "compiler/kernel/opcode.h"

namespace halyard::spirv {

using kernel::MemorySpace;
using kernel::Opcode;

KernelLowering::KernelLowering(const kernel::Kernel& kernel, const Target& target)
    : kernel_(kernel), target_(target) {
  for (const kernel::Value& value : kernel.values) {
    first_.push_back(ids_.size());
    ids_.resize(ids_.size() + value.type.lanes, 0);
  }
}

bool KernelLowering::Has(GpuFeature feature) const {
  return (target_.gpu.features & static_cast<uint64_t>(feature)) != 0;
}

Status KernelLowering::CheckType(kernel::Type type) {
  GpuFeature feature = GpuFeature::kInt64;  // addresses need it in every kernel
  const char* name = "64-bit integers";
  switch (type.dtype) {
    case DType::kI8:
    case DType::kU8:
      feature = GpuFeature::kInt8;
      name = "8-bit integers";
      break;
    case DType::kI16:
    case DType::kU16:
    case DType::kBF16:
      feature = GpuFeature::kInt16;
      name = "16-bit integers";
      break;
    case DType::kF16:  // its bits are moved as integers
      feature = Has(GpuFeature::kInt16) ? GpuFeature::kFloat16 : GpuFeature::kInt16;
      name = "16-bit floats with 16-bit integers";
      break;
    case DType::kF64:
      feature = GpuFeature::kFloat64;
      name = "64-bit floats";
      break;
    default:
      break;
  }
  if (Has(feature)) return OkStatus();
  return Unimplemented("Kernel '{}' has a value or buffer of {}; target '{}' has no {}.",
                       kernel_.name, kernel::FormatType(type), target_.name, name);
}

Status KernelLowering::CheckFeatures() {
  HY_TRY(CheckType({DType::kI64, 1}));
  for (const kernel::Value& value : kernel_.values) {
    HY_TRY(value.type.IsFragment() ? CheckFragment(value.type) : CheckType(value.type));
  }
  for (const kernel::Buffer& buffer : kernel_.buffers) {
    HY_TRY(CheckType({buffer.dtype, 1}));
    const int bits = BitWidth(buffer.dtype);
    if (buffer.space != MemorySpace::kGlobal || bits > 16) continue;
    if (Has(bits == 8 ? GpuFeature::kStorage8 : GpuFeature::kStorage16)) continue;
    return Unimplemented("Kernel '{}' has buffer '{}' of {}; target '{}' has no {}-bit storage.",
                         kernel_.name, buffer.name, FormatDType(buffer.dtype), target_.name, bits);
  }
  return OkStatus();
}

Id KernelLowering::IntType(int bits) {
  if (bits == 8) w_.Require(spv::Capability::Int8);
  if (bits == 16) w_.Require(spv::Capability::Int16);
  return w_.Int(bits);
}

Id KernelLowering::ElementType(DType dtype) {
  const int bits = BitWidth(dtype);
  switch (dtype) {
    case DType::kBool:
      return w_.Bool();
    case DType::kF16:
      w_.Require(spv::Capability::Float16);
      return w_.Float(16);
    case DType::kF32:
      return w_.Float(32);
    case DType::kF64:
      w_.Require(spv::Capability::Float64);
      return w_.Float(64);
    default:
      return IntType(bits);
  }
}

KernelLowering::Lanes KernelLowering::Of(kernel::ValueId value) {
  return Lanes(ids_).subspan(first_[value], TypeOf(value).lanes);
}

Id KernelLowering::Select(Id condition, Id type, Id a, Id b) {
  return w_.Emit(spv::Op::OpSelect, type, {condition, a, b});
}

Id KernelLowering::Add(int bits, Id a, Id b) {
  const auto x = w_.IntValue(a);
  const auto y = w_.IntValue(b);
  if (x && y) return w_.ConstInt(bits, *x + *y);
  if (x && *x == 0) return b;
  if (y && *y == 0) return a;
  return w_.Emit(spv::Op::OpIAdd, w_.Int(bits), {a, b});
}

Id KernelLowering::Mul(int bits, Id a, Id b) {
  const auto x = w_.IntValue(a);
  const auto y = w_.IntValue(b);
  if (x && y) return w_.ConstInt(bits, *x * *y);
  if (x && *x == 1) return b;
  if (y && *y == 1) return a;
  return w_.Emit(spv::Op::OpIMul, w_.Int(bits), {a, b});
}

Id KernelLowering::Widen(Id value, int from_bits, int to_bits, bool is_signed) {
  if (from_bits == to_bits) return value;
  if (const auto known = w_.IntValue(value)) {
    uint64_t wide = *known;
    if (is_signed && from_bits < 64 && (wide >> (from_bits - 1) & 1)) {
      wide |= ~uint64_t{0} << from_bits;
    }
    return w_.ConstInt(to_bits, wide);
  }
  const Id result =
      w_.Emit(is_signed ? spv::Op::OpSConvert : spv::Op::OpUConvert, w_.Int(to_bits), {value});
  if (is_signed && from_bits == 32 && to_bits == 64) sign_extended_[result] = value;
  return result;
}

Result<std::vector<uint32_t>> KernelLowering::Run() {
  HY_TRY(CheckFeatures());
  for (const Op& op : kernel_.ops) {
    has_barrier_ |= op.opcode == Opcode::kBarrier || op.opcode == Opcode::kLastArrival;
  }
  w_.Require(spv::Capability::Shader);
  w_.Require(spv::Capability::VulkanMemoryModel);
  w_.Require(spv::Capability::PhysicalStorageBufferAddresses);
  w_.Require(spv::Capability::Int64);
  Prologue();
  HY_TRY(LowerBlock(0));
  bool has_width[3] = {false, true, false};
  for (const kernel::Value& value : kernel_.values) {
    has_width[0] |= value.type.dtype == DType::kF16;
    has_width[2] |= value.type.dtype == DType::kF64;
  }
  for (int i = 0; i < 3; ++i) {
    if (!has_width[i]) continue;
    const uint32_t width = 16u << i;
    if (Has(GpuFeature::kFloatControls)) {
      w_.Require(spv::Capability::SignedZeroInfNanPreserve);
      w_.Require(spv::Capability::RoundingModeRTE);
      w_.ExecutionMode(spv::ExecutionMode::SignedZeroInfNanPreserve, {width});
      w_.ExecutionMode(spv::ExecutionMode::RoundingModeRTE, {width});
    }
    if (width == 32 && Has(GpuFeature::kDenormPreserve)) {
      w_.Require(spv::Capability::DenormPreserve);
      w_.ExecutionMode(spv::ExecutionMode::DenormPreserve, {width});
    }
  }
  return w_.Finish(kernel_.name, kernel_.workgroup_size);
}

// Loads the arguments that the kernel needs at the entry, where they dominate every use, and
// declares its allocations.
void KernelLowering::Prologue() {
  size_t bindings = 0;
  for (const kernel::Buffer& buffer : kernel_.buffers) {
    bindings += buffer.space == MemorySpace::kGlobal;
  }
  const size_t count = bindings + kernel_.scalars.size() + 2;
  std::vector<bool> is_needed(count, false);
  for (const Op& op : kernel_.ops) {
    if (op.buffer != kernel::kNone && op.buffer < bindings) is_needed[op.buffer] = true;
    if (op.opcode == Opcode::kAsyncCopy) is_needed[static_cast<size_t>(op.immediates[0])] = true;
    if (op.opcode == Opcode::kScalar)
      is_needed[bindings + static_cast<size_t>(op.immediates[0])] = true;
    if (op.opcode == Opcode::kReport) is_needed[count - 2] = is_needed[count - 1] = true;
  }
  arguments_.assign(count, 0);
  const Id u64 = w_.Int(64);
  const bool by_address = 8 * count > kMaxPushConstantBytes;
  const Id push = w_.Global(spv::StorageClass::PushConstant,
                            w_.ArrayBlock(u64, by_address ? 1 : static_cast<uint32_t>(count), 8));
  const Id push_pointer = w_.Pointer(spv::StorageClass::PushConstant, u64);
  const auto load_push = [&](uint32_t index) {
    const Id at = w_.Emit(spv::Op::OpAccessChain, push_pointer, {push, U32(0), U32(index)});
    return w_.Emit(spv::Op::OpLoad, u64, {at});
  };
  const Id block = by_address ? load_push(0) : 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_needed[i]) continue;
    if (!by_address) {
      arguments_[i] = load_push(i);
      continue;
    }
    const Id at =
        w_.Emit(spv::Op::OpConvertUToPtr, w_.Pointer(spv::StorageClass::PhysicalStorageBuffer, u64),
                {Add(64, block, U64(8 * i))});
    arguments_[i] = w_.Emit(spv::Op::OpLoad, u64,
                            {at, static_cast<uint32_t>(spv::MemoryAccessMask::Aligned), 8});
  }
  DeclareWorkgroupMemory();
}

Status KernelLowering::LowerBlock(kernel::BlockId block) {
  for (kernel::OpId id : kernel_.blocks[block].ops) {
    const Op& op = kernel_.ops[id];
    if (op.opcode != Opcode::kYield) HY_TRY(LowerOp(op));
  }
  return OkStatus();
}

Status KernelLowering::LowerOp(const Op& op) {
  switch (kernel::InfoOf(op.opcode).op_class) {
    case kernel::OpClass::kSource:
      return LowerSource(op);
    case kernel::OpClass::kLanes:
    case kernel::OpClass::kSelect:
      LowerLanes(op);
      return OkStatus();
    case kernel::OpClass::kArithmetic:
      return op.type.IsFragment() ? LowerFragment(op) : LowerArithmetic(op);
    case kernel::OpClass::kCompare: {
      const Lanes a = Of(op.operands[0]);
      const Lanes b = Of(op.operands[1]);
      const Lanes out = Of(op.results[0]);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = Compare(op.opcode, TypeOf(op.operands[0]).dtype, a[i], b[i]);
      }
      return OkStatus();
    }
    case kernel::OpClass::kConvert: {
      if (op.type.IsFragment()) return LowerFragment(op);
      if (op.opcode == Opcode::kBitcast) {
        LowerBitcast(op);
        return OkStatus();
      }
      const Lanes a = Of(op.operands[0]);
      const Lanes out = Of(op.results[0]);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = i > 0 && a[i] == a[0] ? out[0]
                                       : Convert(a[i], TypeOf(op.operands[0]).dtype, op.type.dtype);
      }
      return OkStatus();
    }
    case kernel::OpClass::kMemory:
      return LowerMemory(op);
    case kernel::OpClass::kReduce:
      LowerReduce(op);
      return OkStatus();
    case kernel::OpClass::kFragment:
      return LowerFragment(op);
    case kernel::OpClass::kGpu:
      return LowerGpu(op);
    case kernel::OpClass::kCpu:
      return Unimplemented("Kernel '{}' has the op '{}', which only CPUs have.", kernel_.name,
                           kernel::FormatOpcode(op.opcode));
    case kernel::OpClass::kControl:
      break;
  }
  if (op.opcode == Opcode::kFor) return LowerFor(op);
  if (op.opcode == Opcode::kIf) return LowerIf(op);
  LowerReport(op);
  return OkStatus();
}

Status KernelLowering::LowerSource(const Op& op) {
  const Lanes out = Of(op.results[0]);
  const Id u32 = w_.Int(32);
  const auto axis_of = [&](spv::BuiltIn builtin) {
    const Id vector = w_.Vector(u32, 3);
    const Id all = w_.Emit(spv::Op::OpLoad, vector, {w_.Builtin(builtin, vector)});
    return w_.Emit(spv::Op::OpCompositeExtract, u32,
                   {all, static_cast<uint32_t>(op.immediates[0])});
  };
  const auto load = [&](spv::BuiltIn builtin) {
    w_.Require(spv::Capability::GroupNonUniform);
    return w_.Emit(spv::Op::OpLoad, u32, {w_.Builtin(builtin, u32)});
  };
  Id value = 0;
  switch (op.opcode) {
    case Opcode::kConst: {
      const Id lane = Constant(op.type.dtype, op.immediates[0]);
      for (Id& id : out) id = lane;
      return OkStatus();
    }
    case Opcode::kScalar:
      out[0] = arguments_[arguments_.size() - 2 - kernel_.scalars.size() +
                          static_cast<size_t>(op.immediates[0])];
      return OkStatus();
    case Opcode::kIota:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = Constant(op.type.dtype, static_cast<int64_t>(i));
      }
      return OkStatus();
    case Opcode::kWorkgroupId:
      value = axis_of(spv::BuiltIn::WorkgroupId);
      break;
    case Opcode::kWorkitemId:
      value = axis_of(spv::BuiltIn::LocalInvocationId);
      break;
    case Opcode::kSubgroupLane:
      value = load(spv::BuiltIn::SubgroupLocalInvocationId);
      break;
    case Opcode::kSubgroupSize:
      value = load(spv::BuiltIn::SubgroupSize);
      break;
    case Opcode::kSubgroupId:
      value = load(spv::BuiltIn::SubgroupId);
      break;
    default:
      HY_UNREACHABLE("{} is no source", kernel::FormatOpcode(op.opcode));
  }
  out[0] = Widen(value, 32, BitWidth(op.type.dtype), false);
  return OkStatus();
}

void KernelLowering::LowerLanes(const Op& op) {
  const Lanes a = Of(op.operands[0]);
  const Lanes b = op.operands.size() > 1 ? Of(op.operands[1]) : Lanes();
  const Lanes out = Of(op.results[0]);
  const size_t at = op.immediates.empty() ? 0 : static_cast<size_t>(op.immediates[0]);
  switch (op.opcode) {
    case Opcode::kSplat:
      for (Id& id : out) id = a[0];
      return;
    case Opcode::kExtract:
      out[0] = a[at];
      return;
    case Opcode::kInsert:
      for (size_t i = 0; i < out.size(); ++i) out[i] = i == at ? b[0] : a[i];
      return;
    case Opcode::kShuffle:
      for (size_t i = 0; i < out.size(); ++i) {
        const auto lane = static_cast<size_t>(op.immediates[i]);
        out[i] = lane < a.size() ? a[lane] : b[lane - a.size()];
      }
      return;
    default: {
      const Lanes c = Of(op.operands[2]);
      const Id type = op.type.IsFragment() ? FragmentType(op.type) : ElementType(op.type.dtype);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = Select(a[a.size() == 1 ? 0 : i], type, b[i], c[i]);
      }
    }
  }
}

Status KernelLowering::LowerGpu(const Op& op) {
  switch (op.opcode) {
    case Opcode::kBarrier:
      Barrier();
      return OkStatus();
    case Opcode::kLastArrival:
      LowerLastArrival(op);
      return OkStatus();
    case Opcode::kAsyncCopy:
      LowerAsyncCopy(op);
      return OkStatus();
    case Opcode::kAwaitDispatches:
    case Opcode::kReleaseDispatches:  // dispatches begin behind barriers
    case Opcode::kAsyncCommit:
    case Opcode::kAsyncWait:  // the copies took effect at once
      return OkStatus();
    case Opcode::kSubgroupShuffle:
    case Opcode::kSubgroupShuffleXor: {
      w_.Require(spv::Capability::GroupNonUniform);
      w_.Require(spv::Capability::GroupNonUniformShuffle);
      const bool is_xor = op.opcode == Opcode::kSubgroupShuffleXor;
      const Id operand =
          is_xor ? U32(static_cast<uint32_t>(op.immediates[0])) : ScalarOf(op.operands[1]);
      const Lanes a = Of(op.operands[0]);
      const Lanes out = Of(op.results[0]);
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = Shuffled(
            a[i], op.type.dtype,
            is_xor ? spv::Op::OpGroupNonUniformShuffleXor : spv::Op::OpGroupNonUniformShuffle,
            operand);
      }
      return OkStatus();
    }
    default:
      return Unimplemented("Kernel '{}' has the op '{}', which the SPIR-V emitter does not have.",
                           kernel_.name, kernel::FormatOpcode(op.opcode));
  }
}

}  // namespace halyard::spirv
