// SPDX-License-Identifier: Apache-2.0
// Constants, arithmetic, comparisons and lane reductions. Every sequence here gives the bits that
// compiler/kernel/kernel_ir.h states, within the bounds that emit.h names.
#include <spirv/unified1/GLSL.std.450.h>
#include <bit>

#include "base/check.h"
#include "base/float16.h"
#include "compiler/codegen/spirv/lower.h"
#include "compiler/kernel/opcode.h"

namespace halyard::spirv {

using kernel::Opcode;

Id KernelLowering::Constant(DType dtype, int64_t bits) {
  const double value = std::bit_cast<double>(bits);
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::kBool:
      return w_.ConstBool(bits != 0);
    case DType::kF64:
      ElementType(dtype);  // its capability
      return w_.ConstFloat(64, static_cast<uint64_t>(bits));
    case DType::kF32:
      return w_.ConstFloat(32, std::bit_cast<uint32_t>(single));
    case DType::kF16:
      ElementType(dtype);
      return w_.ConstFloat(16, F16FromF32(single));
    case DType::kBF16:
      ElementType(dtype);
      return w_.ConstInt(16, BF16FromF32(single));
    default:
      ElementType(dtype);
      return w_.ConstInt(BitWidth(dtype), static_cast<uint64_t>(bits));
  }
}

Id KernelLowering::Exact(Id value) {
  w_.Decorate(value, spv::Decoration::NoContraction);
  return value;
}

Id KernelLowering::Shift(bool is_left, DType dtype, Id a, Id b) {
  const int bits = BitWidth(dtype);
  const Id type = ElementType(dtype);
  const bool is_arithmetic = !is_left && IsSigned(dtype);
  const spv::Op op = is_left         ? spv::Op::OpShiftLeftLogical
                     : is_arithmetic ? spv::Op::OpShiftRightArithmetic
                                     : spv::Op::OpShiftRightLogical;
  const auto width = static_cast<uint64_t>(bits);
  const auto known = w_.IntValue(b);
  if (known && *known < width) return w_.Emit(op, type, {a, b});
  const Id fits = w_.Emit(spv::Op::OpULessThan, w_.Bool(), {b, w_.ConstInt(bits, width)});
  const Id amount = Select(fits, type, b, w_.ConstInt(bits, width - 1));
  const Id shifted = w_.Emit(op, type, {a, amount});
  return is_arithmetic ? shifted : Select(fits, type, shifted, w_.ConstInt(bits, 0));
}

// Where the CPU has no instruction for so wide a vector of f64 (without AVX-512), llvmpipe goes
// through integers: GLSL's RoundEven then rounds halves wrongly, and Trunc loses the sign of zero.
// A sum with 2^52 has no bits left for a fraction.
Id KernelLowering::RoundEvenF64(Id a) {
  const Id type = ElementType(DType::kF64);
  const Id two_52 = w_.ConstFloat(64, uint64_t{0x433} << 52);
  const Id magnitude = FloatArithmetic(Opcode::kAbs, DType::kF64, a, {}, {});
  const Id sum = FloatArithmetic(Opcode::kAdd, DType::kF64, magnitude, two_52, {});
  const Id whole = FloatArithmetic(Opcode::kSub, DType::kF64, sum, two_52, {});
  const Id has_fraction = w_.Emit(spv::Op::OpFOrdLessThan, w_.Bool(), {magnitude, two_52});
  return Select(has_fraction, type, FloatArithmetic(Opcode::kCopySign, DType::kF64, whole, a, {}),
                a);
}

