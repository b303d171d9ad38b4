// SPDX-License-Identifier: Apache-2.0
// Text in HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace halyard {

// As an element or in a quoted attribute; control characters become spaces.
std::string EscapeHtml(std::string_view text);

}  // namespace halyard
