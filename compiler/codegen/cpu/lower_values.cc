// SPDX-License-Identifier: Apache-2.0
// Constants, arithmetic, comparisons, conversions and lane reductions in LLVM IR. Every sequence
// here gives the bits that compiler/kernel/kernel_ir.h states, without traps, poison or library
// calls.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <numeric>

#include "base/check.h"
#include "compiler/codegen/cpu/lower.h"
#include "compiler/kernel/opcode.h"

namespace halyard::cpu {

using kernel::Opcode;
namespace Intrinsic = llvm::Intrinsic;

namespace {

uint64_t MinSigned(int bits) { return uint64_t{1} << (bits - 1); }

}  // namespace

llvm::Value* KernelLowering::Constant(const Op& op) {
  const int64_t bits = op.immediates[0];
  llvm::Type* element = ElementType(op.type.dtype);
  llvm::Constant* lane = nullptr;
  if (IsFloat(op.type.dtype)) {
    const double value = std::bit_cast<double>(bits);
    if (op.type.dtype == DType::kF64) {
      lane = llvm::ConstantFP::get(element, value);
    } else {
      llvm::APFloat number(static_cast<float>(value));
      if (op.type.dtype == DType::kF32) {
        lane = llvm::ConstantFP::get(b_.getContext(), number);
      } else {
        bool loses = false;
        number.convert(
            op.type.dtype == DType::kF16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
            llvm::APFloat::rmNearestTiesToEven, &loses);
        lane = llvm::ConstantInt::get(element, number.bitcastToAPInt());
      }
    }
  } else {
    lane = llvm::ConstantInt::get(element, static_cast<uint64_t>(bits), true);
  }
  if (op.type.lanes == 1) return lane;
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(op.type.lanes), lane);
}

llvm::Value* KernelLowering::Shuffle(const Op& op) {
  llvm::SmallVector<int, 64> lanes(op.immediates.begin(), op.immediates.end());
  llvm::Value* result =
      b_.CreateShuffleVector(AsVector(Of(op.operands[0])), AsVector(Of(op.operands[1])), lanes);
  return op.type.lanes == 1 ? b_.CreateExtractElement(result, uint64_t{0}) : result;
}

llvm::Value* KernelLowering::MinMax(bool is_min, DType dtype, llvm::Value* a, llvm::Value* b) {
  if (IsFloat(dtype)) {
    // The select is one x86 instruction, which returns its second operand for equal operands and
    // NaN; only a NaN in the first operand is left to do.
    // As an intrinsic, because LLVM merges two selects into comparisons and a mask operation.
    llvm::Value* picked = nullptr;
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
    const unsigned lanes = type != nullptr && dtype == DType::kF32 ? type->getNumElements() : 0;
    if (lanes == 16 && features_.avx512) {
      constexpr int kCurrentRounding = 4;
      picked = b_.CreateIntrinsic(
          is_min ? Intrinsic::x86_avx512_min_ps_512 : Intrinsic::x86_avx512_max_ps_512, {},
          {a, b, b_.getInt32(kCurrentRounding)});
    } else if (lanes == 8 && features_.fma) {
      picked = b_.CreateIntrinsic(
          is_min ? Intrinsic::x86_avx_min_ps_256 : Intrinsic::x86_avx_max_ps_256, {}, {a, b});
    } else if (lanes == 4) {
      picked = b_.CreateIntrinsic(is_min ? Intrinsic::x86_sse_min_ps : Intrinsic::x86_sse_max_ps,
                                  {}, {a, b});
    } else {
      llvm::Value* first = is_min ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b);
      picked = b_.CreateSelect(first, a, b);
    }
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, picked);
  }
  const bool is_signed = IsSigned(dtype);
  const Intrinsic::ID id = is_min ? (is_signed ? Intrinsic::smin : Intrinsic::umin)
                                  : (is_signed ? Intrinsic::smax : Intrinsic::umax);
  return b_.CreateBinaryIntrinsic(id, a, b);
}

