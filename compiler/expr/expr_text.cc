// SPDX-License-Identifier: Apache-2.0
// Text form of expressions: "4*n + floordiv(i, 8) - 1". Names that are not identifiers stand in
// backquotes.
#include <cctype>

#include "compiler/expr/expr_impl.h"

namespace halyard {

namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

bool IsFunction(std::string_view name) {
  return name == "floordiv" || name == "mod" || name == "min" || name == "max";
}

std::string FormatName(const std::string& name) {
  bool is_plain = !name.empty() && IsNameStart(name[0]) && !IsFunction(name);
  for (char c : name) is_plain &= IsNameChar(c);
  if (is_plain) return name;
  std::string quoted = "`";
  for (char c : name) {
    if (c == '`' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "`";
}

class Parser {
 public:
  Parser(ExprArena& arena, std::string_view text,
         const std::function<std::optional<Expr>(std::string_view)>& resolve)
      : arena_(arena), text_(text), resolve_(resolve) {}

  Result<Expr> Run() {
    HY_ASSIGN(Expr e, Sum());
    Skip();
    if (at_ != text_.size()) return Error("an operator or the end");
    return e;
  }

 private:
  static constexpr int kMaxNesting = 800;

  Status Error(std::string_view wanted) {
    return InvalidArgument("The expression '{}' needs {} at character {}.", text_.substr(0, 200),
                           wanted, at_);
  }
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<Expr> Sum() {
    if (++nesting_ > kMaxNesting)
      return InvalidArgument("An expression nests deeper than {}.", kMaxNesting);
    HY_ASSIGN(Expr sum, Product(Take('-')));
    while (true) {
      if (Take('+')) {
        HY_ASSIGN(Expr next, Product(false));
        sum = arena_.Add(sum, next);
      } else if (Take('-')) {
        HY_ASSIGN(Expr next, Product(true));
        sum = arena_.Add(sum, next);
      } else {
        --nesting_;
        return sum;
      }
    }
  }

  Result<Expr> Product(bool negate) {
    HY_ASSIGN(Expr product, Atom(&negate));
    while (Take('*')) {
      HY_ASSIGN(Expr next, Atom(nullptr));
      product = arena_.Mul(product, next);
    }
    return negate ? arena_.Mul(product, arena_.Const(-1)) : product;
  }

  // A number takes the pending sign itself, because -2^63 has no positive counterpart.
  Result<Expr> Atom(bool* negate) {
    Skip();
    if (at_ >= text_.size()) return Error("a number, a name or '('");
    char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c))) {
      uint64_t value = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
            __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value)) {
          return InvalidArgument("A number in '{}' does not fit in 64 bits.", text_.substr(0, 200));
        }
        ++at_;
      }
      bool is_negative = negate != nullptr && *negate;
      if (value > uint64_t{INT64_MAX} + (is_negative ? 1 : 0)) {
        return InvalidArgument("The number {} in '{}' does not fit in 64 bits.", value,
                               text_.substr(0, 200));
      }
      if (is_negative) *negate = false;
      return arena_.Const(static_cast<int64_t>(is_negative ? uint64_t{0} - value : value));
    }
    if (Take('(')) {
      HY_ASSIGN(Expr inner, Sum());
      if (!Take(')')) return Error("')'");
      return inner;
    }
    if (c == '`') {
      std::string name;
      for (++at_; at_ < text_.size() && text_[at_] != '`'; ++at_) {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        name += text_[at_];
      }
      if (!Take('`')) return Error("a closing backquote");
      return Name(name);
    }
    if (!IsNameStart(c)) return Error("a number, a name or '('");
    size_t start = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    std::string_view name = text_.substr(start, at_ - start);
    return IsFunction(name) ? Call(name) : Name(name);
  }

  Result<Expr> Name(std::string_view name) {
    if (resolve_) {
      if (std::optional<Expr> known = resolve_(name)) return *known;
    }
    return arena_.Dim(name);
  }

  Result<Expr> Call(std::string_view name) {
    if (!Take('(')) return Error("'('");
    HY_ASSIGN(Expr result, Sum());
    int count = 1;
    while (Take(',')) {
      HY_ASSIGN(Expr next, Sum());
      ++count;
      if (name == "floordiv") result = arena_.FloorDiv(result, next);
      if (name == "mod") result = arena_.Mod(result, next);
      if (name == "min") result = arena_.Min(result, next);
      if (name == "max") result = arena_.Max(result, next);
    }
    if (!Take(')')) return Error("')'");
    bool is_division = name == "floordiv" || name == "mod";
    if (count < 2 || (is_division && count > 2)) {
      return InvalidArgument("{} in '{}' has {} operands; it takes 2{}.", name,
                             text_.substr(0, 200), count, is_division ? "" : " or more");
    }
    return result;
  }

  ExprArena& arena_;
  std::string_view text_;
  const std::function<std::optional<Expr>(std::string_view)>& resolve_;
  size_t at_ = 0;
  int nesting_ = 0;
};