Id KernelLowering::FloatArithmetic(Opcode opcode, DType dtype, Id a, Id b, Id c) {
  const Id type = ElementType(dtype);
  switch (opcode) {
    case Opcode::kAdd:
      return Exact(w_.Emit(spv::Op::OpFAdd, type, {a, b}));
    case Opcode::kSub:
      return Exact(w_.Emit(spv::Op::OpFSub, type, {a, b}));
    case Opcode::kMul:
      return Exact(w_.Emit(spv::Op::OpFMul, type, {a, b}));
    case Opcode::kDiv:
      return Exact(w_.Emit(spv::Op::OpFDiv, type, {a, b}));
    case Opcode::kMin:
    case Opcode::kMax: {
      const spv::Op less =
          opcode == Opcode::kMin ? spv::Op::OpFOrdLessThan : spv::Op::OpFOrdGreaterThan;
      const Id wins = w_.Emit(less, w_.Bool(), {a, b});
      const Id is_nan = w_.Emit(spv::Op::OpIsNan, w_.Bool(), {a});
      return Select(w_.Emit(spv::Op::OpLogicalOr, w_.Bool(), {wins, is_nan}), type, a, b);
    }
    case Opcode::kNeg:
      return Exact(w_.Emit(spv::Op::OpFNegate, type, {a}));
    case Opcode::kAbs: {  // by its bits, which keeps subnormal numbers everywhere
      const int bits = BitWidth(dtype);
      const Id integer = w_.Int(bits);
      const Id x = w_.Emit(spv::Op::OpBitcast, integer, {a});
      const Id mask = w_.ConstInt(bits, (uint64_t{1} << (bits - 1)) - 1);
      const Id magnitude = w_.Emit(spv::Op::OpBitwiseAnd, integer, {x, mask});
      return w_.Emit(spv::Op::OpBitcast, type, {magnitude});
    }
    case Opcode::kFma:
      return Exact(w_.EmitGlsl(GLSLstd450Fma, type, {a, b, c}));
    case Opcode::kExp2:
      return w_.EmitGlsl(GLSLstd450Exp2, type, {a});
    case Opcode::kSqrt:
      return w_.EmitGlsl(GLSLstd450Sqrt, type, {a});
    case Opcode::kFloor:
      return w_.EmitGlsl(GLSLstd450Floor, type, {a});
    case Opcode::kCeil:
      return w_.EmitGlsl(GLSLstd450Ceil, type, {a});
    case Opcode::kTrunc: {
      const Id whole = w_.EmitGlsl(GLSLstd450Trunc, type, {a});
      return dtype == DType::kF64 ? FloatArithmetic(Opcode::kCopySign, dtype, whole, a, {}) : whole;
    }
    case Opcode::kRoundEven:
      return dtype == DType::kF64 ? RoundEvenF64(a) : w_.EmitGlsl(GLSLstd450RoundEven, type, {a});
    case Opcode::kCopySign: {
      const int bits = BitWidth(dtype);
      const Id integer = w_.Int(bits);
      const uint64_t sign = uint64_t{1} << (bits - 1);
      const Id x = w_.Emit(spv::Op::OpBitcast, integer, {a});
      const Id y = w_.Emit(spv::Op::OpBitcast, integer, {b});
      const Id magnitude =
          w_.Emit(spv::Op::OpBitwiseAnd, integer, {x, w_.ConstInt(bits, sign - 1)});
      const Id of_b = w_.Emit(spv::Op::OpBitwiseAnd, integer, {y, w_.ConstInt(bits, sign)});
      return w_.Emit(spv::Op::OpBitcast, type,
                     {w_.Emit(spv::Op::OpBitwiseOr, integer, {magnitude, of_b})});
    }
    default:
      HY_UNREACHABLE("{} on floats", kernel::FormatOpcode(opcode));
  }
}

Id KernelLowering::IntArithmetic(Opcode opcode, DType dtype, Id a, Id b) {
  const int bits = BitWidth(dtype);
  const Id type = ElementType(dtype);
  const bool is_signed = IsSigned(dtype);
  switch (opcode) {
    case Opcode::kAdd:
      return Add(bits, a, b);
    case Opcode::kSub:
      return w_.Emit(spv::Op::OpISub, type, {a, b});
    case Opcode::kMul:
      return Mul(bits, a, b);
    case Opcode::kDiv:
      return Divide(false, dtype, a, b);
    case Opcode::kRem:
      return Divide(true, dtype, a, b);
    case Opcode::kMin:
    case Opcode::kMax: {
      const Opcode first = opcode == Opcode::kMin ? Opcode::kLt : Opcode::kGt;
      return Select(Compare(first, dtype, a, b), type, a, b);
    }
    case Opcode::kNeg:
      return w_.Emit(spv::Op::OpSNegate, type, {a});
    case Opcode::kAbs: {
      if (!is_signed) return a;
      const Id is_negative = Compare(Opcode::kLt, dtype, a, w_.ConstInt(bits, 0));
      return Select(is_negative, type, w_.Emit(spv::Op::OpSNegate, type, {a}), a);
    }
    case Opcode::kAnd:
      return w_.Emit(spv::Op::OpBitwiseAnd, type, {a, b});
    case Opcode::kOr:
      return w_.Emit(spv::Op::OpBitwiseOr, type, {a, b});
    case Opcode::kXor:
      return w_.Emit(spv::Op::OpBitwiseXor, type, {a, b});
    case Opcode::kNot:
      return w_.Emit(spv::Op::OpNot, type, {a});
    case Opcode::kShl:
    case Opcode::kShr:
      return Shift(opcode == Opcode::kShl, dtype, a, b);
    default:
      HY_UNREACHABLE("{} on integers", kernel::FormatOpcode(opcode));
  }
}

