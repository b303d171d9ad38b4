// SPDX-License-Identifier: Apache-2.0
// Traces for Perfetto: every queue a track, every command a slice on it, the memory a counter.
#include "tools/halyard/bench_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

TEST(BenchTrace, QueuesAreTracksAndCommandsSlices) {
  const Json report = Json::parse(R"({"rows": [
    {"model": "none", "device": "cpu:0", "error": "no such file"},
    {"model": "m", "device": "gpu:0,cpu:0", "profile": {
      "groups": [{"label": "mm", "device": "gpu:0", "flops": 70, "roof": {"bound": "compute"}}],
      "timeline": [
        {"label": "x", "kind": "input", "device": "gpu:0", "queue": 0, "start": 0, "end": 1e-6, "bytes": 4},
        {"label": "mm", "kind": "dispatch", "device": "gpu:0", "queue": 0, "start": 2e-6, "end": 5e-6,
         "device_seconds": 2e-6, "live_bytes": 64},
        {"label": "to host", "kind": "transfer", "device": "cpu:0", "queue": 1, "start": 5e-6, "end": 7e-6},
        {"label": "y", "kind": "output", "device": "gpu:0", "queue": 0, "start": 7e-6, "end": 8e-6}]}}]})");
  const Json trace = MakeTrace(report);
  std::map<int, std::string> tracks;
  std::set<std::string> slices;
  int counters = 0;
  for (const Json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 2) << "the row that failed has no process";
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "C") {
      ++counters;
      EXPECT_EQ(event["args"]["bytes"], 64);
    }
    if (event["ph"] != "X") continue;
    slices.insert(tracks.at(event["tid"]) + ": " + event["name"].get<std::string>());
    if (event["name"] != "mm") continue;
    EXPECT_DOUBLE_EQ(event["ts"], 2);
    EXPECT_DOUBLE_EQ(event["dur"], 3);
    EXPECT_EQ(event["args"]["flops"], 70);
    EXPECT_EQ(event["args"]["bound"], "compute");
  }
  EXPECT_EQ(slices, (std::set<std::string>{"gpu:0 copies: x", "gpu:0 queue 0: mm",
                                           "cpu:0 queue 1: to host", "gpu:0 copies: y"}));
  EXPECT_EQ(counters, 1);
}

}  // namespace
}  // namespace halyard::tools
