// SPDX-License-Identifier: Apache-2.0
#include "compiler/program/work.h"

#include <charconv>

namespace halyard::program {
namespace {

constexpr std::pair<ExprOp, std::string_view> kOperators[] = {
    {ExprOp::kAdd, "+"}, {ExprOp::kMul, "*"},   {ExprOp::kFloorDiv, "/"},
    {ExprOp::kMod, "%"}, {ExprOp::kMin, "min"}, {ExprOp::kMax, "max"}};

std::string FormatPostfix(const SizeExpr& expr) {
  std::string out;
  for (const ExprToken& token : expr.tokens) {
    if (token.op == ExprOp::kConst) out += fmt::format(" {}", token.value);
    if (token.op == ExprOp::kSymbol) out += fmt::format(" ${}", token.value);
    for (const auto& [op, name] : kOperators) {
      if (op == token.op) out += fmt::format(" {}", name);
    }
  }
  return out;
}

std::string_view TakeWord(std::string_view& text) {
  const size_t start = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = std::min(text.find(' ', start), text.size());
  const std::string_view word = text.substr(start, end - start);
  text.remove_prefix(end);
  return word;
}

Result<ExprToken> ParseToken(std::string_view word, size_t symbol_count) {
  for (const auto& [op, name] : kOperators) {
    if (word == name) return ExprToken{op, 0};
  }
  ExprToken token{ExprOp::kConst, 0};
  std::string_view digits = word;
  if (word.starts_with('$')) {
    token.op = ExprOp::kSymbol;
    digits.remove_prefix(1);
  }
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, token.value);
  const bool is_symbol = token.op == ExprOp::kSymbol;
  if (error != std::errc() || stop != end ||
      (is_symbol && (token.value < 0 || static_cast<size_t>(token.value) >= symbol_count))) {
    return InvalidArgument("'{}' is no part of a work record of {} symbols.", word, symbol_count);
  }
  return token;
}

}  // namespace

std::string FormatWork(const KernelWork& work) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& rest) {
    out += fmt::format("{}{}{}", out.empty() ? "" : "; ", name, rest);
  };
  if (work.flops) add("flops", FormatPostfix(*work.flops));
  if (work.read_bytes) add("read", FormatPostfix(*work.read_bytes));
  if (work.written_bytes) add("written", FormatPostfix(*work.written_bytes));
  if (work.product != DType::kInvalid) add("product ", std::string(FormatDType(work.product)));
  return out;
}

Result<KernelWork> ParseWork(std::string_view text, size_t symbol_count) {
  KernelWork work;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view name = TakeWord(part);
    if (name == "product") {
      HY_ASSIGN(work.product, ParseDType(TakeWord(part)));
      continue;
    }
    SizeExpr expr;
    for (std::string_view word = TakeWord(part); !word.empty(); word = TakeWord(part)) {
      HY_ASSIGN(const ExprToken token, ParseToken(word, symbol_count));
      expr.tokens.push_back(token);
    }
    if (name == "flops") {
      work.flops = std::move(expr);
    } else if (name == "read") {
      work.read_bytes = std::move(expr);
    } else if (name == "written") {
      work.written_bytes = std::move(expr);
    } else {
      return InvalidArgument("'{}' is no part of a work record.", name);
    }
  }
  return work;
}

}  // namespace halyard::program
