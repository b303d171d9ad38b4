// SPDX-License-Identifier: Apache-2.0
#include "compiler/graph/text_scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace halyard::graph {
namespace {

bool IsAlnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsWordChar(char c) { return IsAlnum(c) || c == '_' || c == '.'; }
bool IsNameChar(char c) { return IsWordChar(c) || c == '/' || c == '$' || c == '-'; }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

constexpr size_t kQuoteBefore = 60, kQuoteAfter = 20;

}  // namespace

Status TextScanner::Error(std::string_view what) const {
  if (!subject_.empty()) {
    std::string sentence(what);
    sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
    return InvalidArgument("{} ({}).", sentence, subject_);
  }
  const size_t end = std::min(position_, text_.size());
  const auto line =
      std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), '\n') + 1;
  const size_t start = text_.substr(0, end).rfind('\n');
  const size_t column = start == std::string_view::npos ? end + 1 : end - start;
  // The line itself, around the place: a dump is long.
  const size_t first = end - std::min(column - 1, kQuoteBefore);
  std::string_view quote =
      text_.substr(first, std::min(text_.find('\n', end), end + kQuoteAfter) - first);
  while (!quote.empty() && quote.front() == ' ') quote.remove_prefix(1);
  return InvalidArgument("Line {}, column {}: {}, in `{}`.", line, column, what, quote);
}

void TextScanner::SkipSpace() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else {
      return;
    }
  }
}

bool TextScanner::AtEnd() { return Peek() == 0; }

char TextScanner::Peek() {
  SkipSpace();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextScanner::TryConsume(std::string_view token) {
  SkipSpace();
  if (text_.substr(position_, token.size()) != token) return false;
  position_ += token.size();
  return true;
}

Status TextScanner::Expect(std::string_view token) {
  if (TryConsume(token)) return OkStatus();
  return Error(fmt::format("'{}' is expected here", token));
}

bool TextScanner::TryWord(std::string_view word) {
  SkipSpace();
  if (text_.substr(position_, word.size()) != word) return false;
  const size_t end = position_ + word.size();
  if (end < text_.size() && IsWordChar(text_[end])) return false;
  position_ = end;
  return true;
}

Result<std::string> TextScanner::Word() {
  SkipSpace();
  const size_t start = position_;
  while (position_ < text_.size() && IsWordChar(text_[position_])) ++position_;
  if (position_ == start) return Error("a word is expected here");
  return std::string(text_.substr(start, position_ - start));
}

Result<std::string> TextScanner::Name() {
  SkipSpace();
  if (position_ < text_.size() && text_[position_] == '"') return Quoted();
  const size_t start = position_;
  while (position_ < text_.size() && IsNameChar(text_[position_])) ++position_;
  if (position_ == start) return Error("a name is expected here");
  return std::string(text_.substr(start, position_ - start));
}

Result<std::string> TextScanner::Quoted() {
  HY_TRY(Expect("\""));
  std::string out;
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (position_ >= text_.size()) break;
    const char escape = text_[position_++];
    if (escape == '"' || escape == '\\') {
      out += escape;
    } else if (escape == 'x' && position_ + 2 <= text_.size()) {
      const int high = HexValue(text_[position_]);
      const int low = HexValue(text_[position_ + 1]);
      if (high < 0 || low < 0) return Error("an escape is '\\x' with two lower-case hex digits");
      out += static_cast<char>(high * 16 + low);
      position_ += 2;
    } else {
      return Error("an escape is one of \\\", \\\\ and \\xNN");
    }
  }
  return Error("the string does not end");
}

Result<int64_t> TextScanner::Integer() {
  SkipSpace();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto parsed = std::from_chars(begin, text_.data() + text_.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) return Error("the integer does not fit 64 bits");
  if (parsed.ec != std::errc()) return Error("an integer is expected here");
  position_ += static_cast<size_t>(parsed.ptr - begin);
  return value;
}

Result<std::string> TextScanner::Scalar() {
  SkipSpace();
  const size_t start = position_;
  const auto in = [&](std::string_view set) {
    return position_ < text_.size() && set.find(text_[position_]) != std::string_view::npos;
  };
  while (position_ < text_.size() && !in(" \n\t\r,]})(")) ++position_;
  if (in("(")) {
    while (position_ < text_.size() && !in(")")) ++position_;
    if (!in(")")) return Error("')' is missing");
    ++position_;
  }
  if (position_ == start) return Error("a number is expected here");
  return std::string(text_.substr(start, position_ - start));
}

Result<std::string> TextScanner::Balanced(std::string_view stops) {
  SkipSpace();
  const size_t start = position_;
  int depth = 0;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (depth < 0) break;
    ++position_;
    if (c != '`') continue;
    // A symbol name in backquotes may hold anything.
    while (position_ < text_.size() && text_[position_] != '`') {
      position_ += text_[position_] == '\\' ? 2 : 1;
    }
    if (position_ >= text_.size()) return Error("a symbol name does not end");
    ++position_;
  }
  size_t end = position_;
  while (end > start && text_[end - 1] == ' ') --end;
  if (end == start) return Error("an expression is expected here");
  return std::string(text_.substr(start, end - start));
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c < 32 || c > 126) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string FormatName(std::string_view name) {
  // "//" would start a comment where a name is followed by another token, so such names are quoted.
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), IsNameChar) &&
                     name.find("//") == std::string_view::npos;
  return plain ? std::string(name) : Quote(name);
}

}  // namespace halyard::graph
