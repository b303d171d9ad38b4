// SPDX-License-Identifier: Apache-2.0
// The rewrite rules of FloorDiv, Mod, Min and Max, and the joins of FloorDiv and Mod inside sums.
// Each rule is an identity for positive divisors, and each is checked by random evaluation in the
// tests.
#include <algorithm>
#include <numeric>

#include "compiler/expr/expr_impl.h"

namespace halyard {

namespace {

// Rules may build expressions whose rules build expressions; the count bounds that.
struct DepthGuard {
  explicit DepthGuard(int& depth) : depth(depth) { ++depth; }
  ~DepthGuard() { --depth; }
  int& depth;
};

// Removes the atoms of `part` from `from`; false where one is missing.
bool RemoveAtoms(std::vector<Expr>& from, const std::vector<Expr>& part) {
  for (Expr atom : part) {
    auto it = std::find(from.begin(), from.end(), atom);
    if (it == from.end()) return false;
    from.erase(it);
  }
  return true;
}

std::vector<Expr> CommonAtoms(std::vector<Expr> a, const std::vector<Expr>& b) {
  std::vector<Expr> common;
  for (Expr atom : b) {
    auto it = std::find(a.begin(), a.end(), atom);
    if (it == a.end()) continue;
    common.push_back(atom);
    a.erase(it);
  }
  return common;
}

}  // namespace

// k*c*R*floordiv(x, c) + k*R*mod(x, c)               = k*R*x
// k*c*R*mod(floordiv(x, c), d) + k*R*mod(x, c)       = k*R*mod(x, c*d)
// k*c*R*floordiv(x, c)  where c divides x for certain = k*R*x
bool ExprArena::Impl::JoinDivMod(Polynomial& p) {
  if (simplify_depth > kMaxSimplifyDepth) {
    ++limit_hits;
    return false;
  }
  DepthGuard guard(simplify_depth);
  for (size_t i = 0; i < p.terms.size(); ++i) {
    std::vector<Expr> atoms = AtomsOf(p.terms[i].monomial);
    int64_t k = p.terms[i].coefficient;
    for (size_t a = 0; a < atoms.size(); ++a) {
      const Node& node = at(atoms[a]);
      if (node.kind != ExprKind::kMod && node.kind != ExprKind::kFloorDiv) continue;
      Expr x = node.operands[0], divisor = node.operands[1];
      std::optional<Monomial> c = AsMonomial(divisor);
      if (!c) continue;
      std::vector<Expr> rest = atoms;
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(a));
      if (node.kind == ExprKind::kFloorDiv) {
        if (!c->atoms.empty() || k % c->coefficient != 0) continue;
        int64_t known = KnownDivisor(x);
        if (known == 0 || known % c->coefficient != 0) continue;
        p.terms.erase(p.terms.begin() + static_cast<ptrdiff_t>(i));
        AddScaled(p, Product(ToPolynomial(x), ToPolynomial(MakeProduct(1, rest))),
                  k / c->coefficient);
        return true;
      }
      if (p.terms.size() < 2) continue;
      Expr quotient = Divide(x, divisor);
      ExprKind kind = at(quotient).kind;
      if (kind == ExprKind::kAdd || kind == ExprKind::kMul || kind == ExprKind::kConst) continue;
      int64_t wanted = 0;
      if (__builtin_mul_overflow(k, c->coefficient, &wanted)) continue;
      for (size_t j = 0; j < p.terms.size(); ++j) {
        if (j == i || p.terms[j].coefficient != wanted) continue;
        std::vector<Expr> other = AtomsOf(p.terms[j].monomial);
        if (!RemoveAtoms(other, rest) || !RemoveAtoms(other, c->atoms) || other.size() != 1)
          continue;
        Expr joined;
        if (other[0] == quotient) {
          joined = x;
        } else if (at(other[0]).kind == ExprKind::kMod && at(other[0]).operands[0] == quotient) {
          Polynomial d = Product(ToPolynomial(at(other[0]).operands[1]), ToPolynomial(divisor));
          if (d.is_overflown) continue;
          joined = Modulo(x, FromPolynomial(std::move(d)));
        } else {
          continue;
        }
        p.terms.erase(p.terms.begin() + static_cast<ptrdiff_t>(std::max(i, j)));
        p.terms.erase(p.terms.begin() + static_cast<ptrdiff_t>(std::min(i, j)));
        AddScaled(p, Product(ToPolynomial(joined), ToPolynomial(MakeProduct(1, rest))), k);
        return true;
      }
    }
  }
  return false;
}

