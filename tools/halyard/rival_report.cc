// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/rival_report.h"

#include <algorithm>

#include "base/quantity.h"
#include "tools/halyard/format.h"
#include "tools/halyard/row_name.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kFaster = 0.95;  // of our time, that a verdict names
// A second of a free machine has a few; threads that wait for each other lose a time slice by each.
constexpr double kBusyPerSecond = 25;

// Of all dispatches: seconds, FLOPs, and the least time that the roofs allow; 0: not known.
struct Kernels {
  double seconds = 0, flops = 0, least = 0;
};
Kernels KernelsOf(const Json& profile) {
  Kernels out;
  bool has_flops = true, has_roofs = true;
  for (const Json& group : profile.value("groups", Json::array())) {
    if (group["kind"] != "dispatch") continue;
    out.seconds += group["seconds"].get<double>();
    has_flops &= group.contains("flops");
    has_roofs &= group.contains("roof");
    out.flops += group.value("flops", 0.0);
    if (group.contains("roof")) {
      const Json& roof = group["roof"];
      out.least += std::max(roof.value("compute_s", 0.0), roof.value("memory_s", 0.0));
    }
  }
  if (!has_flops) out.flops = 0;
  if (!has_roofs) out.least = 0;
  return out;
}

std::string Rate(double per_s) {
  if (per_s <= 0) return "-";
  const char* prefix = per_s >= 1e12 ? "T" : per_s >= 1e9 ? "G" : "M";
  return Format("%.3g %sFLOP/s",
                per_s / (*prefix == 'T'   ? 1e12
                         : *prefix == 'G' ? 1e9
                                          : 1e6),
                prefix);
}
std::string Share(double share) { return share > 0 ? Format("%.0f%%", share * 100) : "-"; }
std::string Time(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "-"; }

// The cells from p50 on, up to the share of the roof.
std::string Cells(const Json& latency, double kernel_s, double flops_per_s, double share) {
  return " | " + FormatSeconds(latency["p50"]) + " | " + FormatSeconds(latency["p50_low"]) +
         " to " + FormatSeconds(latency["p50_high"]) + " | " + Time(kernel_s) + " | " +
         Rate(flops_per_s) + " | " + Share(share);
}

}  // namespace

double KernelSecondsOf(const Json& profile) { return KernelsOf(profile).seconds; }

void AddRivalFigures(const Json& row, double kernel_s, Json* rival) {
  const double ours = (*rival)["ours"]["p50"], theirs = (*rival)["latency"]["p50"];
  if (ours > 0) (*rival)["ratio"] = theirs / ours;
  if (kernel_s > 0) (*rival)["kernel_seconds"] = kernel_s;
  const double seconds = kernel_s > 0 ? kernel_s : theirs;
  const auto profile = row.find("profile");
  if (profile == row.end() || seconds <= 0) return;
  const Kernels kernels = KernelsOf(*profile);
  if (kernels.flops > 0) (*rival)["flops_per_s"] = kernels.flops / seconds;
  if (kernels.least > 0) (*rival)["roof_share"] = kernels.least / seconds;
}

std::vector<std::string> RivalVerdicts(const Json& row) {
  std::vector<std::string> out;
  for (const Json& rival : row.value("rivals", Json::array())) {
    const double interruptions = rival.value("interruptions", 0.0);
    const double seconds = rival.contains("latency") ? rival["latency"]["count"].get<double>() *
                                                           rival["latency"]["mean"].get<double>()
                                                     : 0;
    if (seconds > 0 && interruptions >= kBusyPerSecond * std::max(seconds, 0.1)) {
      out.push_back(Format(
          "busy: other work took the processors from %s %.0f times in %s; its times say little",
          rival["library"].get<std::string>().c_str(), interruptions,
          FormatSeconds(seconds).c_str()));
    }
    const double ratio = rival.value("ratio", 0.0);
    if (ratio <= 0 || ratio >= kFaster) continue;
    out.push_back(Format("%s takes %.2f of the time that Halyard takes (%s against %s)",
                         rival["library"].get<std::string>().c_str(), ratio,
                         FormatSeconds(rival["latency"]["p50"]).c_str(),
                         FormatSeconds(rival["ours"]["p50"]).c_str()));
  }
  return out;
}

std::string FormatRivals(const Json& rows) {
  std::string lines;
  for (const Json& row : rows) {
    for (const Json& rival : row.value("rivals", Json::array())) {
      const std::string head =
          "| " + ModelOfRow(row) + " | " + row["device"].get<std::string>() + " | ";
      const std::string library = rival["library"];
      if (!rival.contains("latency")) {
        lines += head + library + " | " + rival.value("error", std::string("interrupted")) +
                 " | | | | | | | |\n";
        continue;
      }
      // Ours by its profile where the library's kernels are timed apart too, else by the runs.
      const Kernels kernels = KernelsOf(row.value("profile", Json::object()));
      const bool has_kernels = rival.contains("kernel_seconds");
      const double ours = has_kernels ? kernels.seconds : rival["ours"]["p50"].get<double>();
      lines += head + "Halyard" +
               Cells(rival["ours"], has_kernels ? ours : 0, ours > 0 ? kernels.flops / ours : 0,
                     ours > 0 ? kernels.least / ours : 0) +
               " | 1 | - | |\n";
      lines += head + library +
               Cells(rival["latency"], rival.value("kernel_seconds", 0.0),
                     rival.value("flops_per_s", 0.0), rival.value("roof_share", 0.0)) +
               Format(" | %.2f | %.2g | ", rival.value("ratio", 0.0),
                      rival["errors"]["max_abs_error"].get<double>()) +
               rival.value("how", std::string()) + " |\n";
    }
  }
  if (lines.empty()) return "";
  return "\nOther libraries on the same inputs, in turn with Halyard:\n\n"
         "| op | device | library | p50 | 95% interval | kernels alone | FLOP/s | of roof "
         "| time over Halyard's | largest difference | how |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|\n" +
         lines;
}

}  // namespace halyard::tools
