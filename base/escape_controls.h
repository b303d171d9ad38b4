// SPDX-License-Identifier: Apache-2.0
// Names of a model on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace halyard {

// With \xNN for the bytes of control characters (those of C1, too) and for bytes that are no UTF-8.
std::string EscapeControls(std::string_view text);

}  // namespace halyard
