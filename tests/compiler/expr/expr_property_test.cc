// SPDX-License-Identifier: Apache-2.0
// Random expressions: the value before simplification (a plain tree evaluated in 128 bits) against
// the value after, on random assignments within the ranges; and what follows for ranges, strides,
// text and substitution.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "compiler/expr/expr.h"

namespace halyard {
namespace {

using Wide = __int128;

struct Tree {
  ExprKind kind;
  int64_t value = 0;
  int symbol = -1;
  std::unique_ptr<Tree> a, b;
};

struct Fixture {
  explicit Fixture(uint64_t seed) : random(seed) {
    n = arena.Dim("n");
    m = arena.Dim("m");
    const int64_t divisors[] = {1, 1, 2, 3, 4, 6, 8, 12};
    n_divisor = divisors[Pick(8)];
    n_least = n_divisor * Pick(3);  // 0 too
    n_count = 1 + Pick(40 / n_divisor + 1);
    // Bounds that are no multiples themselves say less than the divisor does.
    const int64_t slack = Pick(2) * (n_divisor - 1);
    arena.Constrain(
        n, {std::max<int64_t>(n_least - slack, 0), n_least + (n_count - 1) * n_divisor + slack},
        n_divisor);
    arena.Constrain(m, {4, 64}, 4);
    symbols = {n, m};
    for (int i = 0; i < 4; ++i) {
      Expr extent;
      switch (Pick(4)) {
        case 0:
          extent = arena.Const(1 + Pick(20));
          break;
        case 1:
          extent = n;
          break;
        case 2:
          extent = arena.Mul(n, arena.Const(1 + Pick(4)));
          break;
        default:
          extent = arena.Add(m, arena.Const(Pick(3)));
          break;
      }
      symbols.push_back(arena.Loop("i" + std::to_string(i), extent));
      extents.push_back(extent);
    }
  }

  int64_t Pick(int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }

  std::unique_ptr<Tree> Make(int depth) {
    auto t = std::make_unique<Tree>();
    int64_t what = depth == 0 ? Pick(2) : Pick(12);
    if (what == 0) {
      t->kind = ExprKind::kConst;
      const int64_t constants[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, -1, -3, -8};
      t->value = constants[Pick(13)];
      return t;
    }
    if (what == 1) {
      t->kind = ExprKind::kSymbol;
      t->symbol = static_cast<int>(Pick(static_cast<int64_t>(symbols.size())));
      return t;
    }
    const ExprKind kinds[] = {
        ExprKind::kAdd,      ExprKind::kAdd, ExprKind::kAdd,      ExprKind::kMul, ExprKind::kMul,
        ExprKind::kFloorDiv, ExprKind::kMod, ExprKind::kFloorDiv, ExprKind::kMod, ExprKind::kMin};
    t->kind = kinds[Pick(10)];
    if (t->kind == ExprKind::kMin && Pick(2) == 0) t->kind = ExprKind::kMax;
    t->a = Make(depth - 1);
    if (t->kind == ExprKind::kFloorDiv || t->kind == ExprKind::kMod) {
      t->b = Pick(3) == 0 ? Make(depth - 1) : Divisor();
    } else {
      t->b = Make(depth - 1);
    }
    return t;
  }

