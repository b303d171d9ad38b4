// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_page.h"

namespace halyard::tools {
namespace {

void Replace(std::string& text, std::string_view what, std::string_view with) {
  const size_t at = text.rfind(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

}  // namespace

std::string MakeBenchPage(const nlohmann::ordered_json& report) {
  // Names come from model files: none may end the script that holds them.
  std::string json;
  for (const char c : report.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    json += c == '<' ? std::string("\\u003c") : std::string(1, c);
  std::string page(kBenchPage);
  Replace(page, "@REPORT@", json);
  Replace(page, "@CHART_LIBRARY@", kChartLibrary);
  return page;
}

}  // namespace halyard::tools
