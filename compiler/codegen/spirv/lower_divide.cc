// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders of integers. No 64-bit division reaches a driver: NVIDIA's (580.159 on
// an H200) makes wrong code around them. Quotients by constants were wrong themselves, and where
// one stood in a branch that no workitem took, sums over parts of an axis read wrong tiles
// (docs/decisions/0034-no-64-bit-division-in-spirv.md).
#include <spirv/unified1/GLSL.std.450.h>

#include "compiler/codegen/spirv/lower.h"

namespace halyard::spirv {

using kernel::Opcode;

// floor(u / v) of unsigned numbers, 64 bits by 32, where the upper half of u is less than v, so
// that the quotient has 32 bits. Two digits of 16 bits, each estimated by the upper half of the
// shifted v and at most two too large (D. Knuth, The Art of Computer Programming 2, 4.3.1,
// algorithm D).
Id KernelLowering::DivideByHalf(Id u, Id v) {
  const Id u32 = w_.Int(32), u64 = w_.Int(64);
  const auto wide = [&](Id x) { return Widen(x, 32, 64, false); };
  const auto low = [&](Id x) { return Widen(x, 64, 32, false); };
  const Id top_bit = w_.EmitGlsl(GLSLstd450FindUMsb, u32, {v});
  const Id shift = w_.Emit(spv::Op::OpISub, u32, {U32(31), top_bit});
  const Id divisor = w_.Emit(spv::Op::OpShiftLeftLogical, u32, {v, shift});
  const Id upper = w_.Emit(spv::Op::OpShiftRightLogical, u32, {divisor, U32(16)});
  const Id shifted = w_.Emit(spv::Op::OpShiftLeftLogical, u64, {u, wide(shift)});
  const Id wide_divisor = wide(divisor), most = U32(0xffff);
  Id rest = low(w_.Emit(spv::Op::OpShiftRightLogical, u64, {shifted, U64(32)}));
  Id quotient[2];
  for (int digit = 0; digit < 2; ++digit) {
    const Id next = digit == 0 ? w_.Emit(spv::Op::OpShiftRightLogical, u32, {low(shifted), U32(16)})
                               : w_.Emit(spv::Op::OpBitwiseAnd, u32, {low(shifted), most});
    const Id dividend =
        w_.Emit(spv::Op::OpBitwiseOr, u64,
                {w_.Emit(spv::Op::OpShiftLeftLogical, u64, {wide(rest), U64(16)}), wide(next)});
    const Id estimate = w_.Emit(spv::Op::OpUDiv, u32, {rest, upper});
    Id q = Select(Compare(Opcode::kLt, DType::kU32, estimate, most), u32, estimate, most);
    Id product = Mul(64, wide(q), wide_divisor);
    for (int i = 0; i < 2; ++i) {
      const Id is_more = Compare(Opcode::kGt, DType::kU64, product, dividend);
      q = Select(is_more, u32, w_.Emit(spv::Op::OpISub, u32, {q, U32(1)}), q);
      const Id less = w_.Emit(spv::Op::OpISub, u64, {product, wide_divisor});
      product = Select(is_more, u64, less, product);
    }
    rest = low(w_.Emit(spv::Op::OpISub, u64, {dividend, product}));
    quotient[digit] = q;
  }
  const Id first = w_.Emit(spv::Op::OpShiftLeftLogical, u32, {quotient[0], U32(16)});
  return w_.Emit(spv::Op::OpBitwiseOr, u32, {first, quotient[1]});
}

// floor(a / b) of unsigned 64-bit numbers, b not 0. By a divisor of 32 bits, digit by digit of 32
// bits. By a longer one, the shifted divisor's upper half estimates the quotient, one too small at
// most after 1 is taken off (H. Warren, Hacker's Delight, 9-5).
Id KernelLowering::DivideUnsigned(Id a, Id b) {
  const Id u32 = w_.Int(32), u64 = w_.Int(64);
  const auto wide = [&](Id x) { return Widen(x, 32, 64, false); };
  const auto low = [&](Id x) { return Widen(x, 64, 32, false); };
  const auto high = [&](Id x) {
    return low(w_.Emit(spv::Op::OpShiftRightLogical, u64, {x, U64(32)}));
  };
  const std::optional<uint64_t> known = w_.IntValue(b);
  const bool is_short = known && *known >> 32 == 0;
  Id v = low(b);
  Id is_long = 0, shift = 0;
  if (!is_short) {
    const Id upper = high(b);
    is_long = Compare(Opcode::kNe, DType::kU32, upper, U32(0));
    const Id top_bit = w_.EmitGlsl(GLSLstd450FindUMsb, u32, {upper});  // -1 of 0
    shift = wide(w_.Emit(spv::Op::OpISub, u32, {U32(31), top_bit}));
    v = Select(is_long, u32, high(w_.Emit(spv::Op::OpShiftLeftLogical, u64, {b, shift})), v);
  }
  const Id upper = high(a);
  const Id first = w_.Emit(spv::Op::OpUDiv, u32, {upper, v});
  const Id rest = w_.Emit(spv::Op::OpISub, u32, {upper, Mul(32, first, v)});
  Id dividend =
      w_.Emit(spv::Op::OpBitwiseOr, u64,
              {w_.Emit(spv::Op::OpShiftLeftLogical, u64, {wide(rest), U64(32)}), wide(low(a))});
  if (!is_short) {
    const Id half = w_.Emit(spv::Op::OpShiftRightLogical, u64, {a, U64(1)});
    dividend = Select(is_long, u64, half, dividend);
  }
  const Id last = wide(DivideByHalf(dividend, v));
  const Id both = w_.Emit(spv::Op::OpShiftLeftLogical, u64, {wide(first), U64(32)});
  const Id quotient = w_.Emit(spv::Op::OpBitwiseOr, u64, {both, last});
  if (is_short) return quotient;
  const Id about = w_.Emit(spv::Op::OpShiftRightLogical, u64,
                           {w_.Emit(spv::Op::OpShiftLeftLogical, u64, {last, shift}), U64(31)});
  const Id is_some = Compare(Opcode::kNe, DType::kU64, about, U64(0));
  const Id estimate = Select(is_some, u64, w_.Emit(spv::Op::OpISub, u64, {about, U64(1)}), U64(0));
  const Id left = w_.Emit(spv::Op::OpISub, u64, {a, Mul(64, estimate, b)});
  const Id is_more = Compare(Opcode::kGe, DType::kU64, left, b);
  const Id exact = Select(is_more, u64, Add(64, estimate, U64(1)), estimate);
  return Select(is_long, u64, exact, quotient);
}

// a / b of 64 bits towards zero, b not 0; unsigned, or signed without INT64_MIN / -1. In 32 bits
// wherever both numbers have no more, as indices of open sizes nearly always.
Id KernelLowering::DivideWide(bool is_signed, Id a, Id b) {
  const Id u32 = w_.Int(32), u64 = w_.Int(64), zero = U64(0);
  const std::optional<uint64_t> known = w_.IntValue(b);
  const auto divide = [&] {
    if (!is_signed) return DivideUnsigned(a, b);
    const auto minus = [&](Id x) { return w_.Emit(spv::Op::OpISub, u64, {zero, x}); };
    const auto is_below = [&](Id x) { return Compare(Opcode::kLt, DType::kI64, x, zero); };
    const Id a_below = is_below(a), size = Select(a_below, u64, minus(a), a);
    if (known && *known >> 63 == 0) {
      const Id quotient = DivideUnsigned(size, b);
      return Select(a_below, u64, minus(quotient), quotient);
    }
    const Id b_below = is_below(b);
    const Id by = known ? U64(-*known) : Select(b_below, u64, minus(b), b);
    const Id quotient = DivideUnsigned(size, by);
    const Id differs = w_.Emit(spv::Op::OpLogicalNotEqual, w_.Bool(), {a_below, b_below});
    return Select(differs, u64, minus(quotient), quotient);
  };
  if (known && *known >> 32 != 0) return divide();
  const Id bits = known ? a : w_.Emit(spv::Op::OpBitwiseOr, u64, {a, b});
  const Id high = w_.Emit(spv::Op::OpShiftRightLogical, u64, {bits, U64(32)});
  const Id is_wide = w_.Emit(spv::Op::OpINotEqual, w_.Bool(), {high, zero});
  const Id narrow =
      w_.Emit(spv::Op::OpUDiv, u32, {Widen(a, 64, 32, false), Widen(b, 64, 32, false)});
  Id result = Widen(narrow, 32, 64, false);
  When(is_wide, std::span(&u64, 1), Lanes(&result, 1), [&](Lanes out) { out[0] = divide(); });
  return result;
}

// Division by 1 instead gives x/1 = x = INT_MIN and x%1 = 0, as stated for INT_MIN / -1.
Id KernelLowering::Divide(bool is_rem, DType dtype, Id a, Id b) {
  const int bits = BitWidth(dtype);
  if (bits < 32) {
    // In 32 bits, where nothing overflows.
    const bool is_signed = IsSigned(dtype);
    const Id wide = Divide(is_rem, is_signed ? DType::kI32 : DType::kU32,
                           Widen(a, bits, 32, is_signed), Widen(b, bits, 32, is_signed));
    return Widen(wide, 32, bits, false);
  }
  const Id type = ElementType(dtype);
  const bool is_signed = IsSigned(dtype);
  // NVIDIA's driver takes the remainder of signed integers as that of unsigned ones, as their type
  // says, but not the quotient.
  const auto divide = [&](Id by) {
    if (bits == 32 && is_rem && !is_signed) return w_.Emit(spv::Op::OpUMod, type, {a, by});
    const Id result = bits == 64
                          ? DivideWide(is_signed, a, by)
                          : w_.Emit(is_signed ? spv::Op::OpSDiv : spv::Op::OpUDiv, type, {a, by});
    if (!is_rem) return result;
    return w_.Emit(spv::Op::OpISub, type, {a, Mul(bits, result, by)});
  };
  const Id zero = w_.ConstInt(bits, 0);
  const Id one = w_.ConstInt(bits, 1);
  const Id minus_one = w_.ConstInt(bits, ~uint64_t{0});
  const auto known = w_.IntValue(b);
  if (known && *known != 0 && !(is_signed && b == minus_one)) return divide(b);
  const Id by_zero = Compare(Opcode::kEq, dtype, b, zero);
  Id unsafe = by_zero;
  if (is_signed) {
    const Id smallest = w_.ConstInt(bits, uint64_t{1} << (bits - 1));
    const Id is_smallest = Compare(Opcode::kEq, dtype, a, smallest);
    const Id is_minus_one = Compare(Opcode::kEq, dtype, b, minus_one);
    const Id overflows = w_.Emit(spv::Op::OpLogicalAnd, w_.Bool(), {is_smallest, is_minus_one});
    unsafe = w_.Emit(spv::Op::OpLogicalOr, w_.Bool(), {by_zero, overflows});
  }
  const Id result = divide(Select(unsafe, type, one, b));
  return is_rem ? result : Select(by_zero, type, zero, result);
}

}  // namespace halyard::spirv
