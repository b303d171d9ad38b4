// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/loop_limit.h"

#include <algorithm>
#include <bit>
#include <map>

namespace halyard::schedule {
namespace {

using kernel::Opcode;
using kernel::ValueId;
using Bound = std::optional<Expr>;

enum class LoopSide : uint8_t { kLower, kUpper };
constexpr LoopSide Other(LoopSide side) {
  return side == LoopSide::kLower ? LoopSide::kUpper : LoopSide::kLower;
}

class LoopCounter {
 public:
  LoopCounter(ExprArena& exprs, const kernel::Kernel& kernel, const Dispatch& dispatch)
      : exprs_(exprs), kernel_(kernel), dispatch_(dispatch), values_(kernel.values.size()) {}

  Bound Run() {
    const Count count = CountBlock(0);
    return count.iterations;
  }

 private:
  struct Count {
    Bound iterations;
    int64_t loops = 0;  // in the text: what a run costs in which no loop goes on
  };

  Expr Const(int64_t value) { return exprs_.Const(value); }

  Count CountBlock(kernel::BlockId block) {
    Count count{Const(0)};
    for (const kernel::OpId id : kernel_.blocks[block].ops) {
      const kernel::Op& op = kernel_.ops[id];
      if (op.opcode == Opcode::kFor) Add(&count, CountLoop(op));
      if (op.opcode == Opcode::kIf) {
        for (const kernel::BlockId side : op.blocks) Add(&count, CountBlock(side));
      }
    }
    return count;
  }

  void Add(Count* count, const Count& more) {
    count->loops += more.loops;
    count->iterations = count->iterations && more.iterations
                            ? Bound(exprs_.Add(*count->iterations, *more.iterations))
                            : std::nullopt;
  }

  Count CountLoop(const kernel::Op& op) {
    const Bound trips = TripsOf(op);
    // Inside, the variable is what lies between the bounds.
    const ValueId variable = kernel_.blocks[op.blocks[0]].parameters[0];
    const Bound lo = Of(op.operands[0]), hi = Of(op.operands[1]);
    if (lo && hi) {
      values_[variable] =
          exprs_.Add(*lo, exprs_.Loop("iv", exprs_.Max(Const(0), exprs_.Sub(*hi, *lo))));
    }
    is_known_.resize(kernel_.values.size());
    is_known_[variable] = true;
    const Count body = CountBlock(op.blocks[0]);
    // The last iteration finds the end; loops in its body still make one each.
    Count count{std::nullopt, body.loops + 1};
    if (!trips || !body.iterations) return count;
    const int64_t copies = std::max<int64_t>(1, op.immediates[0]);
    const Expr own =
        copies == 1 ? *trips : exprs_.Add(exprs_.FloorDiv(*trips, Const(copies)), Const(copies));
    count.iterations =
        exprs_.Add(exprs_.Add(own, exprs_.Mul(*trips, *body.iterations)), Const(body.loops + 1));
    return count;
  }

  // At most so many runs of the body.
  Bound TripsOf(const kernel::Op& op) {
    const Bound lo = Of(op.operands[0]), hi = Of(op.operands[1]), step = Of(op.operands[2]);
    if (!lo || !hi || !step) return std::nullopt;
    const Bound span = MostBetween(*lo, *hi);
    const Bound least_step = BoundOf(*step, LoopSide::kLower);
    if (!span || !least_step) return std::nullopt;
    return exprs_.CeilDiv(exprs_.Max(Const(0), *span), exprs_.Max(Const(1), *least_step));
  }

  // hi - lo at most. What the two share cancels only where no minimum stands between.
  Bound MostBetween(Expr lo, Expr hi) {
    const ExprKind of_hi = exprs_.KindOf(hi), of_lo = exprs_.KindOf(lo);
    if (of_hi == ExprKind::kMin || of_hi == ExprKind::kMax) {
      return Fold(hi, of_hi == ExprKind::kMin, [&](Expr part) { return MostBetween(lo, part); });
    }
    if (of_lo == ExprKind::kMin || of_lo == ExprKind::kMax) {
      return Fold(lo, of_lo == ExprKind::kMax, [&](Expr part) { return MostBetween(part, hi); });
    }
    return BoundOf(exprs_.Sub(hi, lo), LoopSide::kUpper);
  }

  // The least or greatest bound over the operands. Of the least, one that is unknown says nothing.
  template <typename F>
  Bound Fold(Expr e, bool is_least, const F& bound_of) {
    const std::span<const Expr> operands = exprs_.OperandsOf(e);
    const std::vector<Expr> parts(operands.begin(), operands.end());
    Bound all;
    bool is_first = true;
    for (const Expr part : parts) {
      const Bound bound = bound_of(part);
      if (!bound && !is_least) return std::nullopt;
      if (!bound) continue;
      all = is_first ? *bound : is_least ? exprs_.Min(*all, *bound) : exprs_.Max(*all, *bound);
      is_first = false;
    }
    return all;
  }

