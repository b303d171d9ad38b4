// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_conditions.h"

#include <algorithm>
#include <cctype>

#include "base/quantity.h"
#include "tools/halyard/format.h"
#include "tools/halyard/row_name.h"

namespace halyard::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kClockFell = 0.05;  // of the clock before

double Number(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::string Text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// "P0" of a GPU is no governor.
bool IsGovernor(const std::string& state) {
  return !state.empty() && !(state[0] == 'P' && state.size() > 1 &&
                             std::isdigit(static_cast<unsigned char>(state[1])) != 0);
}

const Json& StateOf(const Json& device, const char* when) {
  static const Json none = Json::object();
  const auto found = device.find(when);
  return found != device.end() && found->is_object() ? *found : none;
}

// Why a device did not run at its highest clock; empty: nothing is known that held it back during
// the row. A CPU tells how often it was too hot since the start, which only counts when it grows.
std::string HeldBackBy(const Json& device) {
  const std::string before = Text(StateOf(device, "before"), "throttle_reasons");
  for (const char* when : {"after", "during"}) {
    const std::string reason = Text(StateOf(device, when), "throttle_reasons");
    if (reason == "none" || reason == "idle") continue;
    if (!reason.empty() && !(reason.starts_with("heat, ") && reason == before)) return reason;
  }
  return "";
}

// The lower of those during and after the runs; 0: neither is known.
double LaterClock(const Json& device) {
  const double during = Number(StateOf(device, "during"), "clock_hz");
  const double after = Number(StateOf(device, "after"), "clock_hz");
  return during > 0 && after > 0 ? std::min(during, after) : std::max(during, after);
}

// The most that the device told at once.
double MostOf(const Json& device, const char* name) {
  double most = 0;
  for (const char* when : {"before", "during", "after"}) {
    most = std::max(most, Number(StateOf(device, when), name));
  }
  return most;
}

// How often and how long a quota paused the processors between the two states.
struct Pauses {
  double count = 0, seconds = 0;
};
Pauses PausesOf(const Json& device) {
  const Json &first = StateOf(device, "before"), &last = StateOf(device, "after");
  if (!first.contains("quota_pauses") || !last.contains("quota_pauses")) return {};
  return {Number(last, "quota_pauses") - Number(first, "quota_pauses"),
          Number(last, "quota_paused_s") - Number(first, "quota_paused_s")};
}

std::string Mhz(double hz) { return hz > 0 ? Format("%.0f MHz", hz * 1e-6) : "unknown"; }

}  // namespace

std::vector<std::string> ConditionVerdicts(const Json& row) {
  std::vector<std::string> out;
  for (const Json& device : row.value("conditions", Json::array())) {
    const std::string name = Text(device, "device");
    const Json& first = StateOf(device, "before");
    if (const Pauses pauses = PausesOf(device); pauses.count > 0) {
      out.push_back(
          Format("the control group paused %s in %.0f periods of the timed runs, for %s "
                 "of all processors: these are times of its quota",
                 name.c_str(), pauses.count, FormatSeconds(pauses.seconds).c_str()));
    }
    // Beside the devices of the row; its clock is not what is asked here.
    if (device.value("is_host", false)) continue;
    const double before = Number(first, "clock_hz"), after = LaterClock(device);
    if (before > 0 && after > 0 && after < before * (1 - kClockFell)) {
      out.push_back(Format("the clock of %s fell %.0f%%, from %.0f to %.0f MHz", name.c_str(),
                           (1 - after / before) * 100, before * 1e-6, after * 1e-6));
    }
    if (before == 0 || after == 0) {
      out.push_back("the clock of " + name + " cannot be read: a change of it would not show");
    }
    if (const std::string why = HeldBackBy(device); !why.empty()) {
      out.push_back(name + " was held back by: " + why);
    }
    if (const double users = MostOf(device, "process_count"); users > 1) {
      out.push_back(
          Format("%.0f processes compute on %s, of which this is one", users, name.c_str()));
    }
    if (const double users = MostOf(device, "mps_process_count"); users > 1) {
      out.push_back(
          Format("%.0f processes share %s through the Multi-Process Service", users, name.c_str()));
    }
    const std::string governor = Text(first, "performance_state");
    if (IsGovernor(governor) && governor != "performance") {
      out.push_back("the governor of " + name + " is " + governor + ": its clock follows the load");
    }
    const double quota = Number(device, "quota_threads"), all = Number(device, "thread_count");
    if (quota > 0 && quota < all) {
      out.push_back(
          Format("the control group allows %s the time of %g of %g CPUs: work that uses "
                 "it up is paused until the next period",
                 name.c_str(), quota, all));
    }
  }
  return out;
}

std::string FormatConditions(const Json& rows) {
  std::string lines;
  for (const Json& row : rows) {
    for (const Json& device : row.value("conditions", Json::array())) {
      const Json &first = StateOf(device, "before"), &during = StateOf(device, "during"),
                 &last = StateOf(device, "after");
      const std::string state = Text(first, "performance_state");
      const std::string held = HeldBackBy(device);
      if (device.value("is_host", false)) continue;
      const bool tells = !Text(last, "throttle_reasons").empty();
      lines +=
          "| " + ModelOfRow(row) + " | " + Text(device, "device") + " | " +
          Mhz(Number(first, "clock_hz")) + " | " + Mhz(Number(during, "clock_hz")) + " | " +
          Mhz(Number(last, "clock_hz")) + " | " + Mhz(Number(device, "max_clock_hz")) + " | " +
          (state.empty() ? "unknown" : state) + " | " +
          (!held.empty() ? held
           : tells       ? "nothing"
                         : "unknown") +
          " | " +
          (last.contains("temperature_c") ? Format("%.0f C", Number(last, "temperature_c"))
                                          : "unknown") +
          " | " +
          (first.contains("load_average") ? Format("%.2f", Number(first, "load_average")) : "-") +
          " | " +
          (device.contains("quota_threads") ? Format("%g", Number(device, "quota_threads")) : "-") +
          " | " +
          (first.contains("quota_pauses") ? Format("%.0f", PausesOf(device).count) : "unknown") +
          " |\n";
    }
  }
  if (lines.empty()) return "";
  return "\nConditions of the timed runs:\n\n"
         "| model | device | clock before | during | after | highest | governor or P-state | held "
         "back "
         "by | temperature | load before | quota of CPUs | pauses |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|\n" +
         lines;
}

}  // namespace halyard::tools
