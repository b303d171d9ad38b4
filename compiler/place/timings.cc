// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/timings.h"

#include <fmt/format.h>

#include <charconv>

namespace halyard::place {
namespace {

constexpr std::string_view kPrefix = "cluster ";

}  // namespace

std::string FormatClusterTime(double seconds) { return fmt::format("{}{}", kPrefix, seconds); }

std::optional<double> ParseClusterTime(std::string_view record) {
  if (!record.starts_with(kPrefix)) return std::nullopt;
  record.remove_prefix(kPrefix.size());
  double seconds = 0;
  const auto [end, error] = std::from_chars(record.data(), record.data() + record.size(), seconds);
  if (error != std::errc() || end != record.data() + record.size()) return std::nullopt;
  if (!(seconds > 0 && seconds < kMostSeconds)) return std::nullopt;
  return seconds;
}

}  // namespace halyard::place