template <typename Compute>
Expr ExprArena::Impl::Cached(ExprKind kind, Expr a, Expr b, Compute compute) {
  MemoKey key{kind, a.id, b.id};
  if (auto it = memo.find(key); it != memo.end()) return it->second;
  if (simplify_depth > kMaxSimplifyDepth) {
    ++limit_hits;
    return MakeBinary(kind, a, b);
  }
  DepthGuard guard(simplify_depth);
  uint64_t hits = limit_hits;
  std::vector<Expr> outer = assumed_positive;
  if (auto m = AsMonomial(b)) {
    // A positive product of factors that are not negative has positive factors.
    bool all = std::all_of(m->atoms.begin(), m->atoms.end(),
                           [&](Expr atom) { return at(atom).range.lo >= 0; });
    if (all) assumed_positive.insert(assumed_positive.end(), m->atoms.begin(), m->atoms.end());
  }
  Expr result = compute();
  assumed_positive = std::move(outer);
  // What was found under an outer assumption or cut short by the limit is not remembered.
  if (assumed_positive.empty() && hits == limit_hits) {
    if (memo.size() >= kMaxMemoEntries) memo.clear();
    memo.emplace(key, result);
  }
  return result;
}

Expr ExprArena::Impl::Divide(Expr a, Expr b) {
  return Cached(ExprKind::kFloorDiv, a, b, [&] { return DivideUncached(a, b); });
}

Expr ExprArena::Impl::Modulo(Expr a, Expr b) {
  return Cached(ExprKind::kMod, a, b, [&] { return ModuloUncached(a, b); });
}

namespace {

// x = divisor*quotient + rest, by whole terms: what the divisor divides goes to the quotient.
struct Split {
  Polynomial quotient, rest;
};

}  // namespace

static Split SplitByMonomial(ExprArena::Impl& arena, const Polynomial& x, const Monomial& d) {
  Split split;
  split.quotient.is_overflown = x.is_overflown;
  for (const Term& term : x.terms) {
    std::vector<Expr> atoms = arena.AtomsOf(term.monomial);
    int64_t q = term.coefficient / d.coefficient;
    int64_t r = term.coefficient % d.coefficient;
    if (!RemoveAtoms(atoms, d.atoms)) {
      q = 0;
      r = term.coefficient;
    }
    if (q != 0) {
      if (atoms.empty()) {
        split.quotient.is_overflown |=
            __builtin_add_overflow(split.quotient.constant, q, &split.quotient.constant);
      } else {
        split.quotient.terms.push_back({arena.MakeProduct(1, atoms), q});
      }
    }
    if (r != 0) split.rest.terms.push_back({term.monomial, r});
  }
  if (d.atoms.empty()) {
    split.quotient.is_overflown |= __builtin_add_overflow(
        split.quotient.constant, FloorDivInt(x.constant, d.coefficient), &split.quotient.constant);
    split.rest.constant = FloorModInt(x.constant, d.coefficient);
  } else {
    split.rest.constant = x.constant;
  }
  arena.Normalize(split.quotient);
  arena.Normalize(split.rest);
  return split;
}