llvm::Value* KernelLowering::Divide(bool is_rem, DType dtype, llvm::Value* a, llvm::Value* b) {
  llvm::Type* type = a->getType();
  llvm::Value* zero = Int(type, 0);
  llvm::Value* one = Int(type, 1);
  llvm::Value* by_zero = b_.CreateICmpEQ(b, zero);
  // Division by 1 instead gives x/1 = x = INT_MIN and x%1 = 0, as stated for INT_MIN / -1.
  llvm::Value* unsafe = by_zero;
  if (IsSigned(dtype)) {
    llvm::Value* smallest = Int(type, static_cast<int64_t>(MinSigned(BitWidth(dtype))));
    llvm::Value* overflows =
        b_.CreateAnd(b_.CreateICmpEQ(a, smallest), b_.CreateICmpEQ(b, Int(type, -1)));
    unsafe = b_.CreateOr(by_zero, overflows);
  }
  llvm::Value* divisor = b_.CreateSelect(unsafe, one, b);
  if (is_rem) return IsSigned(dtype) ? b_.CreateSRem(a, divisor) : b_.CreateURem(a, divisor);
  llvm::Value* quotient = IsSigned(dtype) ? b_.CreateSDiv(a, divisor) : b_.CreateUDiv(a, divisor);
  return b_.CreateSelect(by_zero, zero, quotient);
}

llvm::Value* KernelLowering::Shift(bool is_left, DType dtype, llvm::Value* a, llvm::Value* b) {
  llvm::Type* type = a->getType();
  const int width = BitWidth(dtype);
  if (!is_left && IsSigned(dtype)) {
    return b_.CreateAShr(a, b_.CreateBinaryIntrinsic(Intrinsic::umin, b, Int(type, width - 1)));
  }
  llvm::Value* shifted = is_left ? b_.CreateShl(a, b) : b_.CreateLShr(a, b);
  return b_.CreateSelect(b_.CreateICmpULT(b, Int(type, width)), shifted, Int(type, 0));
}

// f32 only. The product of two f32 is exact in f64. The sum is rounded to odd (Boldo and Melquiond,
// 2008): with at least two bits more than f32, rounding the odd-rounded f64 to f32 equals rounding
// once.
llvm::Value* KernelLowering::SoftwareFma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  llvm::Type* single = a->getType();
  llvm::Type* wide = single->getWithNewType(b_.getDoubleTy());
  llvm::Type* bits_type = single->getWithNewType(b_.getInt64Ty());
  llvm::Value* product = b_.CreateFMul(b_.CreateFPExt(a, wide), b_.CreateFPExt(b, wide));
  llvm::Value* addend = b_.CreateFPExt(c, wide);
  llvm::Value* sum = b_.CreateFAdd(product, addend);
  // Knuth's two-sum: the exact error of `sum`; NaN when the sum is infinite or NaN.
  llvm::Value* part = b_.CreateFSub(sum, product);
  llvm::Value* error =
      b_.CreateFAdd(b_.CreateFSub(product, b_.CreateFSub(sum, part)), b_.CreateFSub(addend, part));
  llvm::Value* zero = llvm::ConstantFP::get(wide, 0.0);
  llvm::Value* bits = b_.CreateBitCast(sum, bits_type);
  llvm::Value* is_even = b_.CreateICmpEQ(b_.CreateAnd(bits, Int(bits_type, 1)), Int(bits_type, 0));
  llvm::Value* inexact = b_.CreateFCmpONE(error, zero);
  // Towards the error: a larger magnitude when error and sum have the same sign.
  llvm::Value* same_sign =
      b_.CreateICmpSGE(b_.CreateXor(b_.CreateBitCast(error, bits_type), bits), Int(bits_type, 0));
  llvm::Value* step = b_.CreateSelect(same_sign, Int(bits_type, 1), Int(bits_type, -1));
  llvm::Value* odd = b_.CreateBitCast(b_.CreateAdd(bits, step), wide);
  llvm::Value* rounded = b_.CreateSelect(b_.CreateAnd(inexact, is_even), odd, sum);
  return b_.CreateFPTrunc(rounded, single);
}

