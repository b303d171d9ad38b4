// SPDX-License-Identifier: Apache-2.0
// ExprArena: hash-consed nodes and their canonical form, sums of products in structural order. The
// order depends on names and structure, never on creation, so that text read into another arena
// prints alike.
#include "compiler/expr/expr.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/expr/expr_impl.h"
#include "compiler/expr/largest_symbol.h"

namespace halyard {

namespace {

constexpr int64_t kInfinity = INT64_MAX;
constexpr int64_t kMinusInfinity = INT64_MIN;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDull;
}

int64_t Saturate(__int128 v) {
  if (v >= kInfinity) return kInfinity;
  if (v <= kMinusInfinity) return kMinusInfinity;
  return static_cast<int64_t>(v);
}

int64_t AddBound(int64_t a, int64_t b) {
  if (a == kInfinity || b == kInfinity) return kInfinity;
  if (a == kMinusInfinity || b == kMinusInfinity) return kMinusInfinity;
  return Saturate(static_cast<__int128>(a) + b);
}

int64_t MulBound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return Saturate(static_cast<__int128>(a) * b);
}

}  // namespace

ExprRange AddRanges(ExprRange a, ExprRange b) {
  // An upper bound that meets the other infinity stays unbounded on its own side.
  ExprRange r;
  r.lo = a.lo == kMinusInfinity || b.lo == kMinusInfinity ? kMinusInfinity : AddBound(a.lo, b.lo);
  r.hi = a.hi == kInfinity || b.hi == kInfinity ? kInfinity : AddBound(a.hi, b.hi);
  return r;
}

ExprRange MulRanges(ExprRange a, ExprRange b) {
  const int64_t products[] = {MulBound(a.lo, b.lo), MulBound(a.lo, b.hi), MulBound(a.hi, b.lo),
                              MulBound(a.hi, b.hi)};
  return {*std::min_element(products, products + 4), *std::max_element(products, products + 4)};
}

