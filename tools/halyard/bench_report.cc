// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/escape_controls.h"
#include "base/near_names.h"
#include "base/parse_number.h"
#include "base/quantity.h"
#include "tools/halyard/bench_check.h"
#include "tools/halyard/bench_conditions.h"
#include "tools/halyard/bench_profile.h"
#include "tools/halyard/format.h"
#include "tools/halyard/rival_report.h"
#include "tools/halyard/row_name.h"

namespace halyard::tools {
namespace {

constexpr double kUnstable = 0.05;  // coefficient of variation
constexpr double kTimerSeconds =
    1e-6;  // shorter runs than ten of these are hard to time one by one
constexpr double kFewRuns = 10;
constexpr double kMuch = 0.2;           // share of a run that a verdict names
constexpr double kClocksDiffer = 0.05;  // of a device and the host
constexpr double kSignificant = 0.01;   // chance that two sets of samples are of one kind

double NumberAt(const Json& row, const char* group, const char* name) {
  const auto outer = row.find(group);
  if (outer == row.end() || !outer->is_object()) return 0;
  const auto inner = outer->find(name);
  return inner != outer->end() && inner->is_number() ? inner->get<double>() : 0;
}

// Too few timed runs to say more than how long one took.
bool IsFew(const Json& row) {
  const double count = NumberAt(row, "latency", "count");
  return count > 0 && count < kFewRuns;
}

// "copy-bound", "dispatch-bound": where the time of a run goes that is not work of a device.
void AddProfileVerdicts(const Json& row, std::vector<std::string>& out) {
  const auto found = row.find("profile");
  if (found == row.end() || !found->is_object()) return;
  const Json& split = (*found)["split"];
  const double whole = (*found)["seconds"];
  const double copies = split.value("copies_in", 0.0) + split.value("copies_out", 0.0);
  if (copies > kMuch * whole) {
    out.push_back(Format("copy-bound: inputs and outputs take %.0f%% of a run (%s)",
                         copies / whole * 100, FormatSeconds(copies).c_str()));
  }
  const double between = split.value("inter_device", 0.0);
  if (between > kMuch * whole) {
    out.push_back(Format("transfer-bound: copies between devices take %.0f%% of a run (%s)",
                         between / whole * 100, FormatSeconds(between).c_str()));
  }
  const Json clocks = found->value("clocks", Json::object());
  for (const auto& [device, clock] : clocks.items()) {
    const double ratio = clock["ratio"];
    if (std::abs(ratio - 1) <= kClocksDiffer + clock["error"].get<double>()) continue;
    out.push_back(
        Format("clocks differ: a second of the clock of %s is %.2f s of the host's; of its "
               "times and rates believe the host's",
               device.c_str(), ratio));
  }
  int dispatches = 0;
  double bound = 0, all = 0;
  for (const Json& group : (*found)["groups"]) {
    all += group["seconds"].get<double>();
    if (group["kind"] == "dispatch") dispatches += group["dispatches"].get<int>();
    if (group.contains("roof") && group["roof"]["bound"] == "dispatch")
      bound += group["seconds"].get<double>();
  }
  if (all > 0 && bound > kMuch * all) {
    out.push_back(
        Format("dispatch-bound: %.0f%% of the time of %d dispatches is in kernels that take less "
               "than starting them",
               bound / all * 100, dispatches));
  }
}

}  // namespace

Json StatisticsJson(const Statistics& s) {
  Json json = {{"count", s.count},
               {"min", s.min},
               {"mean", s.mean},
               {"p50", s.p50},
               {"p50_low", s.median_low},
               {"p50_high", s.median_high},
               {"p90", s.p90},
               {"p95", s.p95},
               {"p99", s.p99}};
  if (s.p999 > 0) json["p999"] = s.p999;
  json["max"] = s.max;
  json["mad"] = s.mad;
  json["cv"] = s.variation;
  return json;
}

Json PercentilesJson(std::vector<double> latencies) {
  std::sort(latencies.begin(), latencies.end());
  Json json = {
      {"count", latencies.size()},
      {"min", latencies.front()},
      {"mean", std::accumulate(latencies.begin(), latencies.end(), 0.0) / latencies.size()},
      {"p50", Percentile(latencies, 0.5)},
      {"p90", Percentile(latencies, 0.9)},
      {"p95", Percentile(latencies, 0.95)},
      {"p99", Percentile(latencies, 0.99)}};
  if (latencies.size() >= 1000) json["p999"] = Percentile(latencies, 0.999);
  json["max"] = latencies.back();
  return json;
}

std::vector<std::string> Verdicts(const Json& row) {
  std::vector<std::string> out = CheckVerdicts(row);
  const double cv = NumberAt(row, "latency", "cv"), p50 = NumberAt(row, "latency", "p50");
  if (cv > kUnstable) {
    const double load = NumberAt(row, "state_before", "load_average");
    const double longest = NumberAt(row, "latency", "max");
    // Beyond its mean a standard deviation says little: a few runs were of another kind.
    const std::string spread =
        cv < 1 || p50 <= 0 || longest <= 0
            ? Format("the runs' standard deviation is %.0f%% of their mean", cv * 100)
            : Format("a few runs took far longer than the others, the longest %s, %.0f times p50",
                     FormatSeconds(longest).c_str(), longest / p50);
    out.push_back("unstable: " + spread + "; look at p50 with its interval, not at the mean" +
                  (load > 1
                       ? Format(" (the load average was %.1f before them, of which this command's "
                                "compiling is a part)",
                                load)
                       : ""));
  }
  const bool has_few = IsFew(row);
  if (has_few) {
    out.push_back("few: " + Counted(static_cast<int>(NumberAt(row, "latency", "count")), "run") +
                  ", of which percentiles and intervals say little; --seconds gives more");
  }
  if (p50 > 0 && p50 < 10 * kTimerSeconds) {
    out.push_back(Format("short: one run takes %s, of which timing and calling are a part",
                         FormatSeconds(p50).c_str()));
  }
  for (const Json& flushed : row.value("cold_cache", Json::array())) {
    out.push_back("cold: before each timed run " + flushed["device"].get<std::string>() +
                  " read and wrote " + FormatBytes(flushed["bytes"]) + " each, " +
                  (flushed.contains("cache_bytes")
                       ? "against " + FormatBytes(flushed["cache_bytes"]) + " of its last cache"
                       : std::string("its cache being of unknown size")));
  }
  for (std::string& verdict : ConditionVerdicts(row)) out.push_back(std::move(verdict));
  const double first = NumberAt(row, "phases", "first_run"),
               open = NumberAt(row, "phases", "warm_open");
  if (p50 > 0 && first > 20 * p50) {
    out.push_back(Format("the first run takes %.0f times a later one (%s)", first / p50,
                         FormatSeconds(first).c_str()));
  }
  if (open > 1) out.push_back("loading from the cache takes " + FormatSeconds(open));
  if (row.value("fallbacks", 0) > 0) {
    out.push_back(Counted(row["fallbacks"].get<int>(), "record") +
                  " of fallback; see halyard explain");
  }
  if (row.contains("is_deterministic") && !row["is_deterministic"].get<bool>()) {
    out.push_back("runs on the same inputs give different bits");
  }
  const double throughput = row.value("throughput", 0.0);
  if (row.value("concurrency", 0) > 1 && p50 > 0 && !has_few && throughput * p50 > 1.3) {
    out.push_back(Format("several runs at once give %.2f times what one after the other gives",
                         throughput * p50));
  }
  for (const Json& load : row.value("rates", Json::array())) {
    const int64_t missed = load["missed"];
    if (missed == 0) continue;
    out.push_back(Format(
        "too much: of the runs due at %g/s %lld of %lld were not begun in %s; "
        "%s/s were served",
        load["rate"].get<double>(), static_cast<long long>(missed),
        static_cast<long long>(load["arrivals"].get<int64_t>()),
        FormatSeconds(load["seconds"]).c_str(), FormatSignificant(load["served_per_s"]).c_str()));
  }
  AddProfileVerdicts(row, out);
  for (std::string& verdict : RivalVerdicts(row)) out.push_back(std::move(verdict));
  return out;
}

namespace {

enum class Measure : uint8_t { kTime, kShare, kNumber };

// The numbers of a row that a condition may name.
constexpr std::pair<const char*, Measure> kMetrics[] = {
    {"p50", Measure::kTime},
    {"p90", Measure::kTime},
    {"p95", Measure::kTime},
    {"p99", Measure::kTime},
    {"p999", Measure::kTime},
    {"min", Measure::kTime},
    {"mean", Measure::kTime},
    {"max", Measure::kTime},
    {"mad", Measure::kTime},
    {"p50_low", Measure::kTime},
    {"p50_high", Measure::kTime},
    {"compile", Measure::kTime},
    {"warm_open", Measure::kTime},
    {"first_run", Measure::kTime},
    {"cv", Measure::kShare},
    {"max_rel_error", Measure::kShare},
    {"max_scaled_error", Measure::kShare},
    {"median_rel_error", Measure::kShare},
    {"max_abs_error", Measure::kNumber},
    {"throughput", Measure::kNumber},
    {"concurrency", Measure::kNumber},
    {"count", Measure::kNumber},
    {"fallbacks", Measure::kNumber},
    {"missed", Measure::kNumber},
    {"constant_bytes", Measure::kNumber},
    {"activation_bytes", Measure::kNumber},
    {"io_bytes", Measure::kNumber},
    {"staging_bytes", Measure::kNumber},
    {"total_bytes", Measure::kNumber},
    {"peak_bytes", Measure::kNumber},
};

std::optional<Measure> MeasureOf(const std::string& metric) {
  for (const auto& [name, measure] : kMetrics) {
    if (metric == name) return measure;
  }
  return std::nullopt;
}

}  // namespace

Condition ParseCondition(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    return CommandError(kWrongUsage, "--fail-if '" + text + "': " + why);
  };
  Condition out;
  out.text = text;
  const size_t at = text.find_first_of("<>");
  if (at == std::string::npos || at == 0) throw fail("the form is METRIC>VALUE or METRIC<VALUE");
  out.metric = text.substr(0, at);
  out.comparison = text.substr(at, at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1);
  const std::optional<Measure> measure = MeasureOf(out.metric);
  if (!measure) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : kMetrics) known.emplace_back(name);
    const std::string near = NamesNear(out.metric, known);
    throw fail("there is no metric '" + out.metric + "'; " +
               (near.empty() ? "there are " + NamesLike("", known, known.size())
                             : "did you mean " + near + "?"));
  }
  const std::string rest = text.substr(at + out.comparison.size());
  double number = 0;
  const char* stop = std::from_chars(rest.data(), rest.data() + rest.size(), number).ptr;
  const auto digits = static_cast<size_t>(stop - rest.data());
  const std::optional<double> value = ParseFinite(std::string_view(rest).substr(0, digits));
  if (!value) throw fail("'" + rest + "' is no number");
  out.value = *value;
  const std::string unit = rest.substr(digits);
  constexpr std::array<std::pair<const char*, double>, 6> kUnits = {
      {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"%", 1e-2}}};
  for (const auto& [name, scale] : kUnits) {
    if (unit != name) continue;
    if (measure == Measure::kTime && (unit.empty() || unit == "%")) {
      throw fail("'" + out.metric + "' is a time; its unit is s, ms, us or ns");
    }
    if (measure == Measure::kShare && !unit.empty() && unit != "%") {
      throw fail("'" + out.metric + "' is a share; it takes no unit or %");
    }
    if (measure == Measure::kNumber && !unit.empty()) {
      throw fail("'" + out.metric + "' takes no unit");
    }
    out.value *= scale;
    return out;
  }
  throw fail("there is no unit '" + unit + "'; there are: s, ms, us, ns, %");
}

