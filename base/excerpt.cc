// SPDX-License-Identifier: Apache-2.0
#include "base/excerpt.h"

#include <fmt/core.h>

namespace halyard {

std::string ExcerptOf(size_t count, const std::function<std::string(size_t)>& element) {
  const size_t shown = count > 64 ? 8 : count;
  std::string out;
  for (size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + element(i);
  if (shown < count) out += fmt::format(" and {} more", count - shown);
  return out;
}

std::string Excerpt(std::span<const int64_t> values) {
  return ExcerptOf(values.size(), [&](size_t i) { return fmt::format("{}", values[i]); });
}

std::string Excerpt(std::string_view text) {
  if (text.size() <= 256) return std::string(text);
  return fmt::format("{}... ({} bytes)", text.substr(0, 64), text.size());
}

}  // namespace halyard
