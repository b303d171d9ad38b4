// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/arena_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/plan/memory_plan.h"
#include "compiler/plan/size_convert.h"

namespace halyard::plan {
namespace {

// For concrete symbol values, ranges that live together must not overlap and must stay in the
// arena.
void CheckFor(ExprArena& exprs, const std::vector<SymbolicRange>& ranges, const ArenaPlan& plan,
              Expr n, int64_t n_value, Expr m, int64_t m_value) {
  const Expr symbols[] = {n, m};
  const int64_t values[] = {n_value, m_value};
  const auto value_of = [&](Expr e) { return *(*ConvertSize(exprs, e, symbols)).Evaluate(values); };
  std::vector<LiveRange> live;
  MemoryPlan concrete;
  for (size_t i = 0; i < ranges.size(); ++i) {
    live.push_back({value_of(ranges[i].size_bytes), ranges[i].first, ranges[i].last});
    concrete.offsets.push_back(value_of(plan.offsets[i]));
    EXPECT_EQ(concrete.offsets.back() % 64, 0);
  }
  concrete.arena_bytes = value_of(plan.arena_bytes);
  EXPECT_EQ(VerifyMemoryPlan(live, concrete).ToString(), "OK");
}

TEST(ArenaPlanTest, SymbolicSizesScale) {
  ExprArena exprs;
  const Expr n = exprs.Dim("n"), m = exprs.Dim("m");
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<SymbolicRange> ranges;
    for (int i = 0; i < 30; ++i) {
      const Expr c = exprs.Const(static_cast<int64_t>(random() % 1000) * 4);
      const Expr choices[] = {c, exprs.Mul(c, n), exprs.Mul(c, exprs.Mul(n, m)),
                              exprs.Mul(exprs.Const(4), exprs.Add(n, m)),
                              exprs.Add(exprs.Mul(exprs.Const(8), n), exprs.Const(12))};
      const int64_t first = random() % 20;
      ranges.push_back({choices[random() % 5], first, first + static_cast<int64_t>(random() % 5)});
    }
    auto plan = PlanArena(exprs, ranges, 64);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    for (int64_t n_value : {0, 1, 3, 128}) {
      for (int64_t m_value : {1, 7}) CheckFor(exprs, ranges, *plan, n, n_value, m, m_value);
    }
  }
}

TEST(ArenaPlanTest, OneSymbolReachesTheStaticPlan) {
  ExprArena exprs;
  const Expr n = exprs.Dim("n");
  std::vector<SymbolicRange> ranges;
  for (int i = 0; i < 10; ++i) ranges.push_back({exprs.Mul(exprs.Const(4096), n), i, i + 1});
  auto plan = PlanArena(exprs, ranges, 64);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(exprs.Format(plan->arena_bytes), exprs.Format(exprs.Mul(exprs.Const(8192), n)));
  EXPECT_EQ(plan->arena_bytes, plan->lower_bound_bytes);
}

TEST(SizeConvertTest, NamesAForeignSymbol) {
  ExprArena exprs;
  const Expr n = exprs.Dim("n"), other = exprs.Dim("other");
  const Expr symbols[] = {n};
  EXPECT_TRUE(ConvertSize(exprs, exprs.CeilDiv(n, exprs.Const(4)), symbols).ok());
  EXPECT_NE(ConvertSize(exprs, exprs.Add(n, other), symbols).status().message().find("'other'"),
            std::string::npos);
}

}  // namespace
}  // namespace halyard::plan