std::string WhyItHolds(const Condition& condition, const Json& row) {
  const Json* value = nullptr;
  std::string known;
  for (const char* group : {"", "latency", "phases", "errors", "memory"}) {
    const Json* where = &row;
    if (*group != 0) {
      const auto found = row.find(group);
      if (found == row.end()) continue;
      where = &*found;
    }
    for (const auto& [name, number] : where->items()) {
      if (!number.is_number()) continue;
      known += (known.empty() ? "" : ", ") + name;
      if (name == condition.metric) value = &number;
    }
  }
  const Json rates = row.value("rates", Json::array());
  int64_t missed = 0;  // of all rates
  for (const Json& load : rates) missed += load["missed"].get<int64_t>();
  const Json all_missed = missed;
  if (!rates.empty()) {
    known += ", missed";
    if (condition.metric == "missed") value = &all_missed;
  }
  if (!value) {
    // A row that failed or was interrupted has not everything.
    if (row.contains("error") || !row.contains("throughput")) return "";
    throw CommandError(kWrongUsage, "--fail-if '" + condition.text + "': the report has no '" +
                                        condition.metric + "'; it has " + known);
  }
  const double actual = value->get<double>();
  const bool holds = condition.comparison == ">"    ? actual > condition.value
                     : condition.comparison == ">=" ? actual >= condition.value
                     : condition.comparison == "<"  ? actual < condition.value
                                                    : actual <= condition.value;
  if (!holds) return "";
  const Measure measure = *MeasureOf(condition.metric);
  return condition.text + ": " + condition.metric + " is " +
         (measure == Measure::kTime    ? FormatSeconds(actual)
          : measure == Measure::kShare ? Format("%.3g%%", actual * 100)
                                       : Format("%.6g", actual));
}