// In hardware as the instruction vscalefps, on vectors of 4, 8 or 16 lanes. Otherwise in f64, which
// holds every product that does not round to zero or infinity, so that only the last step rounds.
llvm::Value* KernelLowering::Scale(llvm::Value* x, llvm::Value* n) {
  if (!features_.avx512) {
    llvm::Type* wide = x->getType()->getWithNewType(b_.getDoubleTy());
    llvm::Type* bits_type = x->getType()->getWithNewType(b_.getInt64Ty());
    llvm::Value* whole = b_.CreateUnaryIntrinsic(Intrinsic::floor, n);
    llvm::Value* least = llvm::ConstantFP::get(x->getType(), -512);
    llvm::Value* most = llvm::ConstantFP::get(x->getType(), 512);
    llvm::Value* is_nan = b_.CreateFCmpUNO(n, n);
    whole = b_.CreateSelect(b_.CreateFCmpOGT(whole, least), whole, least);  // of a NaN: `least`
    whole = b_.CreateSelect(b_.CreateFCmpOLT(whole, most), whole, most);
    llvm::Value* exponent = b_.CreateFPToSI(whole, bits_type);
    llvm::Value* biased = b_.CreateAdd(exponent, Int(bits_type, 1023));
    llvm::Value* power = b_.CreateBitCast(b_.CreateShl(biased, Int(bits_type, 52)), wide);
    llvm::Value* product =
        b_.CreateFPTrunc(b_.CreateFMul(b_.CreateFPExt(x, wide), power), x->getType());
    return b_.CreateSelect(is_nan, n, product);
  }
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  const int lanes = type ? static_cast<int>(type->getNumElements()) : 1;
  const int width = lanes > 8 ? 16 : lanes > 4 ? 8 : 4;
  const Intrinsic::ID id = width == 16  ? Intrinsic::x86_avx512_mask_scalef_ps_512
                           : width == 8 ? Intrinsic::x86_avx512_mask_scalef_ps_256
                                        : Intrinsic::x86_avx512_mask_scalef_ps_128;
  x = AsVector(x);
  n = AsVector(n);
  llvm::Value* result = nullptr;
  for (int first = 0; first < lanes; first += width) {
    llvm::SmallVector<int, 16> part;  // beyond the last lane: any value
    for (int i = first; i < first + width; ++i) part.push_back(i < lanes ? i : -1);
    llvm::Value* xs = b_.CreateShuffleVector(x, part);
    llvm::Value* ns = b_.CreateShuffleVector(n, part);
    std::vector<llvm::Value*> arguments = {
        xs, ns, llvm::Constant::getNullValue(xs->getType()),
        llvm::Constant::getAllOnesValue(b_.getIntNTy(width == 16 ? 16 : 8))};
    constexpr int kCurrentRounding = 4;
    if (width == 16) arguments.push_back(b_.getInt32(kCurrentRounding));
    llvm::Value* scaled = b_.CreateIntrinsic(id, {}, arguments);
    if (lanes <= width) {
      llvm::SmallVector<int, 16> all(static_cast<size_t>(lanes));
      std::iota(all.begin(), all.end(), 0);
      result = b_.CreateShuffleVector(scaled, all);
      break;
    }
    // The parts side by side.
    llvm::SmallVector<int, 256> order(static_cast<size_t>(lanes), -1);
    for (int i = 0; i < std::min(first, lanes); ++i) order[static_cast<size_t>(i)] = i;
    llvm::SmallVector<int, 256> spread(static_cast<size_t>(lanes), -1);
    for (int i = first; i < std::min(first + width, lanes); ++i) {
      spread[static_cast<size_t>(i)] = i - first;
      order[static_cast<size_t>(i)] = lanes + i;
    }
    llvm::Value* placed = b_.CreateShuffleVector(scaled, spread);
    result = result ? b_.CreateShuffleVector(result, placed, order) : placed;
  }
  return type ? result : b_.CreateExtractElement(result, uint64_t{0});
}