void FormatInto(const ExprArena& arena, Expr e, std::string& out);

void FormatCall(const ExprArena& arena, std::string_view name, Expr e, std::string& out) {
  out += name;
  std::string_view separator = "(";
  for (Expr operand : arena.OperandsOf(e)) {
    out += separator;
    FormatInto(arena, operand, out);
    separator = ", ";
  }
  out += ")";
}

void FormatTerm(const ExprArena& arena, Expr term, bool is_first, std::string& out) {
  // The coefficient or constant of the term decides the sign that joins it to what stands before.
  Expr head = arena.KindOf(term) == ExprKind::kMul ? arena.OperandsOf(term)[0] : term;
  std::optional<int64_t> number = arena.AsConst(head);
  bool is_negative = number && *number < 0;
  if (is_first) {
    out += is_negative ? "-" : "";
  } else {
    out += is_negative ? " - " : " + ";
  }
  uint64_t magnitude = !number       ? 0
                       : is_negative ? uint64_t{0} - static_cast<uint64_t>(*number)
                                     : *number;
  if (arena.KindOf(term) != ExprKind::kMul) {
    if (number) {
      out += fmt::format("{}", magnitude);
    } else {
      FormatInto(arena, term, out);
    }
    return;
  }
  bool needs_star = false;
  for (Expr factor : arena.OperandsOf(term)) {
    if (number && factor == head) {
      if (magnitude == 1) continue;
      out += fmt::format("{}", magnitude);
    } else {
      if (needs_star) out += '*';
      FormatInto(arena, factor, out);
    }
    needs_star = true;
  }
}

void FormatInto(const ExprArena& arena, Expr e, std::string& out) {
  switch (arena.KindOf(e)) {
    case ExprKind::kSymbol:
      out += FormatName(arena.SymbolName(e));
      return;
    case ExprKind::kConst:
    case ExprKind::kMul:
      FormatTerm(arena, e, true, out);
      return;
    case ExprKind::kAdd: {
      bool is_first = true;
      for (Expr term : arena.OperandsOf(e)) {
        FormatTerm(arena, term, is_first, out);
        is_first = false;
      }
      return;
    }
    case ExprKind::kFloorDiv:
      return FormatCall(arena, "floordiv", e, out);
    case ExprKind::kMod:
      return FormatCall(arena, "mod", e, out);
    case ExprKind::kMin:
      return FormatCall(arena, "min", e, out);
    case ExprKind::kMax:
      return FormatCall(arena, "max", e, out);
  }
}

}  // namespace

std::string ExprArena::Format(Expr e) const {
  if (!e.valid()) return "<none>";
  std::string out;
  FormatInto(*this, e, out);
  return out;
}

Result<Expr> ExprArena::Parse(std::string_view text,
                              const std::function<std::optional<Expr>(std::string_view)>& resolve) {
  HY_ASSIGN(const Expr parsed, Parser(*this, text, resolve).Run());
  for (const Expr symbol : SymbolsOf(parsed)) {
    if (impl_->symbol_of(symbol).is_poison) {
      return InvalidArgument("The expression '{}' overflows or is too large.", text.substr(0, 200));
    }
  }
  return parsed;
}

}  // namespace halyard