  std::unique_ptr<Tree> Divisor() {
    auto t = std::make_unique<Tree>();
    const int64_t constants[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
    if (Pick(3) != 0) {
      t->kind = ExprKind::kConst;
      t->value = constants[Pick(9)];
      return t;
    }
    t->kind = Pick(2) == 0 ? ExprKind::kMul : ExprKind::kAdd;
    t->a = std::make_unique<Tree>();
    t->a->kind = ExprKind::kSymbol;
    t->a->symbol = static_cast<int>(Pick(2));
    t->b = std::make_unique<Tree>();
    t->b->kind = ExprKind::kConst;
    t->b->value = constants[Pick(9)];
    return t;
  }

  Expr Build(const Tree& t) {
    switch (t.kind) {
      case ExprKind::kConst:
        return arena.Const(t.value);
      case ExprKind::kSymbol:
        return symbols[static_cast<size_t>(t.symbol)];
      case ExprKind::kAdd:
        return arena.Add(Build(*t.a), Build(*t.b));
      case ExprKind::kMul:
        return arena.Mul(Build(*t.a), Build(*t.b));
      case ExprKind::kFloorDiv:
        return arena.FloorDiv(Build(*t.a), Build(*t.b));
      case ExprKind::kMod:
        return arena.Mod(Build(*t.a), Build(*t.b));
      case ExprKind::kMin:
        return arena.Min(Build(*t.a), Build(*t.b));
      case ExprKind::kMax:
        return arena.Max(Build(*t.a), Build(*t.b));
    }
    return {};
  }

  static std::optional<Wide> Value(const Tree& t, const std::vector<int64_t>& values) {
    if (t.kind == ExprKind::kConst) return t.value;
    if (t.kind == ExprKind::kSymbol) return values[static_cast<size_t>(t.symbol)];
    auto a = Value(*t.a, values), b = Value(*t.b, values);
    if (!a || !b) return std::nullopt;
    std::optional<Wide> r;
    switch (t.kind) {
      case ExprKind::kAdd:
        r = *a + *b;
        break;
      case ExprKind::kMul:
        r = *a * *b;
        break;
      case ExprKind::kMin:
        r = std::min(*a, *b);
        break;
      case ExprKind::kMax:
        r = std::max(*a, *b);
        break;
      default: {
        if (*b < 1) return std::nullopt;
        Wide remainder = ((*a % *b) + *b) % *b;
        r = t.kind == ExprKind::kMod ? remainder : (*a - remainder) / *b;
      }
    }
    Wide limit = Wide{1} << 55;
    if (*r > limit || *r < -limit) return std::nullopt;
    return r;
  }

  // Nothing where some loop has no iteration.
  std::optional<std::vector<int64_t>> Assign() {
    std::vector<int64_t> values{n_least + n_divisor * Pick(n_count), 4 * (1 + Pick(16))};
    for (Expr extent : extents) {
      auto trip = arena.Evaluate(extent, [&](Expr s) { return Lookup(s, values); });
      if (!trip.ok() || *trip < 1) return std::nullopt;
      int64_t edge = Pick(4);
      values.push_back(edge == 0 ? 0 : edge == 1 ? *trip - 1 : Pick(*trip));
    }
    return values;
  }

  std::optional<int64_t> Lookup(Expr symbol, const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (symbols[i] == symbol) return values[i];
    }
    return std::nullopt;
  }

  std::mt19937_64 random;
  ExprArena arena;
  Expr n, m;
  int64_t n_divisor = 1, n_least = 0, n_count = 1;  // n is n_least + n_divisor * [0, n_count)
  std::vector<Expr> symbols, extents;
};

TEST(ExprPropertyTest, SimplificationKeepsTheValue) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Fixture f(seed);
    std::unique_ptr<Tree> tree = f.Make(1 + static_cast<int>(f.Pick(5)));
    Expr e = f.Build(*tree);
    std::string text = f.arena.Format(e);
    auto resolve = [&](std::string_view name) -> std::optional<Expr> {
      for (Expr s : f.symbols) {
        if (f.arena.SymbolName(s) == name) return s;
      }
      return std::nullopt;
    };
    auto parsed = f.arena.Parse(text, resolve);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    ASSERT_EQ(f.arena.Format(*parsed), text);
    ExprRange range = f.arena.RangeOf(e);
    for (int trial = 0; trial < 20; ++trial) {
      auto values = f.Assign();
      if (!values) continue;
      auto expected = Fixture::Value(*tree, *values);
      if (!expected) continue;
      auto value_of = [&](Expr s) { return f.Lookup(s, *values); };
      auto actual = f.arena.Evaluate(e, value_of);
      ASSERT_TRUE(actual.ok()) << "seed " << seed << ": " << text << ": "
                               << actual.status().ToString();
      ASSERT_EQ(*actual, static_cast<int64_t>(*expected)) << "seed " << seed << ": " << text;
      ASSERT_LE(range.lo, *actual) << "seed " << seed << ": " << text;
      ASSERT_GE(range.hi, *actual) << "seed " << seed << ": " << text;
      ++compared;
      // The stride is the difference of neighbours.
      size_t loop = 2 + static_cast<size_t>(f.Pick(4));
      if (auto stride = f.arena.StrideOf(e, f.symbols[loop])) {
        auto next = *values;
        ++next[loop];
        auto trip = f.arena.Evaluate(f.extents[loop - 2], value_of);
        auto moved = Fixture::Value(*tree, next);
        if (trip.ok() && next[loop] < *trip && moved) {
          ASSERT_EQ(*f.arena.Evaluate(*stride, value_of), static_cast<int64_t>(*moved - *expected))
              << "seed " << seed << ": " << text;
        }
      }
    }
  }
  EXPECT_GT(compared, 20000);
}

