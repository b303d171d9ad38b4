// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/arena_plan.h"

#include <numeric>

#include "compiler/plan/memory_plan.h"

namespace halyard::plan {
namespace {

// expr = coefficient * factor; the factor is the constant 1 for a static size.
struct Scaled {
  int64_t coefficient = 1;
  Expr factor;
};

Scaled SplitCoefficient(ExprArena& exprs, Expr expr) {
  if (const auto value = exprs.AsConst(expr)) return {*value, exprs.Const(1)};
  if (exprs.KindOf(expr) == ExprKind::kMul) {
    Scaled result{1, exprs.Const(1)};
    const std::vector<Expr> operands(exprs.OperandsOf(expr).begin(), exprs.OperandsOf(expr).end());
    for (Expr operand : operands) {
      if (const auto value = exprs.AsConst(operand)) {
        result.coefficient *= *value;
      } else {
        result.factor = exprs.Mul(result.factor, operand);
      }
    }
    return result;
  }
  if (exprs.KindOf(expr) == ExprKind::kAdd) {
    // 4*n + 8*m: divide out the greatest common coefficient.
    const std::vector<Expr> terms(exprs.OperandsOf(expr).begin(), exprs.OperandsOf(expr).end());
    int64_t common = 0;
    std::vector<Scaled> parts;
    for (Expr term : terms) {
      parts.push_back(SplitCoefficient(exprs, term));
      common = std::gcd(common, parts.back().coefficient);
    }
    if (common <= 1) return {1, expr};
    Expr sum = exprs.Const(0);
    for (const Scaled& part : parts) {
      sum = exprs.Add(sum, exprs.Mul(exprs.Const(part.coefficient / common), part.factor));
    }
    return {common, sum};
  }
  return {1, expr};
}

}  // namespace

Result<ArenaPlan> PlanArena(ExprArena& exprs, std::span<const SymbolicRange> ranges,
                            int64_t alignment) {
  ArenaPlan plan;
  plan.offsets.assign(ranges.size(), exprs.Const(0));
  plan.arena_bytes = plan.lower_bound_bytes = exprs.Const(0);
  std::vector<Scaled> sizes;
  std::vector<Expr> classes;  // in order of first appearance: deterministic
  for (const SymbolicRange& range : ranges) {
    sizes.push_back(SplitCoefficient(exprs, range.size_bytes));
    bool is_new = true;
    for (Expr known : classes) is_new = is_new && known != sizes.back().factor;
    if (is_new) classes.push_back(sizes.back().factor);
  }
  for (Expr factor : classes) {
    std::vector<LiveRange> live;
    std::vector<size_t> members;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (sizes[i].factor != factor) continue;
      live.push_back({sizes[i].coefficient, ranges[i].first, ranges[i].last});
      members.push_back(i);
    }
    HY_ASSIGN(const MemoryPlan region, PlanMemory(live, alignment));
    for (size_t i = 0; i < members.size(); ++i) {
      plan.offsets[members[i]] =
          exprs.Add(plan.arena_bytes, exprs.Mul(exprs.Const(region.offsets[i]), factor));
    }
    plan.arena_bytes =
        exprs.Add(plan.arena_bytes, exprs.Mul(exprs.Const(region.arena_bytes), factor));
    plan.lower_bound_bytes =
        exprs.Add(plan.lower_bound_bytes, exprs.Mul(exprs.Const(region.lower_bound_bytes), factor));
  }
  return plan;
}

}  // namespace halyard::plan
