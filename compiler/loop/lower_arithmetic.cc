// SPDX-License-Identifier: Apache-2.0
// Lowering of elementwise ops that no scalar op says: the remainder of floats, powers of integers
// and random bits.
#include "compiler/loop/index_map.h"
#include "compiler/loop/lower_ops.h"
#include "compiler/ops/op_def.h"

namespace halyard::loop {

using kernel::Opcode;

// x rem y, exact, for floats of up to 32 bits. Each step subtracts q * y from |x|, where q is the
// quotient in f64 with all but its upper 29 bits cleared: y has 24, so the product is exact, and
// the difference has at most 53 bits and is exact too. A step takes at least 28 bits of the
// quotient; the exponents of f32 are at most 277 apart.
Status LowerFloatRem(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  constexpr int64_t kSteps = 11;
  constexpr int64_t kUpperBits = -(int64_t{1} << 24);  // 29 of 53
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], index));
    HY_ASSIGN(const ValueId y, lowering.At(node.operands[1], index));
    const DType type = b.TypeOf(x);
    const ValueId numerator = b.Scalar(Opcode::kAbs, {b.Convert(x, DType::kF64)});
    const ValueId divisor = b.Scalar(Opcode::kAbs, {b.Convert(y, DType::kF64)});
    HY_ASSIGN(const std::vector<ValueId> left,
              lowering.SequentialLoop(
                  "s", lowering.exprs().Const(kSteps), {&numerator, 1},
                  [&](Expr, std::span<const ValueId> rest) -> Result<std::vector<ValueId>> {
                    const ValueId quotient = b.Scalar(Opcode::kDiv, {rest[0], divisor});
                    const ValueId bits = b.Scalar(Opcode::kAnd, {b.Bitcast(quotient, DType::kI64),
                                                                 b.Int(DType::kI64, kUpperBits)});
                    const ValueId whole = b.Scalar(Opcode::kTrunc, {b.Bitcast(bits, DType::kF64)});
                    const ValueId product = b.Scalar(Opcode::kMul, {whole, divisor});
                    return std::vector<ValueId>{b.Scalar(Opcode::kSub, {rest[0], product})};
                  }));
    // A quotient rounded up to an integer leaves less than nothing.
    const ValueId zero = b.Float(DType::kF64, 0);
    const ValueId is_below = b.Scalar(Opcode::kLt, {left[0], zero});
    ValueId rest =
        b.Scalar(Opcode::kSelect, {is_below, b.Scalar(Opcode::kAdd, {left[0], divisor}), left[0]});
    // Any finite x is less than an infinite y, for which 0 * y would give NaN; below y nothing is
    // taken at all.
    const ValueId is_less = b.Scalar(Opcode::kLt, {numerator, divisor});
    rest = b.Scalar(Opcode::kSelect, {is_less, numerator, rest});
    return b.Scalar(Opcode::kCopySign, {b.Convert(rest, type), x});
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

