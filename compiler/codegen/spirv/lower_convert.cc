// SPDX-License-Identifier: Apache-2.0
// Value conversions, reinterpretation of bits and shuffles between workitems.
#include <bit>
#include <cmath>

#include "compiler/codegen/spirv/lower.h"

namespace halyard::spirv {

// SPIR-V leaves what does not fit undefined, so only what fits is converted.
Id KernelLowering::FloatToInt(Id value, DType from, DType to) {
  const int bits = BitWidth(to);
  const bool is_signed = IsSigned(to);
  const int wide = bits < 32 ? 32 : bits;
  const Id type = w_.Int(bits);
  const Id float_type = ElementType(from);
  const auto constant = [&](double number) {
    return Constant(from, std::bit_cast<int64_t>(number));
  };
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const double lowest = is_signed ? -limit : 0;
  const uint64_t largest = is_signed ? (uint64_t{1} << (bits - 1)) - 1 : ~uint64_t{0};
  const Id above_lowest =
      w_.Emit(spv::Op::OpFOrdGreaterThanEqual, w_.Bool(), {value, constant(lowest)});
  const Id below_limit = w_.Emit(spv::Op::OpFOrdLessThan, w_.Bool(), {value, constant(limit)});
  const Id fits = w_.Emit(spv::Op::OpLogicalAnd, w_.Bool(), {above_lowest, below_limit});
  const Id safe = Select(fits, float_type, value, constant(0));
  const Id converted =
      w_.Emit(is_signed ? spv::Op::OpConvertFToS : spv::Op::OpConvertFToU, w_.Int(wide), {safe});
  Id result = Widen(converted, wide, bits, is_signed);
  const Id is_large = w_.Emit(spv::Op::OpFOrdGreaterThanEqual, w_.Bool(), {value, constant(limit)});
  result = Select(is_large, type, w_.ConstInt(bits, largest), result);
  if (!is_signed) return result;
  const Id is_small = w_.Emit(spv::Op::OpFOrdLessThan, w_.Bool(), {value, constant(lowest)});
  return Select(is_small, type, w_.ConstInt(bits, uint64_t{1} << (bits - 1)), result);
}

Id KernelLowering::F32ToBF16(Id value) {
  const Id u32 = w_.Int(32);
  // By hand: OpFConvert to bf16 rounds towards zero on NVIDIA's driver.
  const Id bits = w_.Emit(spv::Op::OpBitcast, u32, {value});
  const Id shifted = w_.Emit(spv::Op::OpShiftRightLogical, u32, {bits, U32(16)});
  const Id lowest = w_.Emit(spv::Op::OpBitwiseAnd, u32, {shifted, U32(1)});
  const Id bias = Add(32, lowest, U32(0x7fff));
  const Id rounded = Add(32, bits, bias);
  const Id is_nan = w_.Emit(spv::Op::OpIsNan, w_.Bool(), {value});
  const Id picked = Select(is_nan, u32, U32(0x7fc00000), rounded);
  const Id high = w_.Emit(spv::Op::OpShiftRightLogical, u32, {picked, U32(16)});
  const Id result = w_.Emit(spv::Op::OpUConvert, ElementType(DType::kBF16), {high});
  halves_[result] = {picked, true};
  return result;
}

Id KernelLowering::InHighHalf(const Half& half) {
  const Id u32 = w_.Int(32);
  return half.is_high ? w_.Emit(spv::Op::OpBitwiseAnd, u32, {half.word, U32(0xffff0000)})
                      : w_.Emit(spv::Op::OpShiftLeftLogical, u32, {half.word, U32(16)});
}

Id KernelLowering::JoinHalves(const Half& low, const Half& high) {
  if (low.word == high.word && !low.is_high && high.is_high) return low.word;
  const Id u32 = w_.Int(32);
  const Id lower = low.is_high ? w_.Emit(spv::Op::OpShiftRightLogical, u32, {low.word, U32(16)})
                               : w_.Emit(spv::Op::OpBitwiseAnd, u32, {low.word, U32(0xffff)});
  return w_.Emit(spv::Op::OpBitwiseOr, u32, {lower, InHighHalf(high)});
}

Id KernelLowering::Convert(Id value, DType from, DType to) {
  if (from == to) return value;
  const Id type = ElementType(to);
  if (from == DType::kF16 && to != DType::kF32) {
    return Convert(Convert(value, from, DType::kF32), DType::kF32, to);
  }
  if (from == DType::kBF16) {
    const auto half = halves_.find(value);
    const Id bits = half != halves_.end()
                        ? InHighHalf(half->second)
                        : InHighHalf({w_.Emit(spv::Op::OpUConvert, w_.Int(32), {value}), false});
    const Id single = w_.Emit(spv::Op::OpBitcast, w_.Float(32), {bits});
    return Convert(single, DType::kF32, to);
  }
  if (to == DType::kF16 && from != DType::kF32) {
    return Convert(Convert(value, from, DType::kF32), DType::kF32, to);
  }
  if (to == DType::kBF16) return F32ToBF16(Convert(value, from, DType::kF32));
  if (to == DType::kBool) {
    const int bits = BitWidth(from);
    Id number = value;
    if (IsFloat(from)) {  // all but the sign, which sees subnormal numbers everywhere
      const Id integer = w_.Int(bits);
      const Id x = w_.Emit(spv::Op::OpBitcast, integer, {value});
      const Id mask = w_.ConstInt(bits, (uint64_t{1} << (bits - 1)) - 1);
      number = w_.Emit(spv::Op::OpBitwiseAnd, integer, {x, mask});
    }
    return Compare(kernel::Opcode::kNe, bits == 64 ? DType::kI64 : DType::kI32, number,
                   w_.ConstInt(bits, 0));
  }
  if (from == DType::kBool) {
    const int64_t one = IsFloat(to) ? std::bit_cast<int64_t>(1.0) : 1;
    return Select(value, type, Constant(to, one), Constant(to, 0));
  }
  if (IsFloat(from)) {
    if (!IsFloat(to)) return FloatToInt(value, from, to);
    return w_.Emit(spv::Op::OpFConvert, type, {value});
  }
  const bool is_signed = IsSigned(from);
  const int bits = BitWidth(from);
  if (!IsFloat(to)) return Widen(value, bits, BitWidth(to), is_signed);
  const Id wide = bits < 32 ? Widen(value, bits, 32, is_signed) : value;
  return w_.Emit(is_signed ? spv::Op::OpConvertSToF : spv::Op::OpConvertUToF, type, {wide});
}

Id KernelLowering::Reinterpret(Id value, DType from, DType to) {
  const Id type = ElementType(to);
  return type == ElementType(from) ? value : w_.Emit(spv::Op::OpBitcast, type, {value});
}

std::vector<Id> KernelLowering::Split(Id value, int from_bits, int to_bits) {
  std::vector<Id> parts;
  if (from_bits > 4 * to_bits) {
    for (Id half : Split(value, from_bits, from_bits / 2)) {
      for (Id part : Split(half, from_bits / 2, to_bits)) parts.push_back(part);
    }
    return parts;
  }
  const int count = from_bits / to_bits;
  const Id vector = w_.Emit(spv::Op::OpBitcast, w_.Vector(IntType(to_bits), count), {value});
  for (int i = 0; i < count; ++i) {
    parts.push_back(
        w_.Emit(spv::Op::OpCompositeExtract, w_.Int(to_bits), {vector, static_cast<uint32_t>(i)}));
  }
  return parts;
}

Id KernelLowering::Join(std::span<const Id> parts, int from_bits, int to_bits) {
  if (to_bits > 4 * from_bits) {
    const size_t half = parts.size() / 2;
    const Id halves[2] = {Join(parts.first(half), from_bits, to_bits / 2),
                          Join(parts.subspan(half), from_bits, to_bits / 2)};
    return Join(halves, to_bits / 2, to_bits);
  }
  const int count = to_bits / from_bits;
  const Id vector =
      w_.Emit(spv::Op::OpCompositeConstruct, w_.Vector(IntType(from_bits), count), parts);
  return w_.Emit(spv::Op::OpBitcast, IntType(to_bits), {vector});
}

void KernelLowering::LowerBitcast(const Op& op) {
  const Lanes a = Of(op.operands[0]);
  const Lanes out = Of(op.results[0]);
  const DType from = TypeOf(op.operands[0]).dtype;
  const DType to = op.type.dtype;
  const int from_bits = BitWidth(from);
  const int to_bits = BitWidth(to);
  const auto bits_of = [&](Id value) {
    return IsFloat(from) && from != DType::kBF16
               ? w_.Emit(spv::Op::OpBitcast, IntType(from_bits), {value})
               : value;
  };
  const auto from_bits_of = [&](Id value) {
    return IsFloat(to) && to != DType::kBF16 ? w_.Emit(spv::Op::OpBitcast, ElementType(to), {value})
                                             : value;
  };
  if (from_bits == to_bits) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = Reinterpret(a[i], from, to);
  } else if (from_bits > to_bits) {
    size_t at = 0;
    for (Id value : a) {
      for (Id part : Split(bits_of(value), from_bits, to_bits)) out[at++] = from_bits_of(part);
    }
  } else {
    const auto count = static_cast<size_t>(to_bits / from_bits);
    for (size_t i = 0; i < out.size(); ++i) {
      std::vector<Id> parts;
      for (size_t j = 0; j < count; ++j) parts.push_back(bits_of(a[i * count + j]));
      out[i] = from_bits_of(Join(parts, from_bits, to_bits));
    }
  }
}

