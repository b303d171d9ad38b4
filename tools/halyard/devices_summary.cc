// SPDX-License-Identifier: Apache-2.0
// The table at the top of `halyard devices`: a line for each device, with what it reaches where a
// probe is stored, and otherwise with what its vendor promises.
#include <algorithm>
#include <vector>

#include "base/quantity.h"
#include "tools/halyard/devices.h"
#include "tools/halyard/format.h"
#include "tools/halyard/roofline.h"

namespace halyard::tools {
namespace {

// Of one field; null where it is unknown.
Json ValueOf(const Json& fields, const std::string& name) {
  const Json field = fields.value(name, Json());
  return field.is_null() ? field : field.at("value");
}

std::string TextOf(const Json& fields, const std::string& name) {
  const Json value = ValueOf(fields, name);
  return value.is_string() ? value.get<std::string>() : "unknown";
}

// A rate in 10^12 or 10^9 of a unit, with where it comes from.
std::string RateText(double rate, const char* unit, const std::string& source) {
  if (rate <= 0) return "unknown";
  const bool is_tera = rate >= 1e12;
  return FormatSignificant(rate * (is_tera ? 1e-12 : 1e-9)) + (is_tera ? " T" : " G") + unit +
         " (" + source + ")";
}

std::string PeakText(const Json& fields, const std::string& name, const char* unit) {
  const Json field = fields.value(name, Json());
  if (field.is_null()) return "unknown";
  return RateText(field.at("value"), unit, field.at("source"));
}

// Of the fastest of 16-bit types: by the probe, or by the matrix units' clocks.
std::string Products16Text(const Json& fields, const Roofs& roofs) {
  double measured = 0;
  for (const char* dtype : {"f16", "bf16"}) {
    const auto found = roofs.product_flops.find(dtype);
    if (found != roofs.product_flops.end()) measured = std::max(measured, found->second);
  }
  if (measured > 0) return RateText(measured, "FLOP/s", "measured");
  for (size_t i = 0;; ++i) {
    const std::string at = "dtypes[" + std::to_string(i) + "].";
    const Json dtype = ValueOf(fields, at + "dtype");
    if (dtype.is_null()) return "unknown";
    if ((dtype == "f16" || dtype == "bf16") &&
        !fields.value(at + "peak_matrix_ops_per_s", Json()).is_null())
      return PeakText(fields, at + "peak_matrix_ops_per_s", "FLOP/s");
  }
}

std::vector<std::string> SummaryOf(const Json& device, const Json& probes) {
  const Json& fields = device.at("fields");
  const std::string path = device.at("path");
  const Roofs roofs = ReadRoofs(probes, path);
  const auto f32 = roofs.product_flops.find("f32");
  const bool has_memory = !roofs.levels.empty() && roofs.levels.back().name == "memory";
  const Json memory = ValueOf(fields, "memory.total_bytes");
  const Json units = ValueOf(fields, "compute.unit_count");
  return {path,
          TextOf(fields, "identity.name"),
          TextOf(fields, "identity.driver_version"),
          units.is_null() ? "unknown" : units.dump(),
          memory.is_null() ? "unknown" : FormatBytes(memory),
          has_memory ? RateText(roofs.levels.back().bytes_per_s, "B/s", "measured")
                     : PeakText(fields, "memory.peak_bytes_per_s", "B/s"),
          f32 != roofs.product_flops.end() ? RateText(f32->second, "FLOP/s", "measured")
                                           : PeakText(fields, "compute.peak_f32_flops", "FLOP/s"),
          Products16Text(fields, roofs)};
}

}  // namespace

std::string FormatSummary(const Json& report, const Json& probes) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "name", "driver", "units", "memory", "its bandwidth", "f32", "16-bit products"}};
  for (const Json& device : report.at("devices")) rows.push_back(SummaryOf(device, probes));
  if (rows.size() == 1) return {};
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      text += i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 2, ' ') : "\n";
    }
  }
  return text;
}

}  // namespace halyard::tools
