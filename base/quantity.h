// SPDX-License-Identifier: Apache-2.0
// How numbers read in texts for people: counts with their noun, times and sizes in the unit that
// suits, four significant digits. What programs read (JSON, CSV, the text of a program) holds plain
// numbers instead.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace halyard {

// "1 transfer", "2 transfers", "0 copies", "3 dispatches". The noun is singular and regular:
// its last word takes -s, -es or -ies, and "axis" becomes "axes".
std::string CountedNoun(int64_t count, std::string_view noun);
template <std::integral Count>
std::string Counted(Count count, std::string_view noun) {
  return CountedNoun(static_cast<int64_t>(count), noun);
}

// Four significant digits without an exponent: "0.4621", "43.84", "12350". Not for numbers whose
// range is not that of quantities of this world: 1e30 has 31 digits.
std::string FormatSignificant(double value);

// "0.460 us", "213.2 us", "43.84 ms", "4.300 s", "0 s"; negative times keep their sign.
std::string FormatSeconds(double seconds);

// "1 byte", "900 bytes", "1.5 KiB", "97.4 MiB", "139.8 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace halyard
