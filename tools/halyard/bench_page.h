// SPDX-License-Identifier: Apache-2.0
// A report of `halyard bench` as one page that loads nothing from elsewhere: tables, a roofline,
// the distribution of the latency, a timeline per queue and the memory over time. Drawn by
// Chart.js, which the build puts into the command with tools/halyard/bench_page.html.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace halyard::tools {

std::string MakeBenchPage(const nlohmann::ordered_json& report);

// Made by the build (tools/CMakeLists.txt).
extern const std::string_view kBenchPage;     // with @CHART_LIBRARY@ and @REPORT@
extern const std::string_view kChartLibrary;  // one script; holds no "</script"

}  // namespace halyard::tools
