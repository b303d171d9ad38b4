// SPDX-License-Identifier: Apache-2.0
// Numbers of options and variables. The whole text is the number, in decimal digits: no space, no
// plus, and a minus only before what is below 0, since "-0" is a slip of whoever meant another
// number.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

// "NAME=N" with a name, which may hold a "=" too, and a whole number; nothing for anything else.
inline std::optional<std::pair<std::string, int64_t>> ParseNamedNumber(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == 0 || equals == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> value = ParseNumber<int64_t>(text.substr(equals + 1));
  if (!value) return std::nullopt;
  return std::pair(std::string(text.substr(0, equals)), *value);
}

// The same as ParseNumber, and finite.
inline std::optional<double> ParseFinite(std::string_view text) {
  const std::optional<double> value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace halyard
