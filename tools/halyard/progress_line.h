// SPDX-License-Identifier: Apache-2.0
// A line on standard error that tells what goes on. It is written only where that is a terminal, in
// one place, and is to be erased before anything else is written there.
#pragma once

#include <string>

namespace halyard::tools {

// Whether standard error is a terminal.
bool HasProgressLine();
// In place of the line of before, cut to the width of the terminal. One thread at a time.
void ShowProgress(const std::string& text);
// Any thread; nothing when there is no line.
void EraseProgress();

}  // namespace halyard::tools
