// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/text_lines.h"

#include <charconv>
#include <cmath>

namespace halyard::place {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// What a message may repeat of a file.
std::string_view Shortened(std::string_view token) { return token.substr(0, 60); }

}  // namespace

Status LineReader::Error(std::string_view sentence) const {
  return InvalidArgument("Line {} of the {} is wrong: {}", line_number_, what_, sentence);
}

bool LineReader::NextLine() {
  while (!text_.empty()) {
    const size_t end = text_.find('\n');
    line_ = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    ++line_number_;
    if (line_.find_first_not_of(" \r") != std::string_view::npos) return true;
  }
  line_ = {};
  return false;
}

std::string_view LineReader::Token() {
  const size_t begin = line_.find_first_not_of(" \r");
  line_.remove_prefix(begin == std::string_view::npos ? line_.size() : begin);
  return line_.substr(0, line_.find_first_of(" \r"));
}

bool LineReader::TryWord(std::string_view word) {
  if (Token() != word) return false;
  line_.remove_prefix(word.size());
  return true;
}

Status LineReader::Expect(std::string_view word) {
  if (TryWord(word)) return OkStatus();
  return Error(fmt::format("{} stands where '{}' must be.", QuoteText(Shortened(Token())), word));
}

bool LineReader::AtLineEnd() { return Token().empty(); }

Status LineReader::ExpectLineEnd() {
  if (AtLineEnd()) return OkStatus();
  return Error(fmt::format("{} stands after its end.", QuoteText(Shortened(Token()))));
}

Result<std::string_view> LineReader::Word() {
  const std::string_view token = Token();
  if (token.empty()) return Error("it ends too early.");
  line_.remove_prefix(token.size());
  return token;
}

Result<std::string> LineReader::Quoted() {
  const std::string_view token = Token();
  if (token.empty() || token[0] != '"') return Error("a quoted text is missing.");
  const std::string_view all = line_;
  std::string out;
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i] == '"') {
      line_.remove_prefix(i + 1);
      return out;
    }
    if (all[i] != '\\') {
      out += all[i];
      continue;
    }
    if (i + 3 >= all.size() || all[i + 1] != 'x' || HexDigit(all[i + 2]) < 0 ||
        HexDigit(all[i + 3]) < 0) {
      return Error("a backslash is not followed by 'x' and two digits.");
    }
    out += static_cast<char>(HexDigit(all[i + 2]) * 16 + HexDigit(all[i + 3]));
    i += 3;
  }
  return Error("a quoted text has no end.");
}

Result<int64_t> LineReader::Integer(int64_t lowest, int64_t highest) {
  HY_ASSIGN(const std::string_view token, Word());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size()) {
    return Error(fmt::format("{} is not a whole number.", QuoteText(Shortened(token))));
  }
  if (value < lowest || value > highest) {
    return Error(fmt::format("{} does not lie in [{}, {}].", value, lowest, highest));
  }
  return value;
}

Result<uint64_t> LineReader::Hex() {
  HY_ASSIGN(const std::string_view token, Word());
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value, 16);
  if (error != std::errc() || end != token.data() + token.size()) {
    return Error(fmt::format("{} is not a hexadecimal number.", QuoteText(Shortened(token))));
  }
  return value;
}

Result<double> LineReader::Real() {
  HY_ASSIGN(const std::string_view token, Word());
  double value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc() || end != token.data() + token.size() || !std::isfinite(value)) {
    return Error(fmt::format("{} is not a finite number.", QuoteText(Shortened(token))));
  }
  return value;
}

std::string QuoteText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 32 || byte > 126 || c == '"' || c == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace halyard::place