// A factor g of d such that x = g*y + s with 0 <= s < g for certain, s made of whole terms. The
// largest first: dividing by it drops the most. Nothing where no factor but 1 works.
static std::optional<std::pair<Monomial, Split>> CommonFactor(ExprArena::Impl& arena,
                                                              const Polynomial& x,
                                                              const Monomial& d) {
  std::vector<Monomial> candidates;
  for (const Term& term : x.terms) {
    Monomial g;
    g.coefficient = Gcd(term.coefficient, d.coefficient);
    g.atoms = CommonAtoms(arena.AtomsOf(term.monomial), d.atoms);
    if (g.coefficient == 1 && g.atoms.empty()) continue;
    if (g.coefficient == d.coefficient && g.atoms.size() == d.atoms.size()) continue;
    bool known = false;
    for (const Monomial& c : candidates)
      known |= c.coefficient == g.coefficient && c.atoms == g.atoms;
    if (!known && candidates.size() < 16) candidates.push_back(std::move(g));
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Monomial& a, const Monomial& b) {
    if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
    return a.coefficient > b.coefficient;
  });
  for (const Monomial& g : candidates) {
    Split split;
    for (const Term& term : x.terms) {
      std::vector<Expr> atoms = arena.AtomsOf(term.monomial);
      if (term.coefficient % g.coefficient == 0 && RemoveAtoms(atoms, g.atoms)) {
        int64_t q = term.coefficient / g.coefficient;
        if (atoms.empty()) {
          split.quotient.is_overflown |=
              __builtin_add_overflow(split.quotient.constant, q, &split.quotient.constant);
        } else {
          split.quotient.terms.push_back({arena.MakeProduct(1, atoms), q});
        }
      } else {
        split.rest.terms.push_back(term);
      }
    }
    if (g.atoms.empty()) {
      split.quotient.is_overflown |=
          __builtin_add_overflow(split.quotient.constant, FloorDivInt(x.constant, g.coefficient),
                                 &split.quotient.constant);
      split.rest.constant = FloorModInt(x.constant, g.coefficient);
    } else {
      split.rest.constant = x.constant;
    }
    if (split.quotient.is_overflown) continue;
    arena.Normalize(split.quotient);
    Polynomial room;
    arena.AddScaled(room, arena.ToPolynomial(arena.MakeProduct(g.coefficient, g.atoms)), 1);
    arena.AddScaled(room, split.rest, -1);
    room.is_overflown |= __builtin_sub_overflow(room.constant, int64_t{1}, &room.constant);
    if (room.is_overflown) continue;
    if (!arena.KnownNonNegative(arena.FromPolynomial(split.rest))) continue;
    if (!arena.KnownNonNegative(arena.FromPolynomial(room))) continue;
    return std::make_pair(g, std::move(split));
  }
  return std::nullopt;
}

// Long division by a sum, along the divisor's first term: x = d*q + r. Accepted by the callers only
// where 0 <= r < d for certain.
static std::optional<Split> LongDivision(ExprArena::Impl& arena, Polynomial x, Expr divisor) {
  Polynomial d = arena.ToPolynomial(divisor);
  if (d.terms.empty() || d.terms[0].coefficient <= 0) return std::nullopt;
  Monomial lead;
  lead.coefficient = d.terms[0].coefficient;
  lead.atoms = arena.AtomsOf(d.terms[0].monomial);
  Split split;
  for (int step = 0; step < 8; ++step) {
    Polynomial q;
    for (const Term& term : x.terms) {
      std::vector<Expr> atoms = arena.AtomsOf(term.monomial);
      if (term.coefficient % lead.coefficient != 0 || !RemoveAtoms(atoms, lead.atoms)) continue;
      int64_t coefficient = term.coefficient / lead.coefficient;
      if (atoms.empty()) {
        q.is_overflown |= __builtin_add_overflow(q.constant, coefficient, &q.constant);
      } else {
        q.terms.push_back({arena.MakeProduct(1, atoms), coefficient});
      }
    }
    arena.Normalize(q);
    if (q.terms.empty() && q.constant == 0) {
      split.rest = std::move(x);
      return split;
    }
    arena.AddScaled(split.quotient, q, 1);
    arena.AddScaled(x, arena.Product(q, d), -1);
    if (x.is_overflown || split.quotient.is_overflown) return std::nullopt;
  }
  return std::nullopt;
}