Id KernelLowering::Arithmetic(Opcode opcode, DType dtype, Id a, Id b, Id c) {
  if (IsFloat(dtype)) return FloatArithmetic(opcode, dtype, a, b, c);
  if (dtype != DType::kBool) return IntArithmetic(opcode, dtype, a, b);
  switch (opcode) {
    case Opcode::kAnd:
      return w_.Emit(spv::Op::OpLogicalAnd, w_.Bool(), {a, b});
    case Opcode::kOr:
      return w_.Emit(spv::Op::OpLogicalOr, w_.Bool(), {a, b});
    case Opcode::kXor:
      return w_.Emit(spv::Op::OpLogicalNotEqual, w_.Bool(), {a, b});
    default:
      return w_.Emit(spv::Op::OpLogicalNot, w_.Bool(), {a});
  }
}

Status KernelLowering::LowerArithmetic(const Op& op) {
  const bool is_exp2 = op.opcode == Opcode::kExp2 && op.type.dtype == DType::kF32;
  if (kernel::InfoOf(op.opcode).transcendental && !is_exp2) {
    return Unimplemented(
        "Kernel '{}' has the op '{}' of {}; expand-math must run before code generation.",
        kernel_.name, kernel::FormatOpcode(op.opcode), FormatDType(op.type.dtype));
  }
  const Lanes a = Of(op.operands[0]);
  const Lanes b = op.operands.size() > 1 ? Of(op.operands[1]) : a;
  const Lanes c = op.operands.size() > 2 ? Of(op.operands[2]) : a;
  const Lanes out = Of(op.results[0]);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool is_splat = i > 0 && a[i] == a[0] && b[i] == b[0] && c[i] == c[0];
    out[i] = is_splat ? out[0] : Arithmetic(op.opcode, op.type.dtype, a[i], b[i], c[i]);
  }
  return OkStatus();
}

// The 32-bit integer whose sign extension a 64-bit one is.
std::optional<Id> KernelLowering::Narrowed(Id value) const {
  if (const auto at = sign_extended_.find(value); at != sign_extended_.end()) return at->second;
  return std::nullopt;
}

// By 32-bit halves. Mesa 22.3 has a rule for comparisons of extended integers with constants that
// gives wrong results, and unrolls loops in which such a comparison hides: of an extended integer
// plus what is 0 in one iteration.
Id KernelLowering::CompareHalves(Opcode opcode, DType dtype, Id a, Id b) {
  const auto half = [&](Id x, bool is_high) {
    if (const auto known = w_.IntValue(x)) {
      return U32(static_cast<uint32_t>(is_high ? *known >> 32 : *known));
    }
    const Id at =
        is_high ? w_.Emit(spv::Op::OpShiftRightLogical, w_.Int(64), {x, w_.ConstInt(64, 32)}) : x;
    return w_.Emit(spv::Op::OpUConvert, w_.Int(32), {at});
  };
  const Id high_a = half(a, true), high_b = half(b, true);
  const Id low = Compare(opcode, DType::kU32, half(a, false), half(b, false));
  if (opcode == Opcode::kEq || opcode == Opcode::kNe) {
    const spv::Op both = opcode == Opcode::kEq ? spv::Op::OpLogicalAnd : spv::Op::OpLogicalOr;
    return w_.Emit(both, w_.Bool(), {Compare(opcode, DType::kU32, high_a, high_b), low});
  }
  const bool is_less = opcode == Opcode::kLt || opcode == Opcode::kLe;
  const Id differs = Compare(is_less ? Opcode::kLt : Opcode::kGt,
                             dtype == DType::kI64 ? DType::kI32 : DType::kU32, high_a, high_b);
  const Id same = Compare(Opcode::kEq, DType::kU32, high_a, high_b);
  return w_.Emit(spv::Op::OpLogicalOr, w_.Bool(),
                 {differs, w_.Emit(spv::Op::OpLogicalAnd, w_.Bool(), {same, low})});
}

