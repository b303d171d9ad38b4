// SPDX-License-Identifier: Apache-2.0
#include "base/escape_controls.h"

#include <gtest/gtest.h>

namespace halyard {
namespace {

TEST(EscapeControls, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(EscapeControls("a b~"), "a b~");
  EXPECT_EQ(EscapeControls("\x1b[31m\n\t\x7f"), "\\x1b[31m\\x0a\\x09\\x7f");
  EXPECT_EQ(EscapeControls(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(EscapeControls("gr\xc3\xb6\xc3\x9f"
                           "er \xe4\xb8\xad \xf0\x9f\x98\x80"),
            "gr\xc3\xb6\xc3\x9f"
            "er \xe4\xb8\xad \xf0\x9f\x98\x80");
  EXPECT_EQ(EscapeControls("\xc2\x9b"
                           "2J \xc2\xa0"),
            "\\xc2\\x9b2J \xc2\xa0");
  EXPECT_EQ(EscapeControls("\x9b \xe4\xb8 \xc3"), "\\x9b \\xe4\\xb8 \\xc3") << "no UTF-8";
}

}  // namespace
}  // namespace halyard
