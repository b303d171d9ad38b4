// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_page.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace halyard::tools {
namespace {

void Replace(std::string& text, std::string_view what, std::string_view with) {
  const size_t at = text.rfind(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

// "resnet50.onnx, bert.onnx on NVIDIA H200, Intel(R) Xeon(R): Halyard benchmark".
std::string TitleOf(const nlohmann::ordered_json& report) {
  std::vector<std::string> models, machines;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (!name.empty() && std::find(list.begin(), list.end(), name) == list.end())
      list.push_back(name);
  };
  for (const auto& row : report["rows"]) {
    // The folder of a model says what it is where the file is like all others.
    std::filesystem::path file = row["model"].get<std::string>();
    if (file.filename() == "model.onnx" && file.has_parent_path()) file = file.parent_path();
    add(models, file.filename().string());
    if (!row.contains("devices")) continue;
    for (const auto& device : row["devices"]) add(machines, device.value("name", std::string()));
  }
  const auto join = [](const std::vector<std::string>& list) {
    std::string out;
    for (size_t i = 0; i < std::min<size_t>(list.size(), 4); ++i)
      out += (i == 0 ? "" : ", ") + list[i];
    return out + (list.size() > 4 ? ", ..." : "");
  };
  std::string title = join(models);
  if (!machines.empty()) title += " on " + join(machines);
  return title.empty() ? "Halyard benchmark" : title + ": Halyard benchmark";
}

}  // namespace

std::string MakeBenchPage(const nlohmann::ordered_json& report) {
  // Names come from model files: none may end the script that holds them.
  std::string json;
  for (const char c : report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    json += c == '<' ? std::string("\\u003c") : std::string(1, c);
  std::string title;
  for (const char c : TitleOf(report)) {
    title += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  std::string page(kBenchPage);
  // What holds names comes last, since a name may be that of a place.
  Replace(page, "@CHART_LIBRARY@", kChartLibrary);
  Replace(page, "@TITLE@", title);
  Replace(page, "@REPORT@", json);
  return page;
}

}  // namespace halyard::tools
