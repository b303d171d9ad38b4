// SPDX-License-Identifier: Apache-2.0
// Expr: integer expressions over named symbols, used for tensor dimensions, loop extents, index
// expressions, offsets and grids. Hash-consed in an arena and kept in canonical form, so that equal
// handles mean equal expressions. After SymPy's use in TorchInductor (FloorDiv, ModularIndexing).
//
// Semantics: mathematical integers that the user of the expression keeps within int64; FloorDiv and
// Mod round towards minus infinity (divisors are positive). Symbols carry a range and a divisor;
// dimension symbols are at least 0, loop variables lie in [0, extent). A simplified expression may
// have a value where the original has none (a division by 0 that cancelled), never another value.
//
// No call fails: what would overflow a coefficient or grow past the stated limits (expr_impl.h)
// becomes a fresh symbol named "?" about which nothing is known and which Evaluate refuses with
// OUT_OF_RANGE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace halyard {

// A handle into one ExprArena. Value-comparable; meaningless outside its arena.
struct Expr {
  uint32_t id = UINT32_MAX;
  bool valid() const { return id != UINT32_MAX; }
  friend bool operator==(Expr a, Expr b) { return a.id == b.id; }
  friend bool operator!=(Expr a, Expr b) { return a.id != b.id; }
  friend bool operator<(Expr a, Expr b) { return a.id < b.id; }
};

enum class ExprKind : uint8_t { kConst, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };

// Inclusive bounds; kMin and kMax of int64 stand for unbounded.
struct ExprRange {
  int64_t lo = INT64_MIN;
  int64_t hi = INT64_MAX;
};

enum class SymbolKind : uint8_t {
  kDim,   // a size, known when a session binds its inputs; named by the user or the importer
  kLoop,  // a loop variable, made by lowering
};

// Not thread-safe; one arena per module.
class ExprArena {
 public:
  ExprArena();
  ~ExprArena();
  ExprArena(ExprArena&&) noexcept;
  ExprArena& operator=(ExprArena&&) noexcept;

  Expr Const(int64_t value);
  // Returns the existing symbol of that name or makes one; dimension symbols start with [0, 2^31)
  // and divisor 1. Loop symbols are made fresh each time with the range [0, extent).
  Expr Dim(std::string_view name);
  Expr Loop(std::string_view name, Expr extent);
  bool HasDim(std::string_view name) const;
  // Narrows what is known about a symbol (intersection of ranges, least common multiple of
  // divisors).
  void Constrain(Expr symbol, ExprRange range, int64_t divisor = 1);

  // Each returns the canonical form: constants folded, sums of products flattened and sorted, div
  // and mod simplified with the ranges of their symbols.
  Expr Add(Expr a, Expr b);
  Expr Sub(Expr a, Expr b);
  Expr Mul(Expr a, Expr b);
  Expr FloorDiv(Expr a, Expr b);
  Expr CeilDiv(Expr a, Expr b);  // FloorDiv(a + b - 1, b)
  Expr Mod(Expr a, Expr b);
  Expr Min(Expr a, Expr b);
  Expr Max(Expr a, Expr b);

  ExprKind KindOf(Expr e) const;
  std::span<const Expr> OperandsOf(Expr e) const;
  std::optional<int64_t> AsConst(Expr e) const;
  bool IsConst(Expr e, int64_t value) const;
  const std::string& SymbolName(Expr symbol) const;
  SymbolKind SymbolKindOf(Expr symbol) const;
  int64_t SymbolDivisor(Expr symbol) const;
  // Of a loop variable: what it was made with. Invalid for dimension symbols.
  Expr LoopExtent(Expr symbol) const;

  // Interval arithmetic over the ranges of the symbols.
  ExprRange RangeOf(Expr e) const;
  // Known facts: true only when provable, never assumed. (Assumptions with a guard and hints for
  // cost are different questions and have other names.)
  bool KnownEqual(Expr a, Expr b);
  bool KnownLess(Expr a, Expr b);         // a < b
  bool KnownLessOrEqual(Expr a, Expr b);  // a <= b
  bool KnownMultipleOf(Expr e, int64_t divisor);
  // A number for cost models only: the constant, or the value under hints (default 8192 where none
  // is given). Never for correctness.
  int64_t HintOf(Expr e) const;
  void SetHint(Expr symbol, int64_t value);

  // The derivative of e by a loop symbol where e is linear in it; nothing otherwise. 0: does not
  // depend.
  std::optional<Expr> StrideOf(Expr e, Expr symbol);
  bool DependsOn(Expr e, Expr symbol) const;
  // All symbols of e, sorted, each once.
  std::vector<Expr> SymbolsOf(Expr e) const;

  // Simultaneous substitution; the result is canonical.
  Expr Substitute(Expr e, std::span<const std::pair<Expr, Expr>> replacements);
  // Value under a full assignment. OUT_OF_RANGE on overflow or a division by a value below 1,
  // INVALID_ARGUMENT when `value_of` has no value for a symbol.
  Result<int64_t> Evaluate(Expr e,
                           const std::function<std::optional<int64_t>(Expr)>& value_of) const;

  // Text such as "4*n + floordiv(i, 8)"; Parse reads what Format writes (unknown names become Dim
  // symbols unless `resolve` knows them).
  std::string Format(Expr e) const;
  Result<Expr> Parse(std::string_view text,
                     const std::function<std::optional<Expr>(std::string_view)>& resolve = {});

  size_t node_count() const;

  struct Impl;  // expr_impl.h; for the sources of this folder

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace halyard