Expr ExprArena::Impl::DivideUncached(Expr a, Expr b) {
  Polynomial x = ToPolynomial(a);
  if (b == MakeConst(1)) return a;
  if (x.terms.empty() && x.constant == 0) return a;
  if (a == b) return MakeConst(1);
  ExprRange range = at(a).range;
  std::optional<Monomial> d = AsMonomial(b);
  if (!d) {
    if (at(b).kind != ExprKind::kAdd) return MakeBinary(ExprKind::kFloorDiv, a, b);  // not positive
    auto split = LongDivision(*this, x, b);
    if (split) {
      Polynomial room = ToPolynomial(b);
      AddScaled(room, split->rest, -1);
      room.is_overflown |= __builtin_sub_overflow(room.constant, int64_t{1}, &room.constant);
      if (!room.is_overflown && KnownNonNegative(FromPolynomial(split->rest)) &&
          KnownNonNegative(FromPolynomial(room))) {
        return FromPolynomial(std::move(split->quotient));
      }
    }
    return MakeBinary(ExprKind::kFloorDiv, a, b);
  }
  if (d->atoms.empty()) {
    if (x.terms.empty()) return MakeConst(FloorDivInt(x.constant, d->coefficient));
    if (range.lo != INT64_MIN && range.hi != INT64_MAX &&
        FloorDivInt(range.lo, d->coefficient) == FloorDivInt(range.hi, d->coefficient)) {
      return MakeConst(FloorDivInt(range.lo, d->coefficient));
    }
  }
  Split split = SplitByMonomial(*this, x, *d);
  if (split.quotient.is_overflown) return MakeBinary(ExprKind::kFloorDiv, a, b);
  if (!split.quotient.terms.empty() || split.quotient.constant != 0) {
    Expr rest = Divide(FromPolynomial(std::move(split.rest)), b);
    AddScaled(split.quotient, ToPolynomial(rest), 1);
    return FromPolynomial(std::move(split.quotient));
  }
  Polynomial room = ToPolynomial(b);
  AddScaled(room, x, -1);
  room.is_overflown |= __builtin_sub_overflow(room.constant, int64_t{1}, &room.constant);
  if (!room.is_overflown && !x.terms.empty() && KnownNonNegative(a) &&
      KnownNonNegative(FromPolynomial(std::move(room)))) {
    return MakeConst(0);
  }
  if (!x.is_overflown && x.terms.empty() && !d->atoms.empty() && x.constant >= 0 &&
      at(b).range.lo > x.constant) {
    return MakeConst(0);
  }
  // floordiv(g*y + s, g*e) = floordiv(y, e) for 0 <= s < g
  if (auto factor = CommonFactor(*this, x, *d)) {
    std::vector<Expr> atoms = d->atoms;
    RemoveAtoms(atoms, factor->first.atoms);
    Expr e = MakeProduct(d->coefficient / factor->first.coefficient, atoms);
    return Divide(FromPolynomial(std::move(factor->second.quotient)), e);
  }
  if (x.terms.size() == 1 && x.terms[0].coefficient == 1) {
    const Node& inner = at(x.terms[0].monomial);
    // floordiv(floordiv(y, c) + k, d) = floordiv(y + k*c, c*d)
    if (inner.kind == ExprKind::kFloorDiv) {
      Polynomial c = ToPolynomial(inner.operands[1]);
      Polynomial y = ToPolynomial(inner.operands[0]);
      AddScaled(y, c, x.constant);
      Polynomial both = Product(c, ToPolynomial(b));
      if (!y.is_overflown && !both.is_overflown) {
        return Divide(FromPolynomial(std::move(y)), FromPolynomial(std::move(both)));
      }
    }
    // floordiv(mod(y, c*d), d) = mod(floordiv(y, d), c)
    if (inner.kind == ExprKind::kMod && x.constant == 0) {
      if (auto m = AsMonomial(inner.operands[1])) {
        std::vector<Expr> atoms = m->atoms;
        if (m->coefficient % d->coefficient == 0 && RemoveAtoms(atoms, d->atoms)) {
          Expr c = MakeProduct(m->coefficient / d->coefficient, atoms);
          return Modulo(Divide(inner.operands[0], b), c);
        }
      }
    }
  }
  return MakeBinary(ExprKind::kFloorDiv, a, b);
}