namespace {

// The same with names that a terminal and a table can show.
Json Printable(const Json& json) {
  if (json.is_string()) {
    std::string text;
    for (const char c : EscapeControls(json.get<std::string>()))
      text += c == '|' ? "\\|" : std::string(1, c);
    return text;
  }
  Json out = json;
  for (Json& part : out) {
    if (part.is_string() || part.is_structured()) part = Printable(part);
  }
  return out;
}

// Planned and observed bytes by device, where a program has several.
std::string FormatMemory(const Json& row) {
  const auto memory = row.find("memory");
  if (memory == row.end() || !memory->contains("devices") || (*memory)["devices"].size() < 2)
    return "";
  std::string text = "\nMemory of " + NameOfRow(row) +
                     ":\n\n"
                     "| device | constants | activations | inputs and outputs | staging | planned "
                     "| peak | peak, several sessions |\n"
                     "|---|---|---|---|---|---|---|---|\n";
  for (const Json& device : (*memory)["devices"]) {
    text += "| " + device["device"].get<std::string>() + " |";
    for (const char* name : {"constant_bytes", "activation_bytes", "io_bytes", "staging_bytes",
                             "total_bytes", "peak_bytes", "concurrent_peak_bytes"}) {
      text += device.contains(name) ? " " + FormatBytes(device[name].get<int64_t>()) + " |"
                                    : std::string(" - |");
    }
    text += "\n";
  }
  return text;
}

// Latency with several sessions at once and at each rate of --rate; without one of both the table
// of rows has all there is.
std::string FormatLoads(const Json& row) {
  const Json rates = row.value("rates", Json::array());
  if (!row.contains("concurrent_latency") || (row.value("concurrency", 0) < 2 && rates.empty()))
    return "";
  const int sessions = row["concurrency"];
  std::string text = "\nLatency of " + NameOfRow(row) + " under load, " +
                     Counted(sessions, "session") +
                     ":\n\n"
                     "| load | runs/s | p50 | p90 | p95 | p99 | longest | waited | missed |\n"
                     "|---|---|---|---|---|---|---|---|---|\n";
  const auto add = [&](const std::string& load, double per_s, const Json* latency,
                       const std::string& behind) {
    text += "| " + load + " | " + FormatSignificant(per_s) + " |";
    for (const char* name : {"p50", "p90", "p95", "p99", "max"}) {
      text += latency ? " " + FormatSeconds((*latency)[name]) + " |" : std::string(" - |");
    }
    text += behind + "\n";
  };
  add("each run after the last", row["throughput"], &row["concurrent_latency"], " - | - |");
  for (const Json& load : rates) {
    const auto share = [&](const char* name) {
      return Format(" %lld of %lld |", static_cast<long long>(load[name].get<int64_t>()),
                    static_cast<long long>(load["arrivals"].get<int64_t>()));
    };
    add(Format("due at %g/s", load["rate"].get<double>()), load["served_per_s"],
        load.contains("latency") ? &load["latency"] : nullptr, share("waited") + share("missed"));
  }
  return text;
}

}  // namespace