  // A bound over dimension symbols alone.
  Bound BoundOf(Expr e, LoopSide side) {
    const bool is_upper = side == LoopSide::kUpper;
    const std::span<const Expr> span = exprs_.OperandsOf(e);
    const std::vector<Expr> operands(span.begin(), span.end());  // the arena moves when it grows
    switch (exprs_.KindOf(e)) {
      case ExprKind::kConst:
        return e;
      case ExprKind::kSymbol: {
        if (exprs_.SymbolName(e) == "?") return std::nullopt;
        if (exprs_.SymbolKindOf(e) == SymbolKind::kDim) return e;
        if (!is_upper) return Const(0);
        const Bound extent = BoundOf(exprs_.LoopExtent(e), side);
        if (!extent) return std::nullopt;
        return exprs_.Max(Const(0), exprs_.Sub(*extent, Const(1)));
      }
      case ExprKind::kAdd: {
        Expr sum = Const(0);
        for (const Expr operand : operands) {
          const Bound bound = BoundOf(operand, side);
          if (!bound) return std::nullopt;
          sum = exprs_.Add(sum, *bound);
        }
        return sum;
      }
      case ExprKind::kMul: {
        int64_t scale = 1;
        std::vector<Expr> factors;
        for (const Expr operand : operands) {
          const auto value = exprs_.AsConst(operand);
          if (!value) factors.push_back(operand);
          if (value && __builtin_mul_overflow(scale, *value, &scale)) return std::nullopt;
        }
        const LoopSide of_factors = scale < 0 ? Other(side) : side;
        if (factors.size() == 1) {
          const Bound bound = BoundOf(factors[0], of_factors);
          return bound ? Bound(exprs_.Mul(Const(scale), *bound)) : std::nullopt;
        }
        Expr product = Const(scale);
        for (const Expr factor : factors) {
          const Bound bound = BoundOf(factor, of_factors);
          if (!bound || exprs_.RangeOf(factor).lo < 0) return std::nullopt;
          product = exprs_.Mul(product, exprs_.Max(Const(0), *bound));
        }
        return product;
      }
      case ExprKind::kFloorDiv: {
        const Bound dividend = BoundOf(operands[0], side);
        if (!dividend) return std::nullopt;
        if (exprs_.AsConst(operands[1])) return exprs_.FloorDiv(*dividend, operands[1]);
        const Bound divisor = BoundOf(operands[1], Other(side));
        if (!divisor || exprs_.RangeOf(operands[0]).lo < 0) return std::nullopt;
        return exprs_.FloorDiv(exprs_.Max(Const(0), *dividend), exprs_.Max(Const(1), *divisor));
      }
      case ExprKind::kMod: {
        if (!is_upper) return Const(0);
        const Bound divisor = BoundOf(operands[1], side);
        const Bound dividend =
            exprs_.RangeOf(operands[0]).lo < 0 ? std::nullopt : BoundOf(operands[0], side);
        if (!divisor) return dividend;
        const Expr most = exprs_.Sub(*divisor, Const(1));
        return dividend ? exprs_.Min(most, *dividend) : most;
      }
      case ExprKind::kMin:
        return Fold(e, is_upper, [&](Expr part) { return BoundOf(part, side); });
      case ExprKind::kMax:
        return Fold(e, !is_upper, [&](Expr part) { return BoundOf(part, side); });
    }
    return std::nullopt;
  }

  // An integer scalar as an expression over dimension symbols, and a loop symbol for whatever
  // counts workgroups, workitems and iterations.
  Bound Of(ValueId value) {
    is_known_.resize(kernel_.values.size());
    if (!is_known_[value]) {
      is_known_[value] = true;
      const kernel::OpId producer = kernel_.values[value].producer;
      if (producer != kernel::kNone) values_[value] = Compute(kernel_.ops[producer]);
    }
    return values_[value];
  }

  Expr Counter(std::string_view name, int axis, Expr extent) {
    if (exprs_.IsConst(extent, 1)) return Const(0);
    const auto [found, is_new] = counters_.try_emplace({name, axis});
    if (is_new) found->second = exprs_.Loop(name, extent);
    return found->second;
  }

