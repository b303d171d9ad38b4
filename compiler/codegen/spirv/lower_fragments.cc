// SPDX-License-Identifier: Apache-2.0
// Matrix fragments as KHR cooperative matrices of subgroup scope.
#include <bit>

#include "base/check.h"
#include "compiler/codegen/spirv/khr_enums.h"
#include "compiler/codegen/spirv/lower.h"
#include "compiler/kernel/opcode.h"

namespace halyard::spirv {

using kernel::FragmentLayout;
using kernel::FragmentUse;
using kernel::MemorySpace;
using kernel::Opcode;

Status KernelLowering::CheckFragment(kernel::Type type) {
  for (const MatrixShape& shape : target_.gpu.matrix_shapes) {
    const bool is_accumulator = type.use == FragmentUse::kAccumulator;
    const int32_t rows = type.use == FragmentUse::kB ? shape.k : shape.m;
    const int32_t cols = type.use == FragmentUse::kA ? shape.k : shape.n;
    if (type.dtype == (is_accumulator ? shape.accumulator : shape.input) && type.rows == rows &&
        type.cols == cols) {
      return OkStatus();
    }
  }
  return Unimplemented("Kernel '{}' has a fragment {}; target '{}' has no matrix unit for it.",
                       kernel_.name, kernel::FormatType(type), target_.name);
}

// Unlike elsewhere, signed integers have a signed type: Vulkan tells the matrix units by it.
Id KernelLowering::FragmentComponent(DType dtype) {
  if (dtype == DType::kBF16) {
    w_.Require(kCapabilityBFloat16Type);
    w_.Require(kCapabilityBFloat16CooperativeMatrix);
    w_.RequireExtension("SPV_KHR_bfloat16");
    return w_.BFloat16();
  }
  const Id element = ElementType(dtype);
  return IsInteger(dtype) ? w_.Int(BitWidth(dtype), IsSigned(dtype)) : element;
}

Id KernelLowering::FragmentType(kernel::Type type) {
  w_.Require(kCapabilityCooperativeMatrix);
  w_.RequireExtension("SPV_KHR_cooperative_matrix");
  const uint32_t use = type.use == FragmentUse::kA   ? kMatrixUseA
                       : type.use == FragmentUse::kB ? kMatrixUseB
                                                     : kMatrixUseAccumulator;
  return w_.Matrix(FragmentComponent(type.dtype), type.rows, type.cols, use);
}

// A pointer into an array, as the extension asks for: of elements in global memory, of the widest
// vectors that `align` allows in workgroup memory.
Id KernelLowering::FragmentPointer(const Op& op, Chunk* out_chunk) {
  const kernel::Buffer& buffer = kernel_.buffers[op.buffer];
  const Id index = ScalarOf(op.operands[0]);
  const int bits = BitWidth(TypeOf(op.operands[0]).dtype);
  if (buffer.space == MemorySpace::kWorkgroup) {
    *out_chunk = ChunkOf(op.buffer, kernel::kMaxLanes, kernel::AlignOf(op));
    return PointerTo(op.buffer, index, bits, 0, *out_chunk);
  }
  *out_chunk = ChunkOf(op.buffer, 1, 1);
  if (out_chunk->bytes == 1) w_.Require(spv::Capability::StorageBuffer8BitAccess);
  if (out_chunk->bytes == 2) w_.Require(spv::Capability::StorageBuffer16BitAccess);
  const auto storage = spv::StorageClass::PhysicalStorageBuffer;
  const Id block = w_.ArrayBlock(out_chunk->component, 0, static_cast<uint32_t>(out_chunk->bytes));
  const Id base = w_.Emit(spv::Op::OpConvertUToPtr, w_.Pointer(storage, block),
                          {GlobalAddress(op.buffer, index, bits, 0)});
  return w_.Emit(spv::Op::OpAccessChain, w_.Pointer(storage, out_chunk->component),
                 {base, U32(0), U32(0)});
}

Status KernelLowering::LowerFragment(const Op& op) {
  const Id type = op.type.IsFragment() ? FragmentType(op.type) : 0;
  const auto set = [&](Id id) {
    Of(op.results[0])[0] = id;
    return OkStatus();
  };
  switch (op.opcode) {
    case Opcode::kFragmentFill: {
      const Id component = FragmentComponent(op.type.dtype);
      Id value = ScalarOf(op.operands[0]);
      if (component != ElementType(op.type.dtype)) {
        value = w_.Emit(spv::Op::OpBitcast, component, {value});
      }
      return set(w_.Emit(spv::Op::OpCompositeConstruct, type, {value}));
    }
    case Opcode::kFragmentLoad:
    case Opcode::kFragmentStore: {
      const bool is_load = op.opcode == Opcode::kFragmentLoad;
      Chunk chunk;
      const Id pointer = FragmentPointer(op, &chunk);
      const bool is_rows = op.immediates[0] == static_cast<int64_t>(FragmentLayout::kRowMajor);
      const Id layout = U32(is_rows ? kMatrixRowMajor : kMatrixColumnMajor);
      const kernel::ValueId stride_value = op.operands[is_load ? 1 : 2];
      Id stride = Widen(ScalarOf(stride_value), BitWidth(TypeOf(stride_value).dtype), 32, true);
      if (chunk.count > 1) {
        const auto known = w_.IntValue(stride);
        const auto shift =
            static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(chunk.count)));
        stride = known ? U32(static_cast<uint32_t>(*known) >> shift)
                       : w_.Emit(spv::Op::OpShiftRightLogical, w_.Int(32), {stride, U32(shift)});
      }
      if (kernel_.buffers[op.buffer].space == MemorySpace::kGlobal) {
        // What index and stride are multiples of.
        const int64_t align = kernel::AlignOf(op);
        chunk.bytes = static_cast<int>(std::min<int64_t>(chunk.bytes * (align & -align), 16));
      }
      std::vector<uint32_t> operands = {pointer};
      if (!is_load) operands.push_back(ScalarOf(op.operands[1]));
      operands.push_back(layout);
      operands.push_back(stride);
      for (uint32_t word : AccessOperands(op.buffer, chunk, is_load)) operands.push_back(word);
      if (is_load) return set(w_.Emit(kOpCooperativeMatrixLoad, type, operands));
      w_.EmitVoid(kOpCooperativeMatrixStore, operands);
      return OkStatus();
    }
    case Opcode::kFragmentMma: {
      const kernel::Type a = TypeOf(op.operands[0]);
      const kernel::Type b = TypeOf(op.operands[1]);
      bool has_shape = false;
      for (const MatrixShape& shape : target_.gpu.matrix_shapes) {
        has_shape |= shape == MatrixShape{a.dtype, op.type.dtype, a.rows, b.cols, a.cols};
      }
      if (!has_shape) {
        return Unimplemented("Kernel '{}' multiplies {} by {} into {}; target '{}' cannot.",
                             kernel_.name, kernel::FormatType(a), kernel::FormatType(b),
                             kernel::FormatType(op.type), target_.name);
      }
      uint32_t signs = 0;
      if (IsInteger(a.dtype) && IsSigned(a.dtype)) signs |= kMatrixASigned;
      if (IsInteger(b.dtype) && IsSigned(b.dtype)) signs |= kMatrixBSigned;
      if (IsInteger(op.type.dtype) && IsSigned(op.type.dtype)) {
        signs |= kMatrixCSigned | kMatrixResultSigned;
      }
      std::vector<uint32_t> operands = {ScalarOf(op.operands[0]), ScalarOf(op.operands[1]),
                                        ScalarOf(op.operands[2])};
      if (signs != 0) operands.push_back(signs);
      return set(w_.Emit(kOpCooperativeMatrixMulAdd, type, operands));
    }
    case Opcode::kAdd:
    case Opcode::kMul: {
      const bool is_add = op.opcode == Opcode::kAdd;
      const bool is_float = IsFloat(op.type.dtype);
      const spv::Op code = is_add ? (is_float ? spv::Op::OpFAdd : spv::Op::OpIAdd)
                                  : (is_float ? spv::Op::OpFMul : spv::Op::OpIMul);
      const Id id = w_.Emit(code, type, {ScalarOf(op.operands[0]), ScalarOf(op.operands[1])});
      return set(is_float ? Exact(id) : id);
    }
    case Opcode::kConvert: {
      const DType from = TypeOf(op.operands[0]).dtype;
      const DType to = op.type.dtype;
      if (from == to) return set(ScalarOf(op.operands[0]));
      if (!IsFloat(to)) break;  // saturation has no elementwise form
      return set(w_.Emit(IsFloat(from) ? spv::Op::OpFConvert : spv::Op::OpConvertSToF, type,
                         {ScalarOf(op.operands[0])}));
    }
    default:
      break;
  }
  return Unimplemented("Kernel '{}' has the op '{}' on {}, which cooperative matrices do not have.",
                       kernel_.name, kernel::FormatOpcode(op.opcode), kernel::FormatType(op.type));
}

}  // namespace halyard::spirv
