// SPDX-License-Identifier: Apache-2.0
// Literal cases of the canonical form and of the rules, the text form, and the limits.
#include "compiler/expr/expr.h"

#include <gtest/gtest.h>

#include <map>

namespace halyard {
namespace {

class ExprTest : public testing::Test {
 protected:
  Expr P(std::string_view text) {
    auto e = arena_.Parse(text, [this](std::string_view name) -> std::optional<Expr> {
      auto it = loops_.find(std::string(name));
      if (it == loops_.end()) return std::nullopt;
      return it->second;
    });
    EXPECT_TRUE(e.ok()) << e.status().ToString();
    return e.ok() ? *e : Expr{};
  }
  std::string F(std::string_view text) { return arena_.Format(P(text)); }
  Expr Loop(const char* name, std::string_view extent) {
    return loops_[name] = arena_.Loop(name, P(extent));
  }

  ExprArena arena_;
  std::map<std::string, Expr> loops_;
};

TEST_F(ExprTest, SumsAndProductsAreCanonical) {
  EXPECT_EQ(P("n + m"), P("m + n"));
  EXPECT_EQ(P("(n + 1)*(n - 1)"), P("n*n - 1"));
  EXPECT_EQ(P("2*(n + m) - n - m - m"), P("n"));
  EXPECT_EQ(F("3 + m*2*n - 5"), "2*m*n - 2");
  EXPECT_EQ(F("0 - n - 3"), "-n - 3");
  EXPECT_EQ(F("n - n"), "0");
}

TEST_F(ExprTest, EqualTextInAnotherOrderOfCreationFormatsAlike) {
  ExprArena other;
  ASSERT_TRUE(other.Parse("z + y*x").ok());
  Expr e = *other.Parse("x*y + floordiv(z, 3) + a*z");
  EXPECT_EQ(other.Format(e), F("a*z + x*y + floordiv(z, 3)"));
}

TEST_F(ExprTest, DivAndModDropWhatIsBelowTheDivisor) {
  Loop("i", "16");
  Loop("j", "8");
  EXPECT_EQ(F("floordiv(8*i + j, 8)"), "i");
  EXPECT_EQ(F("mod(8*i + j, 8)"), "j");
  EXPECT_EQ(F("floordiv(8*i + j, 4)"), "2*i + floordiv(j, 4)");
  EXPECT_EQ(F("floordiv(8*i + j, 32)"), "floordiv(i, 4)");
  EXPECT_EQ(F("mod(8*i + j, 32)"), "j + 8*mod(i, 4)");
  EXPECT_EQ(F("floordiv(8*i + j, 128)"), "0");
  EXPECT_EQ(F("mod(8*i + j, 128)"), "8*i + j");
  EXPECT_EQ(F("floordiv(i + 40, 8)"), "floordiv(i, 8) + 5");
  EXPECT_EQ(F("mod(j - 8, 8)"), "j");
}

TEST_F(ExprTest, NestedDivAndModJoin) {
  Loop("i", "1000");
  EXPECT_EQ(F("floordiv(floordiv(i, 3), 5)"), "floordiv(i, 15)");
  EXPECT_EQ(F("mod(mod(i, 15), 5)"), "mod(i, 5)");
  EXPECT_EQ(F("floordiv(mod(i, 15), 5)"), "mod(floordiv(i, 5), 3)");
  EXPECT_EQ(F("5*floordiv(i, 5) + mod(i, 5)"), "i");
  EXPECT_EQ(F("5*mod(floordiv(i, 5), 3) + mod(i, 5)"), "mod(i, 15)");
  EXPECT_EQ(F("15*floordiv(i, 15) + 5*mod(floordiv(i, 5), 3) + mod(i, 5)"), "i");
}

TEST_F(ExprTest, SymbolicDivisors) {
  Loop("b", "batch");
  Loop("s", "n");
  Loop("h", "12");
  Loop("t", "n + 1");
  EXPECT_EQ(F("floordiv(n*b + s, n)"), "b");
  EXPECT_EQ(F("mod(n*b + s, n)"), "s");
  EXPECT_EQ(F("floordiv(12*n*b + n*h + s, 12*n)"), "b");
  EXPECT_EQ(F("mod(floordiv(12*n*b + n*h + s, n), 12)"), "h");
  EXPECT_EQ(F("floordiv((n + 1)*b + t, n + 1)"), "b");
  EXPECT_EQ(F("mod((n + 1)*b + t, n + 1)"), "t");
  EXPECT_EQ(F("n*floordiv(m, n) + mod(m, n)"), "m");
  EXPECT_EQ(F("floordiv(12*n, 12)"), "n");
  Loop("f", "12*n");
  EXPECT_EQ(F("mod(floordiv(f, n), 12)"), "floordiv(f, n)");
  EXPECT_EQ(F("12*n*b + n*mod(floordiv(f, n), 12) + mod(f, n)"), "f + 12*n*b");
}

TEST_F(ExprTest, DivisorsOfSymbols) {
  Expr n = P("n");
  arena_.Constrain(n, {16, 4096}, 16);
  EXPECT_EQ(F("mod(n, 8)"), "0");
  EXPECT_EQ(F("8*floordiv(n, 8)"), "n");
  EXPECT_TRUE(arena_.KnownMultipleOf(P("n*m + 32"), 16));
  EXPECT_FALSE(arena_.KnownMultipleOf(P("n*m + 8"), 16));
  EXPECT_EQ(arena_.SymbolDivisor(n), 16);
  arena_.Constrain(n, {0, INT64_MAX}, 24);
  EXPECT_EQ(arena_.SymbolDivisor(n), 48);
  EXPECT_EQ(arena_.RangeOf(n).lo, 16);
}

TEST_F(ExprTest, ConstrainingRecomputesRanges) {
  Expr e = P("2*n + 1");
  EXPECT_EQ(arena_.RangeOf(e).hi, 2 * int64_t{INT32_MAX} + 1);
  Expr i = Loop("i", "n");
  arena_.Constrain(P("n"), {3, 10});
  EXPECT_EQ(arena_.RangeOf(e).lo, 7);
  EXPECT_EQ(arena_.RangeOf(e).hi, 21);
  EXPECT_EQ(arena_.RangeOf(i).hi, 9);
  EXPECT_TRUE(arena_.KnownLess(P("n"), P("11")));
  EXPECT_FALSE(arena_.KnownLess(P("n"), P("10")));
}

TEST_F(ExprTest, KnownComparisonsAreNeverAssumed) {
  Loop("i", "n");
  EXPECT_TRUE(arena_.KnownLess(P("i"), P("n")));
  EXPECT_TRUE(arena_.KnownLess(P("3*i + 2"), P("3*n")));
  EXPECT_FALSE(arena_.KnownLess(P("3*i + 3"), P("3*n")));
  EXPECT_FALSE(arena_.KnownLess(P("0"), P("n")));
  EXPECT_TRUE(arena_.KnownLessOrEqual(P("0"), P("n")));
  EXPECT_TRUE(arena_.KnownEqual(P("n + 0"), P("n")));
  EXPECT_FALSE(arena_.KnownEqual(P("n"), P("m")));
}

TEST_F(ExprTest, MinAndMax) {
  Loop("i", "8");
  EXPECT_EQ(F("min(n, n + 1)"), "n");
  EXPECT_EQ(F("max(i, 8)"), "8");
  EXPECT_EQ(F("min(i, 7)"), "i");
  EXPECT_EQ(F("max(n, m, n)"), F("max(m, n)"));
  EXPECT_EQ(F("max(max(n, 3), 5)"), "max(n, 5)");
}

TEST_F(ExprTest, Strides) {
  Expr i = Loop("i", "8");
  Expr j = Loop("j", "4");
  EXPECT_EQ(arena_.Format(*arena_.StrideOf(P("n*i + 3*j + 5"), i)), "n");
  EXPECT_EQ(arena_.Format(*arena_.StrideOf(P("n*i + 3*j + 5"), j)), "3");
  EXPECT_EQ(arena_.Format(*arena_.StrideOf(P("3*j + 5"), i)), "0");
  EXPECT_FALSE(arena_.StrideOf(P("i*i"), i).has_value());
  EXPECT_FALSE(arena_.StrideOf(P("i + floordiv(i, 3)"), i).has_value());
  EXPECT_TRUE(arena_.DependsOn(P("floordiv(i, 3)"), i));
  EXPECT_FALSE(arena_.DependsOn(P("floordiv(i, 3)"), j));
}

TEST_F(ExprTest, SubstitutionIsSimultaneousAndCanonical) {
  Expr i = Loop("i", "8");
  Expr j = Loop("j", "4");
  std::pair<Expr, Expr> swap[] = {{i, j}, {j, i}};
  EXPECT_EQ(arena_.Substitute(P("2*i + 3*j"), swap), P("2*j + 3*i"));
  Expr k = Loop("k", "32");
  std::pair<Expr, Expr> merge[] = {{i, P("floordiv(k, 4)")}, {j, P("mod(k, 4)")}};
  EXPECT_EQ(arena_.Substitute(P("4*i + j"), merge), k);
  EXPECT_EQ(arena_.SymbolsOf(P("i + n*floordiv(k, 5)")).size(), 3u);
}

TEST_F(ExprTest, EvaluateReportsOverflowAndMissingSymbols) {
  auto seven = [](Expr) -> std::optional<int64_t> { return int64_t{1} << 40; };
  EXPECT_EQ(arena_.Evaluate(P("n*m"), seven).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*arena_.Evaluate(P("n - m"), seven), 0);
  auto none = [](Expr) -> std::optional<int64_t> { return std::nullopt; };
  EXPECT_EQ(arena_.Evaluate(P("n"), none).status().message(), "The symbol 'n' has no value.");
  auto zero = [](Expr) -> std::optional<int64_t> { return 0; };
  EXPECT_EQ(arena_.Evaluate(P("floordiv(5, n)"), zero).status().message(),
            "The expression 'floordiv(5, n)' divides by 0; divisors are at least 1.");
}

TEST_F(ExprTest, OverflowingConstantsBecomeUnknown) {
  Expr e = arena_.Add(arena_.Const(INT64_MAX), arena_.Const(1));
  Expr f = arena_.Add(arena_.Const(INT64_MAX), arena_.Const(1));
  EXPECT_FALSE(arena_.KnownEqual(e, f));
  EXPECT_FALSE(arena_.AsConst(e).has_value());
  auto any = [](Expr) -> std::optional<int64_t> { return 1; };
  EXPECT_EQ(arena_.Evaluate(e, any).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(arena_.Evaluate(arena_.Mul(e, P("n")), any).status().code(), StatusCode::kOutOfRange);
  Expr low = arena_.Const(INT64_MIN);
  EXPECT_EQ(*arena_.AsConst(P(arena_.Format(low))), INT64_MIN);
  EXPECT_FALSE(arena_.AsConst(arena_.Mul(low, arena_.Const(-1))).has_value());
  EXPECT_FALSE(arena_.AsConst(arena_.Sub(arena_.Const(0), low)).has_value());
  EXPECT_EQ(*arena_.AsConst(arena_.FloorDiv(low, arena_.Const(2))), INT64_MIN / 2);
  EXPECT_EQ(*arena_.AsConst(arena_.Mod(low, arena_.Const(3))), 1);
}

TEST_F(ExprTest, HostileSizesStayBounded) {
  // Products of sums double their terms; nesting makes depth; both end in an unknown value.
  Expr product = P("1");
  for (int i = 0; i < 64; ++i) {
    Expr x = arena_.Dim("x" + std::to_string(i));
    product = arena_.Mul(product, arena_.Add(x, arena_.Const(1)));
  }
  Expr nested = P("n");
  for (int i = 0; i < 5000; ++i) {
    nested = arena_.FloorDiv(arena_.Add(arena_.Mul(nested, nested), arena_.Const(7)), P("m + 1"));
  }
  auto one = [](Expr) -> std::optional<int64_t> { return 1; };
  EXPECT_EQ(arena_.Evaluate(product, one).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(arena_.Evaluate(nested, one).status().code(), StatusCode::kOutOfRange);
  EXPECT_LT(arena_.node_count(), 200000u);
  std::string deep(100000, '(');
  EXPECT_FALSE(arena_.Parse(deep).ok());
  Expr wide = P("0");
  for (int i = 0; i < 1000; ++i) wide = arena_.Add(wide, arena_.Dim("w" + std::to_string(i)));
  EXPECT_LT(arena_.Format(wide).size(), 100000u);
}

TEST_F(ExprTest, ParseErrors) {
  for (const char* text : {"", "n +", "(n", "floordiv(n)", "floordiv(n, 2, 3)", "n n",
                           "99999999999999999999", "9223372036854775808", "`a", "min(", "*",
                           "n - 9223372036854775807 - 2", "9223372036854775807*n*n*3"}) {
    EXPECT_EQ(arena_.Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(arena_.Parse("n +").status().message(),
            "The expression 'n +' needs a number, a name or '(' at character 3.");
}

TEST_F(ExprTest, OddNamesRoundTrip) {
  for (const char* name : {"past_length + 1", "min", "", "a`b\\", "9n", "unk__0"}) {
    Expr e = arena_.Add(arena_.Mul(arena_.Dim(name), arena_.Const(3)), arena_.Const(-1));
    EXPECT_EQ(P(arena_.Format(e)), e) << name;
  }
}

TEST_F(ExprTest, Hints) {
  EXPECT_EQ(arena_.HintOf(P("n")), 8192);
  arena_.SetHint(P("n"), 128);
  EXPECT_EQ(arena_.HintOf(P("2*n + 1")), 257);
}

}  // namespace
}  // namespace halyard
