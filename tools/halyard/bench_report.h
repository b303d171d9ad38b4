// SPDX-License-Identifier: Apache-2.0
// Reports of `halyard bench`: their numbers, verdicts in words, conditions, comparison and forms.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/halyard/command.h"
#include "tools/halyard/statistics.h"

namespace halyard::tools {

using Json = nlohmann::ordered_json;

inline constexpr const char* kBenchFormat = "halyard-bench-1";

// One model on one device, as JSON with the keys that conditions name: "latency" {min, p50, p90,
// p95, p99, max, ...} in seconds, "throughput" in runs per second, "phases", "memory", "state",
// "verdicts".
Json StatisticsJson(const Statistics& statistics);
// Latencies under load, without how sure the median is. At least one.
Json PercentilesJson(std::vector<double> latencies);

// Sentences about a row: unstable, clock fell, a run shorter than the timer resolves, fallbacks,
// outputs that differ from run to run.
std::vector<std::string> Verdicts(const Json& row);

// "p99>5ms", "p50>=2us", "throughput<100", "cv>5%", "max_abs_error>1e-3", "fallbacks>0".
struct Condition {
  std::string text, metric, comparison;
  double value = 0;
};
// Throws CommandError that names what is wrong. Times need a unit.
Condition ParseCondition(const std::string& text);
// "p99>5ms: p99 is 6.250 ms" where it holds for the row, "" where not. A metric that the row does
// not have holds no condition.
std::string WhyItHolds(const Condition& condition, const Json& row);

// Rows that have no part of a report leave its cell empty. A report of rows alone that could not be
// measured has no table: their errors are on standard error.
std::string FormatMarkdown(const Json& report);
std::string FormatCsv(const Json& report);

// Throws CommandError naming the file when the text is no report of this format.
Json ParseBenchReport(const std::string& file, const std::string& text);
// One line per model and device that both have: medians, their ratio, and whether the samples say
// that they differ. Empty when both measured none alike.
std::string CompareReports(const Json& before, const Json& after);

}  // namespace halyard::tools
