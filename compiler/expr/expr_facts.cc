// SPDX-License-Identifier: Apache-2.0
// Questions about expressions: ranges, divisors, provable comparisons, strides, substitution,
// evaluation. "Known" means provable from the declared ranges, divisors and loop extents; unknown
// is false.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "compiler/expr/expr_impl.h"

namespace halyard {

int64_t ExprArena::Impl::KnownDivisor(Expr e) const {
  const Node& node = at(e);
  switch (node.kind) {
    case ExprKind::kConst:
      return node.value == INT64_MIN ? 1 : static_cast<int64_t>(Magnitude(node.value));
    case ExprKind::kSymbol:
      return symbols[node.symbol].divisor;
    case ExprKind::kMul: {
      int64_t product = 1;
      for (Expr operand : node.operands) {
        int64_t next = 0;
        if (__builtin_mul_overflow(product, KnownDivisor(operand), &next)) return product;
        product = next;
      }
      return product;
    }
    case ExprKind::kAdd:
    case ExprKind::kMin:
    case ExprKind::kMax: {
      int64_t g = 0;
      for (Expr operand : node.operands) g = Gcd(g, KnownDivisor(operand));
      return g;
    }
    case ExprKind::kMod:
      return std::max<int64_t>(1,
                               Gcd(KnownDivisor(node.operands[0]), KnownDivisor(node.operands[1])));
    case ExprKind::kFloorDiv: {
      if (at(node.operands[1]).kind != ExprKind::kConst) return 1;
      int64_t d = at(node.operands[1]).value;
      int64_t x = KnownDivisor(node.operands[0]);
      return d > 0 && x % d == 0 && x != 0 ? x / d : 1;
    }
  }
  return 1;
}

ExprRange ExprArena::Impl::PolynomialRange(const Polynomial& p) const {
  auto assumed = [&](Expr atom) {
    ExprRange r = at(atom).range;
    if (r.lo == 0 && std::find(assumed_positive.begin(), assumed_positive.end(), atom) !=
                         assumed_positive.end()) {
      r.lo = 1;
      r.hi = std::max<int64_t>(r.hi, 1);
    }
    return r;
  };
  ExprRange sum{p.constant, p.constant};
  for (const Term& term : p.terms) {
    ExprRange product = at(term.monomial).range;
    if (!assumed_positive.empty()) {
      ExprRange raised{1, 1};
      for (Expr atom : AtomsOf(term.monomial)) raised = MulRanges(raised, assumed(atom));
      product = {std::max(product.lo, raised.lo), std::min(product.hi, raised.hi)};
    }
    sum = AddRanges(sum, MulRanges(product, {term.coefficient, term.coefficient}));
  }
  return sum;
}

// The largest value of an atom as an expression without it; its smallest is 0.
std::optional<Expr> ExprArena::Impl::UpperBoundOf(Expr atom) {
  const Node& node = at(atom);
  auto minus_one = [&](Expr e) {
    Polynomial p = ToPolynomial(e);
    p.is_overflown |= __builtin_sub_overflow(p.constant, int64_t{1}, &p.constant);
    return FromPolynomial(std::move(p));
  };
  if (node.kind == ExprKind::kSymbol) {
    const Symbol& symbol = symbols[node.symbol];
    if (symbol.kind != SymbolKind::kLoop || !symbol.extent.valid()) return std::nullopt;
    return minus_one(symbol.extent);
  }
  if (node.kind == ExprKind::kMod) return minus_one(node.operands[1]);
  if (node.kind == ExprKind::kFloorDiv && simplify_depth <= kMaxSimplifyDepth / 2) {
    // Monotone in the dividend: put the bounds of what it is made of.
    Expr divisor = node.operands[1];
    Polynomial x = ToPolynomial(node.operands[0]);
    if (at(node.operands[0]).range.lo < 0) return std::nullopt;
    Polynomial bound;
    bound.constant = x.constant;
    for (const Term& term : x.terms) {
      std::vector<Expr> atoms = AtomsOf(term.monomial);
      if (term.coefficient < 0 || atoms.size() != 1) return std::nullopt;
      std::optional<Expr> upper = UpperBoundOf(atoms[0]);
      if (!upper) return std::nullopt;
      AddScaled(bound, ToPolynomial(*upper), term.coefficient);
    }
    if (bound.is_overflown) return std::nullopt;
    return Divide(FromPolynomial(std::move(bound)), divisor);
  }
  return std::nullopt;
}

bool ExprArena::Impl::KnownNonNegative(Expr e) {
  Polynomial p = ToPolynomial(e);
  if (PolynomialRange(p).lo >= 0) return true;
  if (simplify_depth > kMaxSimplifyDepth) {
    ++limit_hits;
    return false;
  }
  ++simplify_depth;
  bool known = false;
  // Put each bounded atom at the end of its range where the sum is smallest, one after another.
  for (int step = 0; step < 12 && !known; ++step) {
    bool replaced = false;
    for (size_t i = 0; i < p.terms.size() && !replaced; ++i) {
      for (Expr atom : AtomsOf(p.terms[i].monomial)) {
        std::optional<Expr> upper = UpperBoundOf(atom);
        if (!upper || *upper == atom) continue;
        Polynomial factor, others;  // p = factor*atom + others
        bool is_linear = true;
        others.constant = p.constant;
        for (const Term& term : p.terms) {
          std::vector<Expr> atoms = AtomsOf(term.monomial);
          auto it = std::find(atoms.begin(), atoms.end(), atom);
          if (it == atoms.end()) {
            others.terms.push_back(term);
            continue;
          }
          atoms.erase(it);
          if (std::find(atoms.begin(), atoms.end(), atom) != atoms.end()) is_linear = false;
          if (atoms.empty()) {
            factor.constant = term.coefficient;
          } else {
            factor.terms.push_back({MakeProduct(1, atoms), term.coefficient});
          }
        }
        if (!is_linear) continue;
        Normalize(factor);
        ExprRange sign = PolynomialRange(factor);
        if (sign.lo >= 0) {
          p = std::move(others);
        } else if (sign.hi <= 0) {
          Polynomial product = Product(factor, ToPolynomial(*upper));
          p = std::move(others);
          AddScaled(p, product, 1);
        } else {
          continue;
        }
        replaced = true;
        break;
      }
    }
    if (!replaced || p.is_overflown) break;
    Normalize(p);
    known = PolynomialRange(p).lo >= 0;
  }
  --simplify_depth;
  return known;
}

ExprRange ExprArena::RangeOf(Expr e) const { return impl_->at(e).range; }

bool ExprArena::KnownEqual(Expr a, Expr b) { return IsConst(Sub(a, b), 0); }

bool ExprArena::KnownLess(Expr a, Expr b) {
  return impl_->KnownNonNegative(Sub(Sub(b, a), Const(1)));
}

bool ExprArena::KnownLessOrEqual(Expr a, Expr b) { return impl_->KnownNonNegative(Sub(b, a)); }

bool ExprArena::KnownMultipleOf(Expr e, int64_t divisor) {
  return divisor > 0 && impl_->KnownDivisor(e) % divisor == 0;
}

int64_t ExprArena::HintOf(Expr e) const {
  constexpr int64_t kDefault = 8192;
  auto value_of = [&](Expr symbol) -> std::optional<int64_t> {
    const Impl::Symbol& s = impl_->symbol_of(symbol);
    if (s.hint >= 0) return s.hint;
    ExprRange r = impl_->at(symbol).range;
    if (s.kind == SymbolKind::kLoop && r.hi != INT64_MAX) return r.hi;
    return std::max(r.lo, std::min(r.hi, kDefault));
  };
  Result<int64_t> value = Evaluate(e, value_of);
  return value.ok() ? *value : kDefault;
}

void ExprArena::SetHint(Expr symbol, int64_t value) {
  impl_->symbols[impl_->at(symbol).symbol].hint = value;
}

std::optional<Expr> ExprArena::StrideOf(Expr e, Expr symbol) {
  Polynomial stride;
  for (const Term& term : impl_->ToPolynomial(e).terms) {
    std::vector<Expr> atoms = impl_->AtomsOf(term.monomial);
    auto it = std::find(atoms.begin(), atoms.end(), symbol);
    bool has = it != atoms.end();
    if (has) atoms.erase(it);
    for (Expr atom : atoms) {
      if (DependsOn(atom, symbol)) return std::nullopt;
    }
    if (has)
      impl_->AddScaled(stride, impl_->ToPolynomial(impl_->MakeProduct(term.coefficient, atoms)), 1);
  }
  return impl_->FromPolynomial(std::move(stride));
}

bool ExprArena::DependsOn(Expr e, Expr symbol) const {
  // Operands have smaller ids than their users.
  if (e == symbol) return true;
  if (e.id < symbol.id) return false;
  std::unordered_set<uint32_t> seen;
  std::vector<Expr> stack{e};
  while (!stack.empty()) {
    Expr top = stack.back();
    stack.pop_back();
    if (top == symbol) return true;
    if (top.id < symbol.id || !seen.insert(top.id).second) continue;
    for (Expr operand : impl_->at(top).operands) stack.push_back(operand);
  }
  return false;
}

std::vector<Expr> ExprArena::SymbolsOf(Expr e) const {
  std::vector<Expr> symbols;
  std::unordered_set<uint32_t> seen;
  std::vector<Expr> stack{e};
  while (!stack.empty()) {
    Expr top = stack.back();
    stack.pop_back();
    if (!seen.insert(top.id).second) continue;
    if (impl_->at(top).kind == ExprKind::kSymbol) symbols.push_back(top);
    for (Expr operand : impl_->at(top).operands) stack.push_back(operand);
  }
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

Expr ExprArena::Substitute(Expr e, std::span<const std::pair<Expr, Expr>> replacements) {
  std::unordered_map<uint32_t, Expr> done;
  for (const auto& [from, to] : replacements) done.emplace(from.id, to);
  auto rebuild = [&](auto& self, Expr x) -> Expr {
    if (auto it = done.find(x.id); it != done.end()) return it->second;
    // A copy: building nodes may not move them, but keeps no promise about this reference's
    // operands.
    const std::vector<Expr> operands = impl_->at(x).operands;
    ExprKind kind = KindOf(x);
    Expr result = x;
    if (!operands.empty()) {
      std::vector<Expr> changed;
      for (Expr operand : operands) changed.push_back(self(self, operand));
      if (changed != operands) {
        result = changed[0];
        for (size_t i = 1; i < changed.size(); ++i) {
          switch (kind) {
            case ExprKind::kAdd:
              result = Add(result, changed[i]);
              break;
            case ExprKind::kMul:
              result = Mul(result, changed[i]);
              break;
            case ExprKind::kFloorDiv:
              result = FloorDiv(result, changed[i]);
              break;
            case ExprKind::kMod:
              result = Mod(result, changed[i]);
              break;
            case ExprKind::kMin:
              result = Min(result, changed[i]);
              break;
            case ExprKind::kMax:
              result = Max(result, changed[i]);
              break;
            default:
              break;
          }
        }
      }
    }
    done.emplace(x.id, result);
    return result;
  };
  return rebuild(rebuild, e);
}

Result<int64_t> ExprArena::Evaluate(
    Expr e, const std::function<std::optional<int64_t>(Expr)>& value_of) const {
  const Impl::Node& node = impl_->at(e);
  auto overflow = [&] {
    return OutOfRange("The expression '{}' does not fit in 64 bits.", Format(e));
  };
  switch (node.kind) {
    case ExprKind::kConst:
      return node.value;
    case ExprKind::kSymbol: {
      if (impl_->symbol_of(e).is_poison) {
        return OutOfRange("An expression overflows 64 bits or is larger than {} nodes.",
                          kMaxTreeSize);
      }
      std::optional<int64_t> value = value_of(e);
      if (!value) return InvalidArgument("The symbol '{}' has no value.", SymbolName(e));
      return *value;
    }
    default:
      break;
  }
  std::vector<int64_t> values;
  for (Expr operand : node.operands) {
    HY_ASSIGN(int64_t value, Evaluate(operand, value_of));
    values.push_back(value);
  }
  switch (node.kind) {
    case ExprKind::kAdd: {
      __int128 sum = 0;  // at most kMaxTerms terms: the order cannot overflow
      for (int64_t v : values) sum += v;
      if (sum < INT64_MIN || sum > INT64_MAX) return overflow();
      return static_cast<int64_t>(sum);
    }
    case ExprKind::kMul: {
      if (std::find(values.begin(), values.end(), 0) != values.end()) return 0;
      int64_t product = 1;
      for (int64_t v : values) {
        if (__builtin_mul_overflow(product, v, &product)) return overflow();
      }
      return product;
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
      if (values[1] < 1) {
        return OutOfRange("The expression '{}' divides by {}; divisors are at least 1.", Format(e),
                          values[1]);
      }
      return node.kind == ExprKind::kMod ? FloorModInt(values[0], values[1])
                                         : FloorDivInt(values[0], values[1]);
    case ExprKind::kMin:
      return *std::min_element(values.begin(), values.end());
    default:
      return *std::max_element(values.begin(), values.end());
  }
}

}  // namespace halyard
