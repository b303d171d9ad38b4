// SPDX-License-Identifier: Apache-2.0
// Checks of option texts for CLI11, whose own let NaN and signs pass: no option of a command takes
// a number that is not finite.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace halyard::tools {

// A finite number of these bounds; `what`, such as "number of seconds", is for the message.
CLI::Validator IsNumber(double least, double most, const std::string& what = "number");
// Of transform(), not check(): CLI11 reads "010" as 8, so the text becomes "10".
CLI::Validator IsWhole(int64_t least, int64_t most);
// A tolerance is finite and at least 0: under a NaN every comparison fails, under infinity none.
std::string IsTolerance(const std::string& text);
// A seed fits 64 bits: CLI11 lets a sign wrap. Of transform(), too.
CLI::Validator IsSeed();
// One of these words; help lists them.
CLI::Validator IsOneOf(std::vector<std::string> words);
// A list with commas, each item of which passes `item`; none is empty. CLI11's own delimiter drops
// empty items.
CLI::Validator IsListOf(const CLI::Validator& item);
// Of lists that passed it, one after the other.
std::vector<std::string> ItemsOf(const std::vector<std::string>& lists);

}  // namespace halyard::tools
