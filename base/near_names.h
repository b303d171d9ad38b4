// SPDX-License-Identifier: Apache-2.0
// What an error says after a name that nobody knows: the names that are known, those first that the
// user may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace halyard {

// "'a', 'b'": all known names in their order when they are at most `most`; else the `most` nearest
// to the wanted one by edits, "and 112 more" after them. "none" when nothing is known. Letters
// compare without case; a name that holds the wanted one, or is held by it, counts as near.
std::string NamesLike(std::string_view wanted, std::span<const std::string> known, size_t most = 8);

// "'a', 'b'": of the known names those that are a few edits from the wanted one (a third of its
// letters, at least one) or hold it, the nearest first; empty when none is near.
std::string NamesNear(std::string_view wanted, std::span<const std::string> known, size_t most = 3);

}  // namespace halyard