llvm::Value* KernelLowering::Combine(Opcode opcode, DType dtype, llvm::Value* a, llvm::Value* b) {
  const bool is_float = IsFloat(dtype);
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kReduceAdd:
      return is_float ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case Opcode::kMul:
    case Opcode::kReduceMul:
      return is_float ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case Opcode::kMin:
    case Opcode::kReduceMin:
      return MinMax(true, dtype, a, b);
    case Opcode::kMax:
    case Opcode::kReduceMax:
      return MinMax(false, dtype, a, b);
    case Opcode::kAnd:
    case Opcode::kReduceAnd:
      return b_.CreateAnd(a, b);
    default:
      return b_.CreateOr(a, b);
  }
}

Result<llvm::Value*> KernelLowering::Arithmetic(const Op& op) {
  const DType dtype = op.type.dtype;
  const bool is_float = IsFloat(dtype);
  llvm::Value* a = Of(op.operands[0]);
  llvm::Value* b = op.operands.size() > 1 ? Of(op.operands[1]) : nullptr;
  switch (op.opcode) {
    case Opcode::kAdd:
    case Opcode::kMul:
    case Opcode::kMin:
    case Opcode::kMax:
    case Opcode::kAnd:
    case Opcode::kOr:
      return Combine(op.opcode, dtype, a, b);
    case Opcode::kSub:
      return is_float ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case Opcode::kDiv:
      return is_float ? b_.CreateFDiv(a, b) : Divide(false, dtype, a, b);
    case Opcode::kRem:
      return Divide(true, dtype, a, b);
    case Opcode::kNeg:
      return is_float ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    case Opcode::kAbs:
      if (is_float) return b_.CreateUnaryIntrinsic(Intrinsic::fabs, a);
      if (!IsSigned(dtype)) return a;
      return b_.CreateBinaryIntrinsic(Intrinsic::abs, a, b_.getFalse());
    case Opcode::kFma: {
      llvm::Value* c = Of(op.operands[2]);
      if (features_.fma) return b_.CreateIntrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
      if (dtype == DType::kF32) return SoftwareFma(a, b, c);
      return Unimplemented(
          "Kernel '{}' has an f64 fma and the target has no FMA; run split-fma before.",
          kernel_.name);
    }
    case Opcode::kXor:
      return b_.CreateXor(a, b);
    case Opcode::kNot:
      return b_.CreateNot(a);
    case Opcode::kShl:
      return Shift(true, dtype, a, b);
    case Opcode::kShr:
      return Shift(false, dtype, a, b);
    case Opcode::kSqrt:
      return b_.CreateUnaryIntrinsic(Intrinsic::sqrt, a);
    case Opcode::kFloor:
      return b_.CreateUnaryIntrinsic(Intrinsic::floor, a);
    case Opcode::kCeil:
      return b_.CreateUnaryIntrinsic(Intrinsic::ceil, a);
    case Opcode::kTrunc:
      return b_.CreateUnaryIntrinsic(Intrinsic::trunc, a);
    case Opcode::kRoundEven:
      return b_.CreateUnaryIntrinsic(Intrinsic::roundeven, a);
    case Opcode::kCopySign:
      return b_.CreateBinaryIntrinsic(Intrinsic::copysign, a, b);
    default:
      return Unimplemented(
          "Kernel '{}' has the op '{}' of {}; expand-math must run before code generation.",
          kernel_.name, kernel::FormatOpcode(op.opcode), FormatDType(dtype));
  }
}