int64_t FloorDivInt(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

int64_t FloorModInt(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}

bool ExprArena::Impl::Equal::operator()(uint32_t a, uint32_t b) const {
  const Node& x = (*nodes)[a];
  const Node& y = (*nodes)[b];
  return x.kind == y.kind && x.value == y.value && x.symbol == y.symbol && x.operands == y.operands;
}

ExprArena::Impl::Impl() : interned(64, Hash{&nodes}, Equal{&nodes}) {}

Expr ExprArena::Impl::Intern(Node node) {
  uint64_t hash = Mix(static_cast<uint64_t>(node.kind) + 1, static_cast<uint64_t>(node.value));
  hash = Mix(hash, node.symbol);
  uint64_t size = 1;
  for (Expr operand : node.operands) {
    hash = Mix(hash, operand.id);
    node.depth = std::max(node.depth, at(operand).depth + 1);
    size += at(operand).tree_size;
  }
  if (node.depth > kMaxDepth || size > kMaxTreeSize) return MakePoison();
  node.hash = hash;
  node.tree_size = static_cast<uint32_t>(size);
  node.range = ComputeRange(node);
  nodes.push_back(std::move(node));
  auto id = static_cast<uint32_t>(nodes.size() - 1);
  auto [it, inserted] = interned.insert(id);
  if (!inserted) nodes.pop_back();
  return Expr{*it};
}

Expr ExprArena::Impl::MakeConst(int64_t value) {
  Node node;
  node.value = value;
  return Intern(std::move(node));
}

Expr ExprArena::Impl::MakeSymbol(Symbol symbol) {
  Node node;
  node.kind = ExprKind::kSymbol;
  node.symbol = static_cast<uint32_t>(symbols.size());
  symbols.push_back(std::move(symbol));
  return Intern(std::move(node));
}

Expr ExprArena::Impl::MakePoison() {
  Symbol symbol;
  symbol.name = "?";
  symbol.is_poison = true;
  return MakeSymbol(std::move(symbol));
}

Expr ExprArena::Impl::MakeBinary(ExprKind kind, Expr a, Expr b) {
  Node node;
  node.kind = kind;
  node.operands = {a, b};
  return Intern(std::move(node));
}

Expr ExprArena::Impl::MakeProduct(int64_t coefficient, std::vector<Expr> atoms) {
  if (coefficient == 0) return MakeConst(0);
  if (atoms.empty()) return MakeConst(coefficient);
  if (atoms.size() > kMaxFactors) return MakePoison();
  std::sort(atoms.begin(), atoms.end(), [this](Expr a, Expr b) { return Compare(a, b) < 0; });
  Expr monomial = atoms[0];
  if (atoms.size() > 1) {
    Node node;
    node.kind = ExprKind::kMul;
    node.operands = atoms;
    node.value = 1;
    monomial = Intern(std::move(node));
    if (at(monomial).kind == ExprKind::kMul) nodes[monomial.id].monomial = monomial;
  }
  if (coefficient == 1 || at(monomial).kind == ExprKind::kSymbol) {
    if (coefficient == 1) return monomial;
  }
  Node node;
  node.kind = ExprKind::kMul;
  node.operands.push_back(MakeConst(coefficient));
  for (Expr atom : AtomsOf(monomial)) node.operands.push_back(atom);
  node.value = coefficient;
  node.monomial = monomial;
  return Intern(std::move(node));
}

ExprRange ExprArena::Impl::ComputeRange(const Node& node) const {
  switch (node.kind) {
    case ExprKind::kConst:
      return {node.value, node.value};
    case ExprKind::kSymbol: {
      const Symbol& symbol = symbols[node.symbol];
      ExprRange r = symbol.declared;
      if (symbol.kind == SymbolKind::kLoop && symbol.extent.valid()) {
        int64_t extent = at(symbol.extent).range.hi;
        r.lo = std::max<int64_t>(r.lo, 0);
        if (extent != kInfinity) r.hi = std::min(r.hi, std::max<int64_t>(extent - 1, 0));
      }
      return r;
    }
    case ExprKind::kAdd: {
      ExprRange r{0, 0};
      for (Expr e : node.operands) r = AddRanges(r, at(e).range);
      return r;
    }
    case ExprKind::kMul: {
      ExprRange r{1, 1};
      for (size_t i = 0; i < node.operands.size();) {
        // Even powers are not negative, which multiplying equal intervals would miss.
        size_t power = 1;
        while (i + power < node.operands.size() && node.operands[i + power] == node.operands[i])
          ++power;
        ExprRange base = at(node.operands[i]).range;
        ExprRange raised = base;
        for (size_t p = 1; p < power; ++p) raised = MulRanges(raised, base);
        if (power % 2 == 0) raised.lo = std::max<int64_t>(raised.lo, 0);
        r = MulRanges(r, raised);
        i += power;
      }
      return r;
    }
    case ExprKind::kFloorDiv: {
      ExprRange a = at(node.operands[0]).range, b = at(node.operands[1]).range;
      b.lo = std::max<int64_t>(b.lo, 1);
      b.hi = std::max(b.hi, b.lo);
      // The quotient is monotone in the dividend and moves towards 0 (or -1) as the divisor grows.
      auto divide = [](int64_t x, int64_t y) -> int64_t {
        if (x == kInfinity || x == kMinusInfinity) return x;
        return FloorDivInt(x, y);
      };
      return {divide(a.lo, a.lo >= 0 ? b.hi : b.lo), divide(a.hi, a.hi >= 0 ? b.lo : b.hi)};
    }
    case ExprKind::kMod: {
      ExprRange a = at(node.operands[0]).range, b = at(node.operands[1]).range;
      ExprRange r{0, b.hi == kInfinity ? kInfinity : std::max<int64_t>(b.hi - 1, 0)};
      if (a.lo >= 0) r.hi = std::min(r.hi, std::max<int64_t>(a.hi, 0));
      return r;
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      bool is_min = node.kind == ExprKind::kMin;
      ExprRange r = at(node.operands[0]).range;
      for (Expr e : node.operands) {
        ExprRange o = at(e).range;
        r.lo = is_min ? std::min(r.lo, o.lo) : std::max(r.lo, o.lo);
        r.hi = is_min ? std::min(r.hi, o.hi) : std::max(r.hi, o.hi);
      }
      return r;
    }
  }
  return {};
}

int ExprArena::Impl::Compare(Expr a, Expr b) const {
  // One recursion per level, into the first operands that differ: linear in depth, also on shared
  // nodes.
  if (a == b) return 0;
  const Node& x = at(a);
  const Node& y = at(b);
  if (x.kind != y.kind) {
    // Constants last, symbols first, products among the atoms that they start with.
    auto rank = [](ExprKind kind) {
      return kind == ExprKind::kConst ? 100 : static_cast<int>(kind);
    };
    return rank(x.kind) < rank(y.kind) ? -1 : 1;
  }
  if (x.kind == ExprKind::kConst) return x.value < y.value ? -1 : 1;
  if (x.kind == ExprKind::kSymbol) {
    const Symbol& s = symbols[x.symbol];
    const Symbol& t = symbols[y.symbol];
    if (s.kind != t.kind) return s.kind < t.kind ? -1 : 1;
    if (int c = s.name.compare(t.name); c != 0) return c < 0 ? -1 : 1;
    return x.symbol < y.symbol ? -1 : 1;
  }
  size_t common = std::min(x.operands.size(), y.operands.size());
  for (size_t i = 0; i < common; ++i) {
    if (x.operands[i] != y.operands[i]) return Compare(x.operands[i], y.operands[i]);
  }
  return x.operands.size() < y.operands.size() ? -1 : 1;
}

std::vector<Expr> ExprArena::Impl::AtomsOf(Expr monomial) const {
  const Node& node = at(monomial);
  if (node.kind != ExprKind::kMul) return {monomial};
  return at(node.monomial).kind == ExprKind::kMul ? at(node.monomial).operands
                                                  : std::vector<Expr>{node.monomial};
}

Polynomial ExprArena::Impl::ToPolynomial(Expr e) const {
  Polynomial p;
  auto add = [&](Expr term) {
    const Node& node = at(term);
    if (node.kind == ExprKind::kConst) {
      p.constant = node.value;
    } else if (node.kind == ExprKind::kMul) {
      p.terms.push_back({node.monomial, node.value});
    } else {
      p.terms.push_back({term, 1});
    }
  };
  if (at(e).kind == ExprKind::kAdd) {
    for (Expr term : at(e).operands) add(term);
  } else {
    add(e);
  }
  return p;
}

void ExprArena::Impl::Normalize(Polynomial& p) const {
  std::sort(p.terms.begin(), p.terms.end(),
            [this](const Term& a, const Term& b) { return Compare(a.monomial, b.monomial) < 0; });
  std::vector<Term> merged;
  for (const Term& term : p.terms) {
    if (!merged.empty() && merged.back().monomial == term.monomial) {
      p.is_overflown |= __builtin_add_overflow(merged.back().coefficient, term.coefficient,
                                               &merged.back().coefficient);
    } else {
      merged.push_back(term);
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  p.terms = std::move(merged);
}

void ExprArena::Impl::AddScaled(Polynomial& to, const Polynomial& p, int64_t scale) const {
  int64_t scaled = 0;
  to.is_overflown |= p.is_overflown | __builtin_mul_overflow(p.constant, scale, &scaled);
  to.is_overflown |= __builtin_add_overflow(to.constant, scaled, &to.constant);
  for (Term term : p.terms) {
    to.is_overflown |= __builtin_mul_overflow(term.coefficient, scale, &term.coefficient);
    to.terms.push_back(term);
  }
  Normalize(to);
}

Polynomial ExprArena::Impl::Product(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  p.is_overflown = a.is_overflown || b.is_overflown;
  if (a.terms.size() * b.terms.size() > kMaxTerms * 4) p.is_overflown = true;
  if (p.is_overflown) return p;
  AddScaled(p, a, b.constant);
  Polynomial rest;
  rest.terms = b.terms;
  if (a.constant != 0) AddScaled(p, rest, a.constant);
  for (const Term& x : a.terms) {
    for (const Term& y : b.terms) {
      Term term;
      p.is_overflown |= __builtin_mul_overflow(x.coefficient, y.coefficient, &term.coefficient);
      std::vector<Expr> atoms = AtomsOf(x.monomial);
      std::vector<Expr> more = AtomsOf(y.monomial);
      atoms.insert(atoms.end(), more.begin(), more.end());
      term.monomial = MakeProduct(1, std::move(atoms));
      p.terms.push_back(term);
    }
  }
  Normalize(p);
  return p;
}

Expr ExprArena::Impl::FromPolynomial(Polynomial p) {
  Normalize(p);
  while (!p.is_overflown && JoinDivMod(p)) {
  }
  if (p.is_overflown || p.terms.size() > kMaxTerms) return MakePoison();
  if (p.terms.empty()) return MakeConst(p.constant);
  std::vector<Expr> operands;
  for (const Term& term : p.terms) {
    operands.push_back(MakeProduct(term.coefficient, AtomsOf(term.monomial)));
  }
  if (p.constant != 0) operands.push_back(MakeConst(p.constant));
  if (operands.size() == 1) return operands[0];
  Node node;
  node.kind = ExprKind::kAdd;
  node.operands = std::move(operands);
  return Intern(std::move(node));
}

std::optional<Monomial> ExprArena::Impl::AsMonomial(Expr e) const {
  const Node& node = at(e);
  Monomial m;
  if (node.kind == ExprKind::kAdd) return std::nullopt;
  if (node.kind == ExprKind::kConst) {
    m.coefficient = node.value;
  } else if (node.kind == ExprKind::kMul) {
    m.coefficient = node.value;
    m.atoms = AtomsOf(e);
  } else {
    m.atoms = {e};
  }
  if (m.coefficient <= 0) return std::nullopt;
  return m;
}

ExprArena::ExprArena() : impl_(std::make_unique<Impl>()) {}
ExprArena::~ExprArena() = default;
ExprArena::ExprArena(ExprArena&&) noexcept = default;
ExprArena& ExprArena::operator=(ExprArena&&) noexcept = default;

Expr ExprArena::Const(int64_t value) { return impl_->MakeConst(value); }

Expr ExprArena::Dim(std::string_view name) {
  auto [it, inserted] = impl_->dims.try_emplace(std::string(name));
  if (inserted) {
    Impl::Symbol symbol;
    symbol.name = std::string(name);
    symbol.declared = {0, kLargestSymbol};
    it->second = impl_->MakeSymbol(std::move(symbol));
  }
  return it->second;
}

bool ExprArena::HasDim(std::string_view name) const {
  return impl_->dims.count(std::string(name)) != 0;
}

Expr ExprArena::Loop(std::string_view name, Expr extent) {
  Impl::Symbol symbol;
  symbol.name = std::string(name);
  symbol.kind = SymbolKind::kLoop;
  symbol.extent = extent;
  symbol.declared = {0, INT64_MAX};
  return impl_->MakeSymbol(std::move(symbol));
}

void ExprArena::Constrain(Expr symbol, ExprRange range, int64_t divisor) {
  HY_CHECK(KindOf(symbol) == ExprKind::kSymbol, "only symbols are constrained, not {}",
           Format(symbol));
  Impl::Symbol& s = impl_->symbols[impl_->at(symbol).symbol];
  s.declared = {std::max(s.declared.lo, range.lo), std::min(s.declared.hi, range.hi)};
  if (divisor > 1) {
    int64_t lcm = 0;
    int64_t gcd = std::__gcd(s.divisor, divisor);
    if (!__builtin_mul_overflow(s.divisor / gcd, divisor, &lcm)) s.divisor = lcm;
  }
  for (Impl::Node& node : impl_->nodes)
    node.range = impl_->ComputeRange(node);  // operands stand first
  impl_->memo.clear();
}

Expr ExprArena::Add(Expr a, Expr b) {
  Polynomial p = impl_->ToPolynomial(a);
  impl_->AddScaled(p, impl_->ToPolynomial(b), 1);
  return impl_->FromPolynomial(std::move(p));
}

Expr ExprArena::Sub(Expr a, Expr b) {
  Polynomial p = impl_->ToPolynomial(a);
  impl_->AddScaled(p, impl_->ToPolynomial(b), -1);
  return impl_->FromPolynomial(std::move(p));
}

Expr ExprArena::Mul(Expr a, Expr b) {
  return impl_->FromPolynomial(impl_->Product(impl_->ToPolynomial(a), impl_->ToPolynomial(b)));
}

Expr ExprArena::FloorDiv(Expr a, Expr b) { return impl_->Divide(a, b); }

Expr ExprArena::CeilDiv(Expr a, Expr b) { return FloorDiv(Sub(Add(a, b), Const(1)), b); }

Expr ExprArena::Mod(Expr a, Expr b) { return impl_->Modulo(a, b); }

Expr ExprArena::Min(Expr a, Expr b) { return impl_->MinMax(ExprKind::kMin, a, b); }

Expr ExprArena::Max(Expr a, Expr b) { return impl_->MinMax(ExprKind::kMax, a, b); }

ExprKind ExprArena::KindOf(Expr e) const { return impl_->at(e).kind; }

std::span<const Expr> ExprArena::OperandsOf(Expr e) const { return impl_->at(e).operands; }

std::optional<int64_t> ExprArena::AsConst(Expr e) const {
  const Impl::Node& node = impl_->at(e);
  if (node.kind != ExprKind::kConst) return std::nullopt;
  return node.value;
}

bool ExprArena::IsConst(Expr e, int64_t value) const { return AsConst(e) == value; }

const std::string& ExprArena::SymbolName(Expr symbol) const {
  return impl_->symbol_of(symbol).name;
}

SymbolKind ExprArena::SymbolKindOf(Expr symbol) const { return impl_->symbol_of(symbol).kind; }

int64_t ExprArena::SymbolDivisor(Expr symbol) const { return impl_->symbol_of(symbol).divisor; }

Expr ExprArena::LoopExtent(Expr symbol) const { return impl_->symbol_of(symbol).extent; }

size_t ExprArena::node_count() const { return impl_->nodes.size(); }

}  // namespace halyard