Id KernelLowering::Compare(Opcode opcode, DType dtype, Id a, Id b) {
  if (dtype == DType::kI64 || dtype == DType::kU64) {
    // Sign extension keeps every order, and half as many bits are faster.
    const std::optional<Id> x = Narrowed(a), y = Narrowed(b);
    const std::optional<uint64_t> known = x ? w_.IntValue(b) : y ? w_.IntValue(a) : std::nullopt;
    const bool fits = known && *known == static_cast<uint64_t>(
                                             static_cast<int64_t>(static_cast<int32_t>(*known)));
    const DType narrow = dtype == DType::kI64 ? DType::kI32 : DType::kU32;
    if (x && y) return Compare(opcode, narrow, *x, *y);
    if (x && fits) return Compare(opcode, narrow, *x, U32(static_cast<uint32_t>(*known)));
    if (y && fits) return Compare(opcode, narrow, U32(static_cast<uint32_t>(*known)), *y);
    if (w_.IntValue(a).has_value() != w_.IntValue(b).has_value()) {
      return CompareHalves(opcode, dtype, a, b);
    }
  }
  struct Row {
    spv::Op if_float, if_signed, if_unsigned;
  };
  Row row{};
  switch (opcode) {
    case Opcode::kEq:
      row = {spv::Op::OpFOrdEqual, spv::Op::OpIEqual, spv::Op::OpIEqual};
      if (dtype == DType::kBool) row.if_unsigned = spv::Op::OpLogicalEqual;
      break;
    case Opcode::kNe:
      row = {spv::Op::OpFUnordNotEqual, spv::Op::OpINotEqual, spv::Op::OpINotEqual};
      if (dtype == DType::kBool) row.if_unsigned = spv::Op::OpLogicalNotEqual;
      break;
    case Opcode::kLt:
      row = {spv::Op::OpFOrdLessThan, spv::Op::OpSLessThan, spv::Op::OpULessThan};
      break;
    case Opcode::kLe:
      row = {spv::Op::OpFOrdLessThanEqual, spv::Op::OpSLessThanEqual, spv::Op::OpULessThanEqual};
      break;
    case Opcode::kGt:
      row = {spv::Op::OpFOrdGreaterThan, spv::Op::OpSGreaterThan, spv::Op::OpUGreaterThan};
      break;
    default:
      row = {spv::Op::OpFOrdGreaterThanEqual, spv::Op::OpSGreaterThanEqual,
             spv::Op::OpUGreaterThanEqual};
      break;
  }
  const spv::Op op = IsFloat(dtype)    ? row.if_float
                     : IsSigned(dtype) ? row.if_signed
                                       : row.if_unsigned;
  return w_.Emit(op, w_.Bool(), {a, b});
}

// Pairwise halves, as the IR states.
void KernelLowering::LowerReduce(const Op& op) {
  static constexpr std::pair<Opcode, Opcode> kCombine[] = {
      {Opcode::kReduceAdd, Opcode::kAdd}, {Opcode::kReduceMul, Opcode::kMul},
      {Opcode::kReduceMin, Opcode::kMin}, {Opcode::kReduceMax, Opcode::kMax},
      {Opcode::kReduceAnd, Opcode::kAnd}, {Opcode::kReduceOr, Opcode::kOr}};
  Opcode combine = Opcode::kAdd;
  for (const auto& [reduce, with] : kCombine) {
    if (reduce == op.opcode) combine = with;
  }
  const Lanes operand = Of(op.operands[0]);
  std::vector<Id> lanes(operand.begin(), operand.end());
  for (size_t half = lanes.size() / 2; half >= 1; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      lanes[i] = Arithmetic(combine, op.type.dtype, lanes[i], lanes[i + half], 0);
    }
  }
  Of(op.results[0])[0] = lanes[0];
}

}  // namespace halyard::spirv