llvm::Value* KernelLowering::Compare(const Op& op) {
  const DType dtype = TypeOf(op.operands[0]).dtype;
  llvm::Value* a = Of(op.operands[0]);
  llvm::Value* b = Of(op.operands[1]);
  using P = llvm::CmpInst::Predicate;
  struct Row {
    P if_float, if_signed, if_unsigned;
  };
  Row row{};
  switch (op.opcode) {
    case Opcode::kEq:
      row = {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ};
      break;
    case Opcode::kNe:
      row = {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE};
      break;
    case Opcode::kLt:
      row = {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT};
      break;
    case Opcode::kLe:
      row = {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE};
      break;
    case Opcode::kGt:
      row = {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT};
      break;
    default:
      row = {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE};
      break;
  }
  if (IsFloat(dtype)) return b_.CreateFCmp(row.if_float, a, b);
  return b_.CreateICmp(IsSigned(dtype) ? row.if_signed : row.if_unsigned, a, b);
}

llvm::Value* KernelLowering::ReduceLanes(const Op& op) {
  llvm::Value* value = Of(op.operands[0]);
  int lanes = TypeOf(op.operands[0]).lanes;
  while (lanes > 1) {  // pairwise halves, as the IR states
    lanes /= 2;
    llvm::SmallVector<int, 64> low(static_cast<size_t>(lanes));
    llvm::SmallVector<int, 64> high(static_cast<size_t>(lanes));
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), lanes);
    value = Combine(op.opcode, op.type.dtype, b_.CreateShuffleVector(value, low),
                    b_.CreateShuffleVector(value, high));
  }
  return value->getType()->isVectorTy() ? b_.CreateExtractElement(value, uint64_t{0}) : value;
}

llvm::Value* KernelLowering::BF16ToF32(llvm::Value* value) {
  llvm::Type* i32 = value->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Value* bits = b_.CreateShl(b_.CreateZExt(value, i32), Int(i32, 16));
  return b_.CreateBitCast(bits, i32->getWithNewType(b_.getFloatTy()));
}

llvm::Value* KernelLowering::F32ToBF16(llvm::Value* value) {
  llvm::Type* i32 = value->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Value* bits = b_.CreateBitCast(value, i32);
  llvm::Value* lowest = b_.CreateAnd(b_.CreateLShr(bits, Int(i32, 16)), Int(i32, 1));
  llvm::Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(lowest, Int(i32, 0x7fff)));
  llvm::Value* quiet = b_.CreateOr(bits, Int(i32, 0x400000));
  llvm::Value* picked = b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, rounded);
  return b_.CreateTrunc(b_.CreateLShr(picked, Int(i32, 16)), i32->getWithNewType(b_.getInt16Ty()));
}

llvm::Value* KernelLowering::F16ToF32(llvm::Value* half) {
  llvm::Type* i32 = half->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Type* single = half->getType()->getWithNewType(b_.getFloatTy());
  if (features_.f16c) {
    return b_.CreateFPExt(b_.CreateBitCast(half, half->getType()->getWithNewType(b_.getHalfTy())),
                          single);
  }
  llvm::Value* wide = b_.CreateZExt(half, i32);
  llvm::Value* shifted = b_.CreateShl(b_.CreateAnd(wide, Int(i32, 0x7fff)), Int(i32, 13));
  llvm::Value* exponent = b_.CreateAnd(shifted, Int(i32, 0x0f800000));
  llvm::Value* normal = b_.CreateAdd(shifted, Int(i32, (127 - 15) << 23));
  llvm::Value* special = b_.CreateAdd(normal, Int(i32, (128 - 16) << 23));
  // A subnormal: as the fraction of 2^-14, minus that 2^-14.
  llvm::Value* with_unit = b_.CreateBitCast(b_.CreateAdd(normal, Int(i32, 1 << 23)), single);
  llvm::Value* unit = llvm::ConstantFP::get(single, 0x1p-14);
  llvm::Value* subnormal = b_.CreateBitCast(b_.CreateFSub(with_unit, unit), i32);
  llvm::Value* magnitude =
      b_.CreateSelect(b_.CreateICmpEQ(exponent, Int(i32, 0x0f800000)), special, normal);
  magnitude = b_.CreateSelect(b_.CreateICmpEQ(exponent, Int(i32, 0)), subnormal, magnitude);
  llvm::Value* sign = b_.CreateShl(b_.CreateAnd(wide, Int(i32, 0x8000)), Int(i32, 16));
  return b_.CreateBitCast(b_.CreateOr(magnitude, sign), single);
}

