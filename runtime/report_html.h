// SPDX-License-Identifier: Apache-2.0
// The report of a program as one HTML page without references to anything outside it: what runs
// where, what waits for what, memory over the commands, and a table that sorts.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "compiler/program/program.h"

namespace halyard::runtime {

// Sizes that depend on symbols are drawn for the smallest allowed value of each, but at least 1;
// the page says so.
Result<std::string> MakeHtmlReport(const program::Program& program);

// Of a device, for parts of the page that stand in other files.
std::string_view ColourOf(size_t index);

}  // namespace halyard::runtime