namespace {

// "data f32 [1, 3, 224, 224]".
std::string FormatTensors(const Json& tensors) {
  std::string text;
  for (const Json& tensor : tensors) {
    std::string dims;
    for (const Json& dim : tensor["dims"]) dims += (dims.empty() ? "" : ", ") + dim.dump();
    text += (text.empty() ? "" : "; ") + tensor["name"].get<std::string>() + " " +
            tensor["dtype"].get<std::string>() + " [" + dims + "]";
  }
  return text;
}

// What was measured, once for each model; and what a run costs beside its time.
std::string FormatCosts(const Json& rows) {
  std::string models, costs;
  std::string last;
  for (const Json& row : rows) {
    const std::string model = ModelOfRow(row);
    if (row.contains("identity") && model != last) {
      const Json& identity = row["identity"];
      last = model;
      models += "- " + model;
      if (identity.contains("opset")) models += Format(", opset %d", identity["opset"].get<int>());
      if (identity.contains("file_hash"))
        models += ", file " + identity["file_hash"].get<std::string>();
      models += ": " + FormatTensors(identity["inputs"]) + " to " +
                FormatTensors(identity["outputs"]) + "\n";
    }
    // Cold runs have times, and nothing else of their own.
    const bool is_cold = row.contains("cold_cache") && row.contains("latency");
    if (!row.contains("per_run") && !is_cold) continue;
    std::string joules;
    const Json counted = row.value("per_run", Json::object()).value("joules", Json::object());
    for (const auto& [device, energy] : counted.items()) {
      joules += (joules.empty() ? "" : ", ") + device + " " +
                FormatSignificant(energy.get<double>()) + " J";
    }
    int64_t dispatches = 0, interpreted = 0, transfers = 0;
    for (const Json& device : row["placement"]["devices"]) {
      dispatches += device["dispatches"].get<int64_t>();
      interpreted += device["interpreted"].get<int64_t>();
    }
    for (const Json& transfer : row["placement"]["transfers"])
      transfers += transfer["count"].get<int64_t>();
    const double load = NumberAt(row, "phases", "load");
    const double upload = NumberAt(row, "phases", "load_weights");
    // Weights that a device maps from a file are not moved.
    const double weights = NumberAt(row, "memory", "constant_bytes");
    const bool moves =
        upload > 0 && weights > 0 && NumberAt(row, "memory", "peak_bytes") >= weights;
    costs += "| " + model + " | " + row["device"].get<std::string>() + " | " +
             FormatSeconds(NumberAt(row, "phases", "first_output_cold")) + " | " +
             (row["phases"].contains("first_output_warm")
                  ? FormatSeconds(NumberAt(row, "phases", "first_output_warm"))
                  : std::string("-")) +
             " | " + (load > 0 ? FormatSeconds(load) : "unknown") +
             (moves ? ", weights " + FormatSeconds(upload) +
                          Format(", %.3g GB/s", weights / upload * 1e-9)
                    : "") +
             " | " +
             (row.contains("per_run") ? FormatSeconds(NumberAt(row, "per_run", "cpu_seconds"))
                                      : std::string("-")) +
             " | " + (joules.empty() ? "unknown" : joules) + " | " + FormatErrors(row) + " | " +
             std::to_string(dispatches) + " | " + std::to_string(interpreted) + " | " +
             std::to_string(transfers) + " | " +
             std::to_string(row["placement"]["fallbacks"].size()) + " |\n";
  }
  if (!models.empty()) models = "\nMeasured:\n\n" + models;
  if (costs.empty()) return models;
  return models +
         "\nBeside the time of a run:\n\n"
         "| model | device | first output, cold | first output, from the cache | load, weights "
         "included | CPU time of a run | energy of a run | largest error | dispatches | "
         "interpreted | transfers | fallbacks |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|\n" +
         costs;
}

}  // namespace