llvm::Value* KernelLowering::F32ToF16(llvm::Value* value) {
  llvm::Type* i16 = value->getType()->getWithNewType(b_.getInt16Ty());
  if (features_.f16c) {
    return b_.CreateBitCast(
        b_.CreateFPTrunc(value, value->getType()->getWithNewType(b_.getHalfTy())), i16);
  }
  llvm::Type* i32 = value->getType()->getWithNewType(b_.getInt32Ty());
  llvm::Value* bits = b_.CreateBitCast(value, i32);
  llvm::Value* magnitude = b_.CreateAnd(bits, Int(i32, 0x7fffffff));
  llvm::Value* sign = b_.CreateLShr(b_.CreateXor(bits, magnitude), Int(i32, 16));
  llvm::Value* is_nan = b_.CreateICmpUGT(magnitude, Int(i32, 0x7f800000));
  llvm::Value* special = b_.CreateSelect(is_nan, Int(i32, 0x7e00), Int(i32, 0x7c00));
  // Below 2^-14: adding 0.5 puts the unit of f16's subnormals at the last bit, and the FPU rounds.
  llvm::Value* half = llvm::ConstantFP::get(value->getType(), 0.5);
  llvm::Value* moved = b_.CreateFAdd(b_.CreateBitCast(magnitude, value->getType()), half);
  llvm::Value* subnormal = b_.CreateSub(b_.CreateBitCast(moved, i32), Int(i32, 0x3f000000));
  // Otherwise rebias the exponent and round by integer addition; a carry moves on to the exponent.
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, Int(i32, 13)), Int(i32, 1));
  const int64_t rebias = -((127 - 15) << 23) + 0xfff;
  llvm::Value* normal =
      b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(magnitude, Int(i32, rebias)), odd), Int(i32, 13));
  llvm::Value* result =
      b_.CreateSelect(b_.CreateICmpULT(magnitude, Int(i32, 0x38800000)), subnormal, normal);
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, Int(i32, 0x47800000)), special, result);
  return b_.CreateTrunc(b_.CreateOr(result, sign), i16);
}

llvm::Value* KernelLowering::Convert(llvm::Value* value, DType from, DType to) {
  if (from == to) return value;
  if (from == DType::kF16) return Convert(F16ToF32(value), DType::kF32, to);
  if (from == DType::kBF16) return Convert(BF16ToF32(value), DType::kF32, to);
  if (to == DType::kF16) return F32ToF16(Convert(value, from, DType::kF32));
  if (to == DType::kBF16) return F32ToBF16(Convert(value, from, DType::kF32));
  llvm::Type* type = value->getType()->getWithNewType(ElementType(to));
  llvm::Value* zero = llvm::Constant::getNullValue(value->getType());
  if (to == DType::kBool) {
    return IsFloat(from) ? b_.CreateFCmpUNE(value, zero) : b_.CreateICmpNE(value, zero);
  }
  if (IsFloat(from)) {
    if (IsFloat(to))
      return to == DType::kF64 ? b_.CreateFPExt(value, type) : b_.CreateFPTrunc(value, type);
    return b_.CreateIntrinsic(IsSigned(to) ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                              {type, value->getType()}, {value});
  }
  if (IsFloat(to))
    return IsSigned(from) ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
  if (IsSigned(from)) return b_.CreateSExtOrTrunc(value, type);
  return b_.CreateZExtOrTrunc(value, type);  // bool, too
}

}  // namespace halyard::cpu