// By squaring, one step per bit of the exponent; all wraps.
Status LowerIntegerPow(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    HY_ASSIGN(const ValueId x, lowering.At(node.operands[0], index));
    HY_ASSIGN(const ValueId y, lowering.At(node.operands[1], index));
    const DType type = b.TypeOf(x);
    const ValueId zero = b.Int(type, 0), one = b.Int(type, 1);
    const auto is_odd = [&](ValueId v) {
      return b.Scalar(Opcode::kNe, {b.Scalar(Opcode::kAnd, {v, one}), zero});
    };
    const ValueId initial[] = {one, x, y};
    HY_ASSIGN(const std::vector<ValueId> last,
              lowering.SequentialLoop(
                  "s", lowering.exprs().Const(BitWidth(type)), initial,
                  [&](Expr, std::span<const ValueId> v) -> Result<std::vector<ValueId>> {
                    const ValueId product = b.Scalar(Opcode::kMul, {v[0], v[1]});
                    return std::vector<ValueId>{
                        b.Scalar(Opcode::kSelect, {is_odd(v[2]), product, v[0]}),
                        b.Scalar(Opcode::kMul, {v[1], v[1]}), b.Scalar(Opcode::kShr, {v[2], one})};
                  }));
    if (!IsSigned(type)) return last[0];
    const ValueId minus_one = b.Int(type, -1);
    const ValueId of_minus_one = b.Scalar(Opcode::kSelect, {is_odd(y), minus_one, one});
    ValueId inverse =
        b.Scalar(Opcode::kSelect, {b.Scalar(Opcode::kEq, {x, minus_one}), of_minus_one, zero});
    inverse = b.Scalar(Opcode::kSelect, {b.Scalar(Opcode::kEq, {x, one}), one, inverse});
    return b.Scalar(Opcode::kSelect, {b.Scalar(Opcode::kLt, {y, zero}), inverse, last[0]});
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

// Philox4x32-10 of the element's number; see compiler/ops/sources.cc.
Status LowerRandomBits(Lowering& lowering, const graph::Module&, const graph::Node& node) {
  const auto stream = static_cast<uint64_t>(IntOr(node, "stream", 0));
  Lowering::Definition d;
  d.form = Lowering::Form::kReduction;
  d.emit = [&lowering, &node, stream](std::span<const Expr> index) -> Result<ValueId> {
    KernelBuilder& b = lowering.builder();
    ExprArena& e = lowering.exprs();
    const Expr flat = FlatIndex(e, lowering.TypeOf(node.results[0]).dims, index);
    const Expr number = e.FloorDiv(flat, e.Const(4));
    HY_ASSIGN(const ValueId seed, lowering.At(node.operands[0], {}));
    const auto low = [&](ValueId v) { return b.Convert(v, DType::kU32); };
    const auto high = [&](ValueId v) {
      return low(b.Scalar(Opcode::kShr, {v, b.Int(DType::kU64, 32)}));
    };
    const auto word = [&](uint64_t bits) {
      return b.Int(DType::kU32, static_cast<int64_t>(bits & 0xffffffff));
    };
    const ValueId block = b.Index(number, DType::kU64);
    const ValueId initial[] = {low(block),         high(block), word(stream),
                               word(stream >> 32), low(seed),   high(seed)};
    HY_ASSIGN(const std::vector<ValueId> words,
              lowering.SequentialLoop(
                  "s", e.Const(10), initial,
                  [&](Expr, std::span<const ValueId> c) -> Result<std::vector<ValueId>> {
                    const auto times = [&](int64_t factor, ValueId v) {
                      return b.Scalar(Opcode::kMul,
                                      {b.Int(DType::kU64, factor), b.Convert(v, DType::kU64)});
                    };
                    const auto mix = [&](ValueId product, ValueId other, ValueId key) {
                      return b.Scalar(Opcode::kXor,
                                      {b.Scalar(Opcode::kXor, {high(product), other}), key});
                    };
                    const ValueId first = times(0xd2511f53, c[0]), second = times(0xcd9e8d57, c[2]);
                    return std::vector<ValueId>{mix(second, c[1], c[4]),
                                                low(second),
                                                mix(first, c[3], c[5]),
                                                low(first),
                                                b.Scalar(Opcode::kAdd, {c[4], word(0x9e3779b9)}),
                                                b.Scalar(Opcode::kAdd, {c[5], word(0xbb67ae85)})};
                  }));
    const ValueId at = b.Index(e.Mod(flat, e.Const(4)));
    ValueId result = words[3];
    for (int64_t i = 2; i >= 0; --i) {
      const ValueId is_here = b.Scalar(Opcode::kEq, {at, b.Int(DType::kI64, i)});
      result = b.Scalar(Opcode::kSelect, {is_here, words[static_cast<size_t>(i)], result});
    }
    return result;
  };
  return lowering.Define(node.results[0], node, std::move(d));
}

}  // namespace halyard::loop
