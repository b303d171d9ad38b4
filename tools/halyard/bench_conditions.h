// SPDX-License-Identifier: Apache-2.0
// What the machine was like during a row of `halyard bench`: clocks, governor, limits, other work.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace halyard::tools {

// Rows hold "conditions": for each device {device, thread_count, quota_threads, max_clock_hz,
// before, after}, where before and after are what the device told of its state; what is unknown is
// missing. One with is_host is of the processors beside other devices, and has what a quota did.

// Sentences about what makes the times of a row less than those of a free machine: a clock that
// fell, cannot be read or follows the load, a device that is held back, a quota and what it paused.
std::vector<std::string> ConditionVerdicts(const nlohmann::ordered_json& row);

// A table of the conditions of all rows; empty when none has some.
std::string FormatConditions(const nlohmann::ordered_json& rows);

}  // namespace halyard::tools
