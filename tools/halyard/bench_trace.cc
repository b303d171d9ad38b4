// SPDX-License-Identifier: Apache-2.0
// Trace events after Google's "Trace Event Format": "M" names, "X" slices, "C" counters; times in
// microseconds.
#include "tools/halyard/bench_trace.h"
#include "tools/halyard/row_name.h"

#include <map>
#include <string>

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

Json NameEvent(const char* what, int process, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"pid", process}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

void AddRow(const Json& row, int process, Json& events) {
  const auto profile = row.find("profile");
  if (profile == row.end() || !profile->is_object()) return;
  events.push_back(NameEvent("process_name", process, 0, NameOfRow(row)));
  std::map<std::string, const Json*> group_of;
  for (const Json& group : (*profile)["groups"]) {
    group_of[group["device"].get<std::string>() + "\n" + group["label"].get<std::string>()] =
        &group;
  }
  std::map<std::string, int> tracks;
  for (const Json& command : (*profile)["timeline"]) {
    const std::string device = command["device"], kind = command["kind"], label = command["label"];
    const std::string track =
        kind == "input" || kind == "output"
            ? device + " copies"
            : device + " queue " + std::to_string(command["queue"].get<int>());
    const auto [found, is_new] = tracks.try_emplace(track, static_cast<int>(tracks.size()) + 1);
    if (is_new) events.push_back(NameEvent("thread_name", process, found->second, track));
    const double start = command["start"], end = command["end"];
    Json args = Json::object();
    for (const char* name : {"device_seconds", "bytes"}) {
      if (command.contains(name)) args[name] = command[name];
    }
    if (const auto group = group_of.find(device + "\n" + label); group != group_of.end()) {
      for (const char* name : {"flops", "intensity", "product"}) {
        if (group->second->contains(name)) args[name] = (*group->second)[name];
      }
      if (group->second->contains("roof")) args["bound"] = (*group->second)["roof"]["bound"];
    }
    events.push_back({{"ph", "X"},
                      {"pid", process},
                      {"tid", found->second},
                      {"ts", start * 1e6},
                      {"dur", (end - start) * 1e6},
                      {"name", label},
                      {"cat", kind},
                      {"args", std::move(args)}});
    if (command.contains("live_bytes")) {
      events.push_back({{"ph", "C"},
                        {"pid", process},
                        {"ts", start * 1e6},
                        {"name", "planned activations"},
                        {"args", {{"bytes", command["live_bytes"]}}}});
    }
  }
}

}  // namespace

Json MakeTrace(const Json& report) {
  Json events = Json::array();
  int process = 0;
  for (const Json& row : report["rows"]) AddRow(row, ++process, events);
  return {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
}

}  // namespace halyard::tools
