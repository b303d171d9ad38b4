// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel/narrow_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "compiler/kernel/rewrite.h"

namespace halyard::kernel {
namespace {

class Narrowing {
 public:
  explicit Narrowing(const Kernel& kernel)
      : kernel_(kernel),
        uses_(kernel.values.size()),
        reach_(kernel.values.size()),
        sums_(kernel.values.size(), kNone),
        inverses_(kernel.values.size()) {
    for (OpId id = 0; id < kernel.ops.size(); ++id) {
      for (ValueId operand : kernel.ops[id].operands) uses_[operand].push_back(id);
    }
    for (OpId id = 0; id < kernel.ops.size(); ++id) FindSum(kernel.ops[id]);
  }

  Kernel Run() {
    return RewriteOps(kernel_, [&](Builder* b, const Op& op, std::span<const ValueId> operands) {
      return Rewrite(b, op, operands);
    });
  }

 private:
  // How a value comes to be rounded to 16 bits, on every way.
  enum class Reach : uint8_t { kUnknown, kNever, kElementwise, kByProducts };

  static bool IsNarrow(DType dtype) { return IsFloat(dtype) && BitWidth(dtype) == 16; }

  const Op* Producer(ValueId value) const {
    const OpId id = kernel_.values[value].producer;
    return id == kNone ? nullptr : &kernel_.ops[id];
  }

  std::optional<double> ConstantOf(ValueId value) const {
    const Op* op = Producer(value);
    while (op != nullptr && op->opcode == Opcode::kSplat) op = Producer(op->operands[0]);
    if (op == nullptr || op->opcode != Opcode::kConst || !IsFloat(op->type.dtype)) return {};
    return std::bit_cast<double>(op->immediates[0]);
  }

  Reach Through(const Op& op) {
    if (op.results.size() != 1) return Reach::kNever;
    switch (op.opcode) {
      case Opcode::kConvert:
        return IsNarrow(op.type.dtype) ? Reach::kByProducts : Reach::kNever;
      case Opcode::kMul:
      case Opcode::kNeg:
      case Opcode::kSplat:
      case Opcode::kExtract:
      case Opcode::kInsert:
      case Opcode::kShuffle:
        return ReachOf(op.results[0]);
      case Opcode::kAdd:
      case Opcode::kSub:
      case Opcode::kFma:
      case Opcode::kSelect:
      case Opcode::kErf:
      case Opcode::kTanh:
        return ReachOf(op.results[0]) == Reach::kNever ? Reach::kNever : Reach::kElementwise;
      default:
        return Reach::kNever;
    }
  }

  Reach ReachOf(ValueId value) {
    if (reach_[value] != Reach::kUnknown) return reach_[value];
    Reach least = uses_[value].empty() ? Reach::kNever : Reach::kByProducts;
    for (OpId use : uses_[value]) least = std::min(least, Through(kernel_.ops[use]));
    return reach_[value] = least;
  }

  // 1 + f(x), and f(x) is used for nothing else: sums_ has f(x) at the sum's result.
  void FindSum(const Op& op) {
    if (op.opcode != Opcode::kAdd || op.type.dtype != DType::kF32 ||
        ReachOf(op.results[0]) != Reach::kByProducts) {
      return;
    }
    for (const size_t side : {0, 1}) {
      const Op* function = Producer(op.operands[side]);
      if (ConstantOf(op.operands[1 - side]) != 1.0 || function == nullptr ||
          (function->opcode != Opcode::kErf && function->opcode != Opcode::kTanh) ||
          uses_[op.operands[side]].size() != 1) {
        continue;
      }
      sums_[op.results[0]] = sums_[op.operands[side]] = op.operands[side];
    }
  }

  // A divisor that several lanes share.
  bool IsSharedDivisor(const Op& op) {
    if (op.opcode != Opcode::kSplat || op.type.dtype != DType::kF32 || op.type.lanes < 2 ||
        ConstantOf(op.results[0])) {
      return false;
    }
    return std::any_of(uses_[op.results[0]].begin(), uses_[op.results[0]].end(),
                       [&](OpId use) { return DividesBy(kernel_.ops[use], op.results[0]); });
  }

  bool DividesBy(const Op& op, ValueId divisor) {
    return op.opcode == Opcode::kDiv && op.operands[1] == divisor &&
           ReachOf(op.results[0]) != Reach::kNever;
  }

