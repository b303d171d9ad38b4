// SPDX-License-Identifier: Apache-2.0
// The inside of ExprArena, shared by the sources of this folder and by nobody else: nodes, their
// canonical form as polynomials over atoms, and the limits that bound work on hostile input.
#pragma once

#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/expr/expr.h"

namespace halyard {

// Canonical form. An expression is a polynomial with integer coefficients over atoms: symbols,
// FloorDiv, Mod, Min and Max. A kAdd holds its terms in structural order, the constant last; a kMul
// holds its coefficient first (where it is not 1), then its atoms in structural order, repeated for
// powers.
//
// Whatever would overflow a coefficient or pass a limit below becomes a fresh symbol named "?" that
// has no value: Evaluate reports OUT_OF_RANGE, nothing can be proved about it, and it equals only
// itself.
inline constexpr size_t kMaxTerms = 256;   // of one polynomial
inline constexpr size_t kMaxFactors = 32;  // of one monomial
inline constexpr uint32_t kMaxDepth =
    400;  // of nested atoms; also bounds every recursion over nodes
inline constexpr uint32_t kMaxTreeSize = 1 << 14;  // nodes of an expression written out
inline constexpr int kMaxSimplifyDepth = 24;       // rules applied within rules
inline constexpr size_t kMaxMemoEntries = 1 << 20;

struct Term {
  Expr monomial;  // an atom, or a kMul of atoms without a coefficient
  int64_t coefficient = 0;
};

struct Polynomial {
  std::vector<Term> terms;
  int64_t constant = 0;
  bool is_overflown = false;
};

// A product of a positive coefficient and atoms, the form of divisors that the rules understand.
struct Monomial {
  int64_t coefficient = 1;
  std::vector<Expr> atoms;  // structural order
};

inline uint64_t Magnitude(int64_t v) {
  return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
}

// gcd(|a|, |b|); 1 where it is no int64_t.
inline int64_t Gcd(int64_t a, int64_t b) {
  const uint64_t g = std::gcd(Magnitude(a), Magnitude(b));
  return g > static_cast<uint64_t>(INT64_MAX) ? 1 : static_cast<int64_t>(g);
}

struct ExprArena::Impl {
  struct Node {
    ExprKind kind = ExprKind::kConst;
    std::vector<Expr> operands;
    int64_t value = 0;  // kConst: the value; kMul: the coefficient
    Expr monomial;      // kMul: itself without the coefficient
    uint32_t symbol = UINT32_MAX;
    uint32_t depth = 1;
    uint32_t tree_size = 1;
    uint64_t hash = 0;
    ExprRange range;
  };
  struct Symbol {
    std::string name;
    SymbolKind kind = SymbolKind::kDim;
    Expr extent;  // kLoop
    ExprRange declared;
    int64_t divisor = 1;
    int64_t hint = -1;  // -1: none
    bool is_poison = false;
  };
  struct Hash {
    const std::deque<Node>* nodes;
    size_t operator()(uint32_t id) const { return (*nodes)[id].hash; }
  };
  struct Equal {
    const std::deque<Node>* nodes;
    bool operator()(uint32_t a, uint32_t b) const;
  };
  struct MemoKey {
    ExprKind kind;
    uint32_t a, b;
    bool operator==(const MemoKey&) const = default;
  };
  struct MemoHash {
    size_t operator()(const MemoKey& k) const {
      return (uint64_t{k.a} << 32 | k.b) * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(k.kind);
    }
  };

  Impl();

  // Nodes (expr.cc)
  const Node& at(Expr e) const { return nodes[e.id]; }
  const Symbol& symbol_of(Expr e) const { return symbols[nodes[e.id].symbol]; }
  Expr Intern(Node node);
  Expr MakeConst(int64_t value);
  Expr MakeSymbol(Symbol symbol);
  Expr MakePoison();
  Expr MakeBinary(ExprKind kind, Expr a, Expr b);
  Expr MakeProduct(int64_t coefficient, std::vector<Expr> atoms);
  ExprRange ComputeRange(const Node& node) const;
  int Compare(Expr a, Expr b) const;  // structural order; 0 only for equal handles

  // Polynomials (expr.cc)
  std::vector<Expr> AtomsOf(Expr monomial) const;
  Polynomial ToPolynomial(Expr e) const;
  Expr FromPolynomial(Polynomial p);
  void AddScaled(Polynomial& to, const Polynomial& p, int64_t scale) const;
  Polynomial Product(const Polynomial& a, const Polynomial& b);
  void Normalize(Polynomial& p) const;
  std::optional<Monomial> AsMonomial(Expr e) const;

  // Rules (expr_simplify.cc)
  bool JoinDivMod(Polynomial& p);
  template <typename Compute>
  Expr Cached(ExprKind kind, Expr a, Expr b, Compute compute);
  Expr Divide(Expr a, Expr b);
  Expr Modulo(Expr a, Expr b);
  Expr DivideUncached(Expr a, Expr b);
  Expr ModuloUncached(Expr a, Expr b);
  Expr MinMax(ExprKind kind, Expr a, Expr b);

  // Facts (expr_facts.cc)
  int64_t KnownDivisor(Expr e) const;  // of every value of e; 0 for the constant 0
  bool KnownNonNegative(Expr e);
  std::optional<Expr> UpperBoundOf(Expr atom);
  ExprRange PolynomialRange(const Polynomial& p) const;

  std::deque<Node> nodes;  // stable addresses: OperandsOf hands out spans
  std::vector<Symbol> symbols;
  std::unordered_map<std::string, Expr> dims;
  std::unordered_set<uint32_t, Hash, Equal> interned;
  std::unordered_map<MemoKey, Expr, MemoHash> memo;
  std::vector<Expr> assumed_positive;  // atoms of the divisor at hand: divisors are positive
  int simplify_depth = 0;
  uint64_t limit_hits = 0;  // how often a rule was cut short by kMaxSimplifyDepth
};

// Interval arithmetic; INT64_MIN and INT64_MAX are the infinities.
ExprRange AddRanges(ExprRange a, ExprRange b);
ExprRange MulRanges(ExprRange a, ExprRange b);
int64_t FloorDivInt(int64_t a, int64_t b);  // b > 0
int64_t FloorModInt(int64_t a, int64_t b);  // b > 0

}  // namespace halyard
