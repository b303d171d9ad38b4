// SPDX-License-Identifier: Apache-2.0
// A report of `halyard bench` as a trace in the JSON form that Perfetto and chrome://tracing read.
#pragma once

#include <nlohmann/json.hpp>

namespace halyard::tools {

// A process for each row that has a profile, a track for each queue of it and for the copies of
// inputs and outputs of a device, a slice for each command, and a counter of the planned memory.
// Slices of the rows start at 0 each.
nlohmann::ordered_json MakeTrace(const nlohmann::ordered_json& report);

}  // namespace halyard::tools
