// SPDX-License-Identifier: Apache-2.0
// Numbers of options and variables. The whole text is the number, in decimal digits: no space, no
// plus, and a minus only before what is below 0, since "-0" is a slip of whoever meant another
// number.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace halyard {

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  if (value == 0 && text.starts_with('-')) return std::nullopt;
  return value;
}

// The same, and finite.
inline std::optional<double> ParseFinite(std::string_view text) {
  const std::optional<double> value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace halyard