  Bound Compute(const kernel::Op& op) {
    if (!IsInteger(op.type.dtype) || op.type.lanes != 1) return std::nullopt;
    const int64_t* sizes = kernel_.workgroup_size;
    const int64_t immediate = op.immediates.empty() ? 0 : op.immediates[0];
    switch (op.opcode) {
      case Opcode::kConst:
        return Const(immediate);
      case Opcode::kScalar:
        return dispatch_.scalars[static_cast<size_t>(immediate)];
      case Opcode::kWorkgroupId: {
        const Expr extent = dispatch_.grid[immediate];
        return Counter("workgroup", static_cast<int>(immediate),
                       extent.valid() ? extent : Const(1));
      }
      case Opcode::kWorkitemId:
        return Counter("workitem", static_cast<int>(immediate), Const(sizes[immediate]));
      case Opcode::kSubgroupLane:
      case Opcode::kSubgroupId: {
        const int64_t width = kernel_.subgroup_size;
        if (width <= 0) return std::nullopt;
        if (op.opcode == Opcode::kSubgroupLane) return Counter("lane", 0, Const(width));
        return Counter("subgroup", 0, Const((sizes[0] * sizes[1] * sizes[2] + width - 1) / width));
      }
      case Opcode::kSubgroupSize:
        return kernel_.subgroup_size > 0 ? Bound(Const(kernel_.subgroup_size)) : std::nullopt;
      default:
        break;
    }
    if (op.operands.empty()) return std::nullopt;
    const Bound a = Of(op.operands[0]);
    if (op.opcode == Opcode::kConvert && IsInteger(kernel_.values[op.operands[0]].type.dtype)) {
      return a;
    }
    if (op.opcode == Opcode::kNeg && a) return exprs_.Sub(Const(0), *a);
    if (op.operands.size() != 2) return std::nullopt;
    const Bound b = Of(op.operands[1]);
    if (!a || !b) return std::nullopt;
    const auto is_counted = [&] {  // division rounds towards zero
      return exprs_.RangeOf(*a).lo >= 0 && exprs_.RangeOf(*b).lo >= 0;
    };
    const std::optional<int64_t> constant = exprs_.AsConst(*b);
    switch (op.opcode) {
      case Opcode::kAdd:
        return exprs_.Add(*a, *b);
      case Opcode::kSub:
        return exprs_.Sub(*a, *b);
      case Opcode::kMul:
        return exprs_.Mul(*a, *b);
      case Opcode::kMin:
        return exprs_.Min(*a, *b);
      case Opcode::kMax:
        return exprs_.Max(*a, *b);
      case Opcode::kDiv:
        return is_counted() ? Bound(exprs_.FloorDiv(*a, *b)) : std::nullopt;
      case Opcode::kRem:
        return is_counted() ? Bound(exprs_.Mod(*a, *b)) : std::nullopt;
      case Opcode::kShl:
        if (!constant || *constant < 0 || *constant > 62) return std::nullopt;
        return exprs_.Mul(*a, Const(int64_t{1} << *constant));
      case Opcode::kShr:
        if (!constant || *constant < 0 || *constant > 62) return std::nullopt;
        return exprs_.FloorDiv(*a, Const(int64_t{1} << *constant));
      case Opcode::kAnd:
        if (!constant || *constant < 1 || *constant == INT64_MAX ||
            !std::has_single_bit(static_cast<uint64_t>(*constant) + 1)) {
          return std::nullopt;
        }
        return exprs_.Mod(*a, Const(*constant + 1));
      default:
        return std::nullopt;
    }
  }

  ExprArena& exprs_;
  const kernel::Kernel& kernel_;
  const Dispatch& dispatch_;
  std::vector<Bound> values_;   // by kernel value
  std::vector<bool> is_known_;  // whether the one in values_ was computed
  std::map<std::pair<std::string_view, int>, Expr> counters_;
};

}  // namespace

std::optional<Expr> MostLoopIterations(ExprArena& exprs, const ScheduledKernel& scheduled) {
  Expr most = exprs.Const(0);
  for (const Dispatch& dispatch : scheduled.dispatches) {
    const std::optional<Expr> count =
        LoopCounter(exprs, scheduled.kernels[dispatch.kernel], dispatch).Run();
    if (!count) return std::nullopt;
    most = exprs.Max(most, *count);
  }
  return most;
}

Status CheckLoopLimit(ExprArena& exprs, const ScheduledKernel& scheduled, const Target& target) {
  const int64_t limit = target.gpu.max_loop_iterations;
  if (limit == INT64_MAX) return OkStatus();
  const std::optional<Expr> most = MostLoopIterations(exprs, scheduled);
  if (!most) {
    return Unimplemented(
        "The end of a loop is data; device '{}' ends loops after {} iterations of a workitem.",
        target.name, limit);
  }
  if (exprs.RangeOf(*most).lo <= limit) return OkStatus();
  return Unimplemented("A workitem makes {} loop iterations; device '{}' ends them after {}.",
                       exprs.Format(*most), target.name, limit);
}

std::optional<Expr> LoopGuard(ExprArena& exprs, const ScheduledKernel& scheduled,
                              const Target& target) {
  const int64_t limit = target.gpu.max_loop_iterations;
  if (limit == INT64_MAX) return std::nullopt;
  const std::optional<Expr> most = MostLoopIterations(exprs, scheduled);
  if (!most) return exprs.Const(-1);
  if (exprs.RangeOf(*most).hi <= limit) return std::nullopt;
  return exprs.Sub(exprs.Const(limit), *most);
}

}  // namespace halyard::schedule
