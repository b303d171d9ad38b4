// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/timings.h"

#include <fmt/format.h>

#include <charconv>

namespace halyard::place {
namespace {

constexpr std::string_view kPrefix = "recorded ";

}  // namespace

std::string FormatClusterTime(const ClusterTime& time) {
  return fmt::format("{}{}{}{}", kPrefix, time.seconds, time.schedule.empty() ? "" : " ",
                     time.schedule);
}

std::optional<ClusterTime> ParseClusterTime(std::string_view record) {
  if (!record.starts_with(kPrefix)) return std::nullopt;
  record.remove_prefix(kPrefix.size());
  ClusterTime time;
  const char* const last = record.data() + record.size();
  const auto [end, error] = std::from_chars(record.data(), last, time.seconds);
  if (error != std::errc() || (end != last && *end != ' ')) return std::nullopt;
  if (!(time.seconds > 0 && time.seconds < kMostSeconds)) return std::nullopt;
  if (end != last) time.schedule.assign(end + 1, last);
  return time;
}

bool IsBetterKnown(const ClusterTime& now, std::string_view record) {
  const auto known = ParseClusterTime(record);
  return !known || known->schedule.empty() || known->schedule == now.schedule ||
         now.seconds < known->seconds;
}

}  // namespace halyard::place
