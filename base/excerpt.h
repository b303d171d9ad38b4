// SPDX-License-Identifier: Apache-2.0
// What a message shows of lists and texts that come from a user, which may be of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace halyard {

// "3, 1, 2"; of more than 64 elements the first 8, "and 999992 more" after them.
std::string Excerpt(std::span<const int64_t> values);
// The same of `count` elements, whose texts `element` gives.
std::string ExcerptOf(size_t count, const std::function<std::string(size_t)>& element);

// The text; of more than 256 bytes the first 64, "... (100000 bytes)" after them.
std::string Excerpt(std::string_view text);

}  // namespace halyard
