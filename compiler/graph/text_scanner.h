// SPDX-License-Identifier: Apache-2.0
// TextScanner: the tokens of the graph text form, shared by the parsers of types, tensors and
// modules. Spaces, line ends and comments from "//" to the end of a line separate tokens and mean
// nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace halyard::graph {

// A cursor over borrowed text. All errors are INVALID_ARGUMENT and name line and column, or the
// subject where one is set.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  bool AtEnd();
  // The next character after spaces, 0 at the end.
  char Peek();
  bool TryConsume(std::string_view token);  // punctuation
  Status Expect(std::string_view token);
  // A word of letters, digits, '_' and '.', not consumed by a prefix of a longer word.
  bool TryWord(std::string_view word);
  Result<std::string> Word();
  // A name after a sigil: letters, digits and "_./$-", or a quoted string.
  Result<std::string> Name();
  Result<std::string> Quoted();
  Result<int64_t> Integer();
  // A number, "nan", "inf", "true", ... up to a space or one of ",]})"; with a parenthesised suffix
  // kept.
  Result<std::string> Scalar();
  // The text up to (not including) the first of `stops` outside brackets; trimmed, not empty.
  Result<std::string> Balanced(std::string_view stops);

  size_t position() const { return position_; }
  void set_position(size_t position) { position_ = position; }
  Status Error(std::string_view what) const;
  // What errors name instead of a place: "node 'sum'", for text that its reader never sees.
  void set_subject(std::string subject) { subject_ = std::move(subject); }

 private:
  void SkipSpace();

  std::string_view text_;
  size_t position_ = 0;
  std::string subject_;
};

// "abc" with quotes, backslash escapes for quotes, backslashes and bytes outside 32..126.
std::string Quote(std::string_view text);
// The name itself where Name() reads it back unquoted, quoted otherwise.
std::string FormatName(std::string_view name);

}  // namespace halyard::graph