  // One over s, as two factors: of s times `scale`, which is a normal number as long as s is none
  // of the largest or smallest, and of `scale`. A product with the first overflows or underflows
  // only where the quotient does.
  void AddInverse(Builder* b, ValueId splat, ValueId s, int lanes) {
    const auto c = [&](double value) { return b->ConstFloat(DType::kF32, value, 1); };
    const ValueId magnitude = b->Abs(s);
    const ValueId is_small = b->Lt(magnitude, c(0x1p-64)), is_large = b->Gt(magnitude, c(0x1p64));
    const ValueId scale = b->Select(is_small, c(0x1p64), b->Select(is_large, c(0x1p-64), c(1)));
    const ValueId inverse = b->Div(c(1), b->Mul(s, scale));
    inverses_[splat] = {{b->Splat(inverse, lanes), b->Splat(scale, lanes)}};
  }

  std::optional<ValueId> Rewrite(Builder* b, const Op& op, std::span<const ValueId> operands) {
    if (IsSharedDivisor(op)) {
      AddInverse(b, op.results[0], operands[0], op.type.lanes);
      return {};
    }
    if (op.opcode == Opcode::kConvert && IsNarrow(op.type.dtype)) {
      // Rounded already.
      const OpId producer = b->kernel().values[operands[0]].producer;
      if (producer == kNone) return {};
      const Op& wide = b->kernel().ops[producer];
      if (wide.opcode != Opcode::kConvert) return {};
      const ValueId before = wide.operands[0];
      if (b->kernel().values[before].type != op.type) return {};
      return before;
    }
    if (op.type.dtype != DType::kF32) return {};
    const ValueId function = sums_[op.results[0]];
    if (function == op.results[0]) return operands[0];  // the sum is made of the argument
    if (function != kNone) {
      const ValueId x = operands[op.operands[0] == function ? 0 : 1];
      return Producer(function)->opcode == Opcode::kErf ? OnePlusErf(b, op.type, x)
                                                        : OnePlusTanh(b, op.type, x);
    }
    if (op.opcode == Opcode::kDiv && ReachOf(op.results[0]) != Reach::kNever) {
      if (const auto& inverse = inverses_[op.operands[1]]) {
        return b->Mul(b->Mul(operands[0], (*inverse)[0]), (*inverse)[1]);
      }
      const std::optional<double> divisor = ConstantOf(op.operands[1]);
      if (!divisor || !(std::fabs(*divisor) > 0x1p-100 && std::fabs(*divisor) < 0x1p100)) return {};
      return b->Mul(operands[0], b->ConstFloat(DType::kF32, 1 / *divisor, op.type.lanes));
    }
    return {};
  }

  static ValueId Exp2(Builder* b, Type type, ValueId x) {
    return b->Append1(Opcode::kExp2, type, {x});
  }

  // erfc(a) = exp2(-a P(a)), with a polynomial fitted by us (least largest error of a P(a) on
  // [0, 4.5], 3.9e-6 of erfc). Beyond, P stays positive, so that the result goes on to 0.
  static ValueId OnePlusErf(Builder* b, Type type, ValueId x) {
    constexpr double kP[] = {1.6280632229980585,    0.9170815754972887,   0.15242985861901515,
                             -0.033910366207573074, 0.005223661482321145, -0.0004860968141429289,
                             2.0318070293329152e-05};
    const auto c = [&](double value) { return b->ConstFloat(DType::kF32, value, type.lanes); };
    const ValueId a = b->Abs(x);
    ValueId p = c(-kP[std::size(kP) - 1]);
    for (size_t i = std::size(kP) - 1; i-- > 0;) p = b->Fma(p, a, c(-kP[i]));
    const ValueId e = Exp2(b, type, b->Mul(p, a));
    return b->Select(b->Lt(x, c(0)), e, b->Sub(c(2), e));
  }

  // 2 / (1 + e), e = exp(-2x); one over a root, squared, is what GPUs have an instruction for.
  static ValueId OnePlusTanh(Builder* b, Type type, ValueId x) {
    const auto c = [&](double value) { return b->ConstFloat(DType::kF32, value, type.lanes); };
    const ValueId e = Exp2(b, type, b->Mul(x, c(-2.8853900817779268)));
    const ValueId root = b->Append1(Opcode::kRsqrt, type, {b->Add(e, c(1))});
    return b->Mul(b->Mul(root, root), c(2));
  }

  const Kernel& kernel_;
  std::vector<std::vector<OpId>> uses_;
  std::vector<Reach> reach_;
  std::vector<ValueId> sums_;
  // Of shared divisors: two values of the new kernel, whose product is one over it.
  std::vector<std::optional<std::array<ValueId, 2>>> inverses_;
};

}  // namespace

Kernel NarrowMath(const Kernel& kernel) { return Narrowing(kernel).Run(); }

}  // namespace halyard::kernel