TEST(ExprPropertyTest, KnownFactsHold) {
  int known = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Fixture f(seed * 7919);
    auto ta = f.Make(2), tb = f.Make(2);
    Expr a = f.Build(*ta), b = f.Build(*tb);
    bool less = f.arena.KnownLess(a, b);
    bool less_or_equal = f.arena.KnownLessOrEqual(a, b);
    bool multiple = f.arena.KnownMultipleOf(a, 4);
    known += less + less_or_equal + multiple;
    for (int trial = 0; trial < 20; ++trial) {
      auto values = f.Assign();
      if (!values) continue;
      auto va = Fixture::Value(*ta, *values), vb = Fixture::Value(*tb, *values);
      if (!va || !vb) continue;
      std::string text = f.arena.Format(a) + " and " + f.arena.Format(b);
      if (less) {
        ASSERT_LT(static_cast<int64_t>(*va), static_cast<int64_t>(*vb)) << text;
      }
      if (less_or_equal) {
        ASSERT_LE(static_cast<int64_t>(*va), static_cast<int64_t>(*vb)) << text;
      }
      if (multiple) {
        ASSERT_EQ(static_cast<int64_t>(*va) % 4, 0) << text;
      }
    }
  }
  EXPECT_GT(known, 500);
}

TEST(ExprPropertyTest, SubstitutionCommutesWithEvaluation) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Fixture f(seed * 104729);
    auto tree = f.Make(4), inner = f.Make(2);
    Expr e = f.Build(*tree), with = f.Build(*inner);
    // Only dimension m, whose range the replacement is made to keep.
    with = f.arena.Add(f.arena.Mul(f.arena.Mod(with, f.arena.Const(16)), f.arena.Const(4)),
                       f.arena.Const(4));
    std::pair<Expr, Expr> replacement[] = {{f.m, with}};
    Expr substituted = f.arena.Substitute(e, replacement);
    for (int trial = 0; trial < 10; ++trial) {
      auto values = f.Assign();
      if (!values) continue;
      auto value_of = [&](Expr s) { return f.Lookup(s, *values); };
      auto m_value = f.arena.Evaluate(with, value_of);
      if (!m_value.ok()) continue;
      auto replaced = *values;
      replaced[1] = *m_value;
      // A loop whose extent depends on m must stay inside it.
      bool inside = true;
      for (size_t i = 0; i < f.extents.size(); ++i) {
        auto trip = f.arena.Evaluate(f.extents[i], [&](Expr s) { return f.Lookup(s, replaced); });
        inside = inside && trip.ok() && replaced[i + 2] < *trip;
      }
      auto expected = Fixture::Value(*tree, replaced);
      if (!inside || !expected) continue;
      auto actual = f.arena.Evaluate(substituted, value_of);
      ASSERT_TRUE(actual.ok()) << f.arena.Format(substituted) << actual.status().ToString();
      ASSERT_EQ(*actual, static_cast<int64_t>(*expected)) << "seed " << seed << f.arena.Format(e);
    }
  }
}

}  // namespace
}  // namespace halyard