std::string FormatMarkdown(const Json& raw) {
  const Json report = Printable(raw);
  const Json& rows = report["rows"];
  // What is wrong is an answer; what could not be measured at all is none.
  const auto is_nothing = [](const Json& row) {
    return row.contains("error") && !row.contains("errors");
  };
  if (std::all_of(rows.begin(), rows.end(), is_nothing)) return "";
  std::string text =
      "| model | device | p50 | 95% interval | p90 | p99 | runs/s | of roof | first run | compile "
      "| warm start | memory | peak |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Json& row : report["rows"]) {
    if (row.contains("error")) {
      text += "| " + ModelOfRow(row) + " | " + row["device"].get<std::string>() + " | " +
              row["error"].get<std::string>() + " | | | | | | | | | | |\n";
      continue;
    }
    const auto time = [&](const char* group, const char* name) {
      const double seconds = NumberAt(row, group, name);
      return seconds > 0 ? FormatSeconds(seconds) : std::string("-");
    };
    const auto bytes = [&](const char* name) {
      return row.contains("memory") && row["memory"].contains(name)
                 ? FormatBytes(row["memory"][name].get<int64_t>())
                 : std::string("-");
    };
    text += "| " + ModelOfRow(row) + " | " + row["device"].get<std::string>() + " | " +
            time("latency", "p50") + " | " +
            (IsFew(row) || NumberAt(row, "latency", "p50_low") <= 0
                 ? "-"
                 : time("latency", "p50_low") + " to " + time("latency", "p50_high")) +
            " | " + time("latency", "p90") + " | " + time("latency", "p99") + " | " +
            (row.contains("throughput") ? FormatSignificant(row["throughput"].get<double>())
                                        : std::string("-")) +
            " | " + FormatRoofShare(row) + " | " + time("phases", "first_run") + " | " +
            time("phases", "compile") + " | " + time("phases", "warm_open") + " | " +
            bytes("total_bytes") + " | " + bytes("peak_bytes") + " |\n";
  }
  if (report.value("is_interrupted", false))
    text += "\nInterrupted: what is not here was not measured.\n";
  for (const Json& row : report["rows"]) {
    if (!row.contains("verdicts") || row["verdicts"].empty()) continue;
    text += "\n" + NameOfRow(row) + ":\n";
    for (const Json& verdict : row["verdicts"]) text += "- " + verdict.get<std::string>() + "\n";
  }
  text +=
      FormatRivals(report["rows"]) + FormatCosts(report["rows"]) + FormatConditions(report["rows"]);
  for (const Json& row : report["rows"])
    text += FormatLoads(row) + FormatMemory(row) + FormatProfile(row);
  return text;
}

