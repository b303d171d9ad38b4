// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/escape_controls.h"
#include "base/quantity.h"
#include "tools/halyard/devices.h"
#include "tools/halyard/format.h"

namespace halyard::tools {
namespace {

constexpr double kSameTime = 0.1;  // relative; two runs of a probe seldom agree better

std::string ValueText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Values that change by themselves.
bool IsVolatile(const std::string& field) {
  return field.rfind("state.", 0) == 0 || field == "memory.available_bytes" ||
         field.find(".budget_bytes") != std::string::npos;
}

std::string FormatSize(const Json& reading) {
  const double kilobytes = reading.value("bytes", 0.0) / 1024;
  return kilobytes >= 1024 ? Format("%g MiB", kilobytes / 1024) : Format("%g KiB", kilobytes);
}

// "64 FLOP", "32.8 kFLOP", "231 MFLOP".
std::string FormatOperations(double operations) {
  const char* units[] = {"", "k", "M", "G"};
  size_t at = 0;
  for (; operations >= 1000 && at + 1 < std::size(units); ++at) operations /= 1000;
  return Format("%.3g %sFLOP", operations, units[at]);
}

// `is_shown`: rounded for people, where two readings may have one name; else a key of its own.
std::string ReadingName(const Json& reading, bool is_shown = false) {
  const auto size = [&] {
    return is_shown ? FormatBytes(static_cast<int64_t>(reading.value("bytes", 0.0)))
                    : FormatSize(reading);
  };
  std::string name = reading.at("kind");
  if (reading.contains("from")) {
    name +=
        " " + reading.at("from").get<std::string>() + " -> " + reading.at("to").get<std::string>();
  }
  if (reading.contains("level")) name += " " + reading.at("level").get<std::string>();
  if (reading.contains("class")) {
    name += " " + reading.at("class").get<std::string>() + " " +
            reading.at("dtype").get<std::string>() + ", " +
            (is_shown ? FormatOperations(reading.at("operations"))
                      : Format("%.3g MFLOP", reading.at("operations").get<double>() * 1e-6)) +
            ", " + size();
  } else if (reading.contains("dtype")) {
    name += " " + reading.at("dtype").get<std::string>() + " " + reading.at("size").dump() + "^3 " +
            (reading.at("matrix_units").get<bool>() ? "matrix" : "scalar");
  } else if (reading.contains("bytes")) {
    name += " " + size();
  }
  return name;
}

std::string FormatRate(const Json& reading) {
  if (!reading.contains("rate")) return "";
  const double rate = reading.at("rate");
  if (reading.at("kind") != "matmul") return FormatSignificant(rate * 1e-9) + " GB/s";
  return rate >= 1e12 ? FormatSignificant(rate * 1e-12) + " TFLOP/s"
                      : FormatSignificant(rate * 1e-9) + " GFLOP/s";
}

std::string FormatState(const Json& state) {
  std::string line;
  for (const auto& [name, field] : state.items()) {
    line += (line.empty() ? "" : ", ") + name + " " + ValueText(field.at("value"));
  }
  return line;
}

std::map<std::string, std::string> Names(const Json& report) {
  std::map<std::string, std::string> names;
  for (const Json& device : report.at("devices")) {
    const Json& name = device.at("fields").value("identity.name", Json());
    names[device.at("path")] = name.is_null() ? "unknown" : ValueText(name.at("value"));
  }
  return names;
}

// What a report says, as lines to compare: key to value. Of devices that `others` does not name
// that is the name alone.
std::map<std::string, std::string> Facts(const Json& report,
                                         const std::map<std::string, std::string>& others) {
  std::map<std::string, std::string> facts;
  for (const Json& driver : report.at("drivers")) {
    const std::string reason = ValueText(driver.at("reason"));
    facts["driver " + driver.at("name").get<std::string>()] =
        ValueText(driver.at("status")) + (reason.empty() ? "" : " (" + reason + ")");
  }
  for (const Json& device : report.at("devices")) {
    const std::string path = device.at("path");
    if (others.count(path) == 0) {
      facts["device " + path] = Names(report)[path];
      continue;
    }
    for (const auto& [name, field] : device.at("fields").items()) {
      if (IsVolatile(name)) continue;
      facts[path + " " + name] = field.is_null() ? "unknown" : ValueText(field.at("value"));
    }
    for (const Json& feature : device.at("features")) {
      facts[path + " feature " + feature.get<std::string>()] = "yes";
    }
    for (const Json& format : device.at("executable_formats")) {
      facts[path + " format " + format.get<std::string>()] = "yes";
    }
    if (device.contains("left_out")) facts[path + " left out"] = ValueText(device.at("left_out"));
  }
  if (!report.contains("links")) return facts;
  for (const Json& link : report.at("links")) {
    const std::string from = link.at("from"), to = link.at("to");
    if (others.count(from) > 0 && others.count(to) > 0)
      facts["link " + from + " -> " + to] = DescribeLink(link);
  }
  return facts;
}

std::map<std::string, double> Times(const Json& report) {
  std::map<std::string, double> times;
  if (!report.contains("probes")) return times;
  for (const Json& device : report.at("probes").at("devices")) {
    for (const Json& reading : device.at("readings")) {
      times[device.at("path").get<std::string>() + " " + ReadingName(reading)] =
          reading.at("seconds").at("median");
    }
  }
  return times;
}

}  // namespace

std::string DescribeLink(const Json& link) {
  std::string text = link.at("kind");
  if (link.at("can_copy_direct").get<bool>()) text += ", direct copies";
  if (link.at("can_access_peer").get<bool>()) text += ", peer access";
  if (link.at("is_same_silicon").get<bool>()) text += ", the same silicon";
  return text;
}

Json ParseDevicesReport(const std::string& file, const std::string& text) {
  const auto fail = [&](const std::string& why) {
    return CommandError(kBadModel, "file '" + file + "' is no report of halyard devices: " + why);
  };
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw fail("it holds no JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_string()) throw fail("it has no 'format'");
  if (*format != kDevicesFormat) {
    throw fail("its format is '" + format->get<std::string>() + "'; '" + kDevicesFormat +
               "' is needed");
  }
  // Every part that the comparison reads. A loop over an object would take its values for a list's.
  for (const char* list : {"drivers", "devices"}) {
    if (!json.contains(list)) throw fail(std::string("it has no '") + list + "'");
    if (!json[list].is_array()) throw fail(std::string("its '") + list + "' are no list");
  }
  if (json.contains("links") && !json["links"].is_array()) throw fail("its 'links' are no list");
  try {
    if (Names(json).size() != json["devices"].size()) throw fail("it names a device twice");
    Facts(json, Names(json));
    Times(json);
  } catch (const Json::exception&) {
    // The library's text is about C++ types.
    throw fail("a part of it is missing or of another kind; docs/devices.schema.json has all");
  }
  return json;
}

std::string DiffReports(const Json& a, const Json& b, bool with_fields) {
  std::string text;
  // The reports may come from anywhere.
  const auto add = [&](const std::string& line) { text += EscapeControls(line) + "\n"; };
  const auto before = Facts(a, Names(with_fields ? a : b)),
             after = Facts(b, Names(with_fields ? b : a));
  for (const auto& [key, value] : before) {
    const auto other = after.find(key);
    if (other == after.end()) {
      add("- " + key + " = " + value);
    } else if (other->second != value) {
      add("  " + key + ": " + value + " -> " + other->second);
    }
  }
  for (const auto& [key, value] : after) {
    if (before.find(key) == before.end()) add("+ " + key + " = " + value);
  }
  const auto old_times = Times(a), new_times = Times(b);
  for (const auto& [key, seconds] : old_times) {
    const auto other = new_times.find(key);
    if (other == new_times.end() || seconds <= 0) continue;
    const double ratio = other->second / seconds;
    if (std::abs(ratio - 1) < kSameTime) continue;
    add("  " + key +
        Format(": %.2f us -> %.2f us (x %.2f)", seconds * 1e6, other->second * 1e6, ratio));
  }
  return text;
}

namespace {

// "copies 0.9 s, classes 3.1 s (1.2 s of it making kernels)"; what takes a moment is left out.
std::string FormatParts(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    const double seconds = part.at("seconds"), making = part.at("making_seconds");
    if (seconds < 0.05) continue;
    text += (text.empty() ? "" : ", ") + part.at("part").get<std::string>() +
            Format(" %.1f s", seconds);
    if (making >= 0.05) text += Format(" (%.1f s of it making kernels)", making);
  }
  return text;
}

}  // namespace

std::string FormatProbes(const Json& probes) {
  std::string text;
  for (const Json& device : probes.at("devices")) {
    text += Format("%s: %s; probed in %.1f s%s\n", device.at("path").get<std::string>().c_str(),
                   device.at("name").get<std::string>().c_str(), device.at("seconds").get<double>(),
                   device.at("is_complete").get<bool>() ? "" : ", cut short");
    std::string lacks;
    for (const Json& part : device.value("lacks", Json::array())) {
      lacks += (lacks.empty() ? "" : ", ") + part.get<std::string>();
    }
    if (!lacks.empty()) text += "  lacks: " + lacks + "\n";
    const std::string parts = FormatParts(device.value("parts", Json::array()));
    if (!parts.empty()) text += "  took: " + parts + "\n";
    for (const char* when : {"before", "after"}) {
      const std::string state = FormatState(device.at(when));
      if (!state.empty()) text += std::string("  ") + when + ": " + state + "\n";
    }
    size_t width = 0;
    for (const Json& reading : device.at("readings"))
      width = std::max(width, ReadingName(reading, true).size());
    const auto line = [&](const std::string& what, const std::string& median,
                          const std::string& mad, const std::string& count,
                          const std::string& rate) {
      std::string out = "  " + what + std::string(width - std::min(width, what.size()), ' ');
      out += Format(" %9s %8s %5s", median.c_str(), mad.c_str(), count.c_str());
      return out + (rate.empty() ? "" : "  " + rate) + "\n";
    };
    text += line("what", "median", "MAD", "n", "rate");
    for (const Json& reading : device.at("readings")) {
      const Json& seconds = reading.at("seconds");
      const double median = seconds.at("median"), mad = seconds.at("mad");
      std::string rate = FormatRate(reading);
      if (!reading.value("is_verified", true)) rate += " (not verified)";
      if (reading.contains("clock_hz")) {
        rate += (rate.empty() ? "" : " ") +
                Format("at %.0f MHz", reading.at("clock_hz").get<double>() * 1e-6);
      }
      text += line(ReadingName(reading, true), FormatSeconds(median),
                   Format("%.1f %%", median > 0 ? mad / median * 100 : 0),
                   std::to_string(seconds.at("count").get<long long>()), rate);
    }
    for (const Json& note : device.at("notes")) {
      text += "  note on " + device.at("path").get<std::string>() + ": " + note.get<std::string>() +
              "\n";
    }
  }
  return text;
}

}  // namespace halyard::tools