Expr ExprArena::Impl::ModuloUncached(Expr a, Expr b) {
  Polynomial x = ToPolynomial(a);
  if (b == MakeConst(1) || a == b) return MakeConst(0);
  if (x.terms.empty() && x.constant == 0) return a;
  std::optional<Monomial> d = AsMonomial(b);
  if (!d) {
    if (at(b).kind != ExprKind::kAdd) return MakeBinary(ExprKind::kMod, a, b);
    auto split = LongDivision(*this, x, b);
    if (split) {
      Polynomial room = ToPolynomial(b);
      AddScaled(room, split->rest, -1);
      room.is_overflown |= __builtin_sub_overflow(room.constant, int64_t{1}, &room.constant);
      Expr rest = FromPolynomial(std::move(split->rest));
      if (!room.is_overflown && KnownNonNegative(rest) &&
          KnownNonNegative(FromPolynomial(std::move(room)))) {
        return rest;
      }
    }
    return MakeBinary(ExprKind::kMod, a, b);
  }
  if (d->atoms.empty()) {
    int64_t c = d->coefficient;
    if (x.terms.empty()) return MakeConst(FloorModInt(x.constant, c));
    ExprRange range = at(a).range;
    if (range.lo != INT64_MIN && range.hi != INT64_MAX &&
        FloorDivInt(range.lo, c) == FloorDivInt(range.hi, c)) {
      int64_t shift = 0;  // a - floordiv(a, c)*c, the quotient being one number
      if (!__builtin_mul_overflow(FloorDivInt(range.lo, c), c, &shift) &&
          !__builtin_sub_overflow(x.constant, shift, &x.constant)) {
        return FromPolynomial(std::move(x));
      }
    }
  }
  Split split = SplitByMonomial(*this, x, *d);
  if (split.quotient.is_overflown) return MakeBinary(ExprKind::kMod, a, b);
  if (d->atoms.empty()) {
    std::erase_if(split.rest.terms, [&](const Term& term) {
      int64_t known = KnownDivisor(MakeProduct(term.coefficient, AtomsOf(term.monomial)));
      return known % d->coefficient == 0;
    });
  }
  // mod(y + k*mod(z, c), d) = mod(y + k*z, d) where d divides k*c
  for (size_t i = 0; i < split.rest.terms.size(); ++i) {
    Term term = split.rest.terms[i];
    const Node& inner = at(term.monomial);
    if (inner.kind != ExprKind::kMod) continue;
    auto c = AsMonomial(inner.operands[1]);
    if (!c) continue;
    int64_t kc = 0;
    std::vector<Expr> atoms = c->atoms;
    if (__builtin_mul_overflow(term.coefficient, c->coefficient, &kc)) continue;
    if (kc % d->coefficient != 0 || !RemoveAtoms(atoms, d->atoms)) continue;
    Expr z = inner.operands[0];
    split.rest.terms.erase(split.rest.terms.begin() + static_cast<ptrdiff_t>(i));
    AddScaled(split.rest, ToPolynomial(z), term.coefficient);
    return Modulo(FromPolynomial(std::move(split.rest)), b);
  }
  Expr reduced = FromPolynomial(split.rest);
  if (reduced != a) return Modulo(reduced, b);
  Polynomial room = ToPolynomial(b);
  AddScaled(room, x, -1);
  room.is_overflown |= __builtin_sub_overflow(room.constant, int64_t{1}, &room.constant);
  if (!room.is_overflown && KnownNonNegative(a) &&
      KnownNonNegative(FromPolynomial(std::move(room)))) {
    return a;
  }
  // mod(g*y + s, g*e) = g*mod(y, e) + s for 0 <= s < g
  if (auto factor = CommonFactor(*this, x, *d)) {
    std::vector<Expr> atoms = d->atoms;
    RemoveAtoms(atoms, factor->first.atoms);
    Expr e = MakeProduct(d->coefficient / factor->first.coefficient, atoms);
    Expr inner = Modulo(FromPolynomial(std::move(factor->second.quotient)), e);
    Expr g = MakeProduct(factor->first.coefficient, factor->first.atoms);
    Polynomial p = Product(ToPolynomial(inner), ToPolynomial(g));
    AddScaled(p, factor->second.rest, 1);
    return FromPolynomial(std::move(p));
  }
  return MakeBinary(ExprKind::kMod, a, b);
}

Expr ExprArena::Impl::MinMax(ExprKind kind, Expr a, Expr b) {
  // n-ary, sorted, without operands that another one dominates for certain.
  std::vector<Expr> operands;
  for (Expr e : {a, b}) {
    if (at(e).kind == kind) {
      operands.insert(operands.end(), at(e).operands.begin(), at(e).operands.end());
    } else {
      operands.push_back(e);
    }
  }
  std::sort(operands.begin(), operands.end(), [this](Expr x, Expr y) { return Compare(x, y) < 0; });
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  auto dominated = [&](Expr x, Expr y) {  // y makes x superfluous
    Polynomial gap = ToPolynomial(x);
    AddScaled(gap, ToPolynomial(y), -1);
    if (kind == ExprKind::kMax) {
      Polynomial flipped;
      AddScaled(flipped, gap, -1);
      gap = std::move(flipped);
    }
    return !gap.is_overflown && KnownNonNegative(FromPolynomial(std::move(gap)));
  };
  if (operands.size() <= 16) {
    for (size_t i = 0; i < operands.size();) {
      bool drop = false;
      for (size_t j = 0; j < operands.size() && !drop; ++j) {
        drop = i != j && dominated(operands[i], operands[j]);
      }
      if (drop) {
        operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  if (operands.size() == 1) return operands[0];
  Node node;
  node.kind = kind;
  node.operands = std::move(operands);
  return Intern(std::move(node));
}

}  // namespace halyard