std::string FormatCsv(const Json& report) {
  constexpr std::pair<const char*, const char*> kColumns[] = {{"latency", "count"},
                                                              {"latency", "min"},
                                                              {"latency", "p50"},
                                                              {"latency", "p50_low"},
                                                              {"latency", "p50_high"},
                                                              {"latency", "p90"},
                                                              {"latency", "p95"},
                                                              {"latency", "p99"},
                                                              {"latency", "max"},
                                                              {"latency", "mad"},
                                                              {"latency", "cv"},
                                                              {"phases", "compile"},
                                                              {"phases", "warm_open"},
                                                              {"phases", "first_run"},
                                                              {"memory", "total_bytes"},
                                                              {"memory", "peak_bytes"},
                                                              {"concurrent_latency", "p50"},
                                                              {"concurrent_latency", "p99"},
                                                              {"errors", "max_abs_error"},
                                                              {"errors", "max_rel_error"},
                                                              {"errors", "max_scaled_error"}};
  std::string text = "model,device,throughput";
  for (const auto& [group, name] : kColumns) text += std::string(",") + group + "_" + name;
  text += ",error\n";
  for (const Json& row : report["rows"]) {
    const auto quoted = [](const std::string& name) {
      std::string out = "\"";
      for (const char c : EscapeControls(name)) out += c == '"' ? "\"\"" : std::string(1, c);
      return out + "\"";
    };
    text += quoted(ModelOfRow(row)) + "," + quoted(row["device"]) + ",";
    if (row.contains("throughput")) text += Format("%.9g", row["throughput"].get<double>());
    for (const auto& [group, name] : kColumns) {
      text += ",";
      if (row.contains(group) && row[group].contains(name))
        text += Format("%.9g", NumberAt(row, group, name));
    }
    text += "," + (row.contains("error") ? quoted(row["error"]) : std::string()) + "\n";
  }
  return text;
}

