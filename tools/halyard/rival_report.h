// SPDX-License-Identifier: Apache-2.0
// What a report says of the libraries beside an op's row. Rows hold "rivals": for each library
// {library, how, errors, ours, latency, interruptions, ratio, kernel_seconds, flops_per_s,
// roof_share}, or an error in place of what is missing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace halyard::tools {

// Adds to a rival that has "ours" and "latency": ratio (its median over ours), and where the row's
// profile tells them kernel_seconds, flops_per_s and roof_share, by the work and the roofs of our
// kernels. `kernel_s`: 0 where nobody tells; then the time of a run is that of its kernels.
void AddRivalFigures(const nlohmann::ordered_json& row, double kernel_s,
                     nlohmann::ordered_json* rival);
// Seconds of all dispatches of a profile.
double KernelSecondsOf(const nlohmann::ordered_json& profile);

// "oneDNN 2.6.3 takes 0.80 of the time that Halyard takes", and of a library whose threads other
// work interrupted that its times say little.
std::vector<std::string> RivalVerdicts(const nlohmann::ordered_json& row);
// A table of all rows that have rivals; empty when none has.
std::string FormatRivals(const nlohmann::ordered_json& rows);

}  // namespace halyard::tools