// The value that another workitem of the subgroup holds, by words of 32 bits.
Id KernelLowering::Shuffled(Id value, DType dtype, spv::Op op, Id operand) {
  const Id scope = U32(static_cast<uint32_t>(spv::Scope::Subgroup));
  const Id u32 = w_.Int(32);
  const int bits = BitWidth(dtype);
  if (bits == 32) return w_.Emit(op, ElementType(dtype), {scope, value, operand});
  if (dtype == DType::kBool) {
    const Id word = Select(value, u32, U32(1), U32(0));
    const Id shuffled = w_.Emit(op, u32, {scope, word, operand});
    return w_.Emit(spv::Op::OpINotEqual, w_.Bool(), {shuffled, U32(0)});
  }
  const bool is_float = IsFloat(dtype) && dtype != DType::kBF16;
  const Id number = is_float ? w_.Emit(spv::Op::OpBitcast, IntType(bits), {value}) : value;
  Id result = 0;
  if (bits == 64) {
    std::vector<Id> parts = Split(number, 64, 32);
    for (Id& part : parts) part = w_.Emit(op, u32, {scope, part, operand});
    result = Join(parts, 32, 64);
  } else {
    const Id word = Widen(number, bits, 32, false);
    result = Widen(w_.Emit(op, u32, {scope, word, operand}), 32, bits, false);
  }
  return is_float ? w_.Emit(spv::Op::OpBitcast, ElementType(dtype), {result}) : result;
}

}  // namespace halyard::spirv
