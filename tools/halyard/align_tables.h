// SPDX-License-Identifier: Apache-2.0
// Tables of Markdown for those who read them on a terminal.
#pragma once

#include <string>

namespace halyard::tools {

// The text with the cells of each table filled up with spaces, so that its columns stand below each
// other; a renderer shows the same as before. A cell far longer than others are pushes what stands
// behind it in its line alone.
std::string AlignTables(const std::string& text);

}  // namespace halyard::tools
