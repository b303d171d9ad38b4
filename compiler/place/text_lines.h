// SPDX-License-Identifier: Apache-2.0
// LineReader: the tokens of placement's text files, line by line: words, numbers and quoted
// strings, separated by spaces. Made for hostile files: every call checks, nothing is allocated
// before its size is known to be there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace halyard::place {

// A cursor over borrowed text. All errors are INVALID_ARGUMENT and name `what` and the line number.
class LineReader {
 public:
  LineReader(std::string_view what, std::string_view text) : what_(what), text_(text) {}

  // Moves to the next line that is not empty; false at the end of the text.
  bool NextLine();
  // The line's next token is this word: consumes it.
  bool TryWord(std::string_view word);
  Status Expect(std::string_view word);
  bool AtLineEnd();
  Status ExpectLineEnd();
  Result<std::string_view> Word();
  Result<std::string> Quoted();
  Result<int64_t> Integer(int64_t lowest, int64_t highest);
  Result<uint64_t> Hex();
  Result<double> Real();  // finite

  int line_number() const { return line_number_; }
  Status Error(std::string_view sentence) const;

 private:
  std::string_view Token();  // empty at the line's end

  std::string_view what_, text_, line_;
  int line_number_ = 0;
};

// "abc" in quotes; quotes, backslashes and bytes outside 32..126 as \xNN.
std::string QuoteText(std::string_view text);

}  // namespace halyard::place
