// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace halyard {
namespace {

std::string PluralOf(std::string_view noun) {
  const auto ends_in = [&](std::string_view end) { return noun.ends_with(end); };
  if (ends_in("is")) return fmt::format("{}es", noun.substr(0, noun.size() - 2));
  const bool is_vowel_y = ends_in("ay") || ends_in("ey") || ends_in("oy") || ends_in("uy");
  if (ends_in("y") && !is_vowel_y) {
    return fmt::format("{}ies", noun.substr(0, noun.size() - 1));
  }
  const bool hisses =
      ends_in("s") || ends_in("x") || ends_in("z") || ends_in("ch") || ends_in("sh");
  return fmt::format("{}{}", noun, hisses ? "es" : "s");
}

}  // namespace

std::string CountedNoun(int64_t count, std::string_view noun) {
  return count == 1 ? fmt::format("1 {}", noun) : fmt::format("{} {}", count, PluralOf(noun));
}

std::string FormatSignificant(double value) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{:g}", value);
  // Rounding first, so that 9.9996 is 10.00 and not 10.000.
  const double rounded = std::strtod(fmt::format("{:.3e}", value).c_str(), nullptr);
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(rounded)))) + 1;
  return fmt::format("{:.{}f}", rounded, before_point >= 4 ? 0 : 4 - before_point);
}

std::string FormatSeconds(double seconds) {
  if (seconds == 0) return "0 s";
  // The last digit of four is kept in the next unit: 0.99996 ms is 1.000 ms, not 1000 us.
  const double size = std::abs(seconds);
  constexpr double kRounds = 0.99995;
  double scale = 1;
  std::string_view unit = "s";
  if (size < kRounds * 1e-3) {
    scale = 1e6;
    unit = "us";
  } else if (size < kRounds) {
    scale = 1e3;
    unit = "ms";
  }
  // Nothing below a nanosecond is told.
  if (size < 1e-6) return fmt::format("{:.3f} us", seconds * 1e6);
  return fmt::format("{} {}", FormatSignificant(seconds * scale), unit);
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<std::pair<std::string_view, int>, 4> kUnits = {
      {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}}};
  for (const auto& [unit, bits] : kUnits) {
    // From where the unit below would read "1024.0".
    const double size = std::ldexp(static_cast<double>(bytes), -bits);
    if (std::abs(size) >= (bits == 10 ? 1 : 1 - 0.05 / 1024)) {
      return fmt::format("{:.1f} {}", size, unit);
    }
  }
  return Counted(bytes, "byte");
}

}  // namespace halyard