Json ParseBenchReport(const std::string& file, const std::string& text) {
  const auto fail = [&](const std::string& why) {
    return CommandError(kBadModel, "file '" + file + "' is no report of halyard bench: " + why);
  };
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw fail("it holds no JSON object");
  if (!json.contains("format") || !json["format"].is_string()) throw fail("it has no 'format'");
  if (json["format"] != kBenchFormat) {
    throw fail("its format is '" + json["format"].get<std::string>() + "'; '" + kBenchFormat +
               "' is needed");
  }
  const auto is_text = [](const Json& row, const char* name) {
    return row.contains(name) && row[name].is_string();
  };
  // A row's name and key are made of these, where they are there.
  const auto check_words = [&](const Json& object) {
    for (const char* name : {"precision", "io_precision"}) {
      if (object.contains(name) && !object[name].is_string())
        throw fail("'" + std::string(name) + "' is no text");
    }
  };
  check_words(json);
  if (!json.contains("rows") || !json["rows"].is_array()) throw fail("it has no rows");
  for (const Json& row : json["rows"]) {
    if (!row.is_object() || !is_text(row, "model") || !is_text(row, "device")) {
      throw fail("a row names no model and device");
    }
    if (row.contains("shapes") && !row["shapes"].is_object()) throw fail("'shapes' names no sizes");
    check_words(row);
    const Json identity = row.value("identity", Json::object());
    if (!identity.is_object()) throw fail("the identity of a row is no object");
    const Json inputs = identity.value("inputs", Json::array());
    if (!inputs.is_array()) throw fail("the inputs of a row are no list");
    for (const Json& input : inputs) {
      if (!input.is_object()) throw fail("an input of a row is no object");
    }
    if (!row.contains("samples")) continue;
    if (!row["samples"].is_array()) throw fail("the samples of a row are no list");
    for (const Json& sample : row["samples"]) {
      if (!sample.is_number()) throw fail("a sample is no number");
      if (sample.get<double>() < 0) throw fail("a sample is a time below 0");
    }
  }
  return json;
}

std::string CompareReports(const Json& before, const Json& after) {
  std::string text;
  // Earlier reports have what narrows inputs and outputs for all rows.
  const auto keyed = [](const Json& report) {
    std::vector<std::pair<std::string, Json>> rows;
    for (Json row : report["rows"]) {
      if (!row.contains("io_precision") && report.contains("io_precision"))
        row["io_precision"] = report["io_precision"];
      std::string key = KeyOfRow(row);
      rows.emplace_back(std::move(key), std::move(row));
    }
    return rows;
  };
  const auto new_rows = keyed(after);
  for (const auto& [old_key, old_row] : keyed(before)) {
    for (const auto& [new_key, new_row] : new_rows) {
      if (old_key != new_key) continue;
      if (!old_row.contains("samples") || !new_row.contains("samples")) continue;
      const auto a = old_row["samples"].get<std::vector<double>>();
      const auto b = new_row["samples"].get<std::vector<double>>();
      if (a.empty() || b.empty()) continue;
      const double old_median = Describe(a).p50, new_median = Describe(b).p50;
      const double chance = ChanceOfDifference(a, b);
      const char* word = chance >= kSignificant    ? "no difference that these samples show"
                         : new_median < old_median ? "faster"
                                                   : "slower";
      text += "| " + EscapeControls(ModelOfRow(new_row)) + " | " +
              EscapeControls(new_row["device"].get<std::string>()) + " | " +
              FormatSeconds(old_median) + " | " + FormatSeconds(new_median) + " | " +
              (old_median > 0 ? Format("%.3f", new_median / old_median) : "-") + " | " + word +
              Format(" (p = %.4f) |\n", chance);
    }
  }
  if (text.empty()) return text;
  return "| model | device | before | after | ratio | |\n|---|---|---|---|---|---|\n" + text;
}

}  // namespace halyard::tools
