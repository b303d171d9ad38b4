// SPDX-License-Identifier: Apache-2.0
// Reports of `halyard devices --json`: reading, comparing and drawing them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/halyard/command.h"

namespace halyard::tools {

using Json = nlohmann::ordered_json;

inline constexpr const char* kDevicesFormat = "halyard-devices-1";

// Throws CommandError naming the file when the text is no report of this format.
Json ParseDevicesReport(const std::string& file, const std::string& text);

// One line per driver, device, field, link or reading that differs; empty when none does. What
// changes by itself (the state, free memory) is left out; measured times differ from a tenth on. A
// device that only one report has is one line, and `with_fields` its fields too.
std::string DiffReports(const Json& a, const Json& b, bool with_fields);

// How a link of a report is used, in words: "pcie, direct copies".
std::string DescribeLink(const Json& link);

// A line for each device of a report, below the names of its columns: name, driver, units, memory
// and rates, each with its source. `probes`: the report's, or stored ones; null: none.
std::string FormatSummary(const Json& report, const Json& probes);

// Of the "probes" of a report: a table for people.
std::string FormatProbes(const Json& probes);

// SVG: the host with its memory, each device with units and memory, links with the bandwidth that
// was measured or that the bus promises.
std::string DrawTopology(const Json& report);

}  // namespace halyard::tools
