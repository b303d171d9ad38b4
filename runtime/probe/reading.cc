// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/reading.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace halyard::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = size_t{4} << 20;
constexpr const char* kFormat = "halyard-probes-6";
constexpr double kMostSeconds = 3600;  // of one sample; no reading takes as long
constexpr const char* kKindNames[] = {"copy",     "read",        "stream",      "triad",
                                      "matmul",   "kernel",      "dispatch",    "submit",
                                      "replay",   "wait",        "first-touch", "later-touch",
                                      "crossing", "interpreted", "cold-kernel"};
constexpr std::pair<ProbePart, const char*> kPartNames[] = {
    {kLatencies, "latencies"}, {kCopies, "copies"},   {kCrossings, "crossings"},
    {kBandwidth, "bandwidth"}, {kClasses, "classes"}, {kProducts, "products"}};

double MedianOf(std::vector<double>& values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  if (values.size() % 2 == 1) return values[middle];
  const double upper = values[middle];
  return (upper +
          *std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle))) /
         2;
}

bool IsKernel(ReadingKind kind) {
  return kind == ReadingKind::kKernel || kind == ReadingKind::kColdKernel;
}

// --- Writing

template <typename T>
Json ToJson(const T& value) {
  return value;
}

Json ToJson(const hal::DeviceState& state) {
  Json json = Json::object();
#define HY_WRITE(type, name, doc) \
  if (state.name.known())         \
    json[#name] = {{"value", state.name.value}, {"source", hal::FormatSource(state.name.source)}};
  HY_STATE_FIELDS(HY_WRITE)
#undef HY_WRITE
  return json;
}

Json ToJson(const Reading& reading) {
  Json json;
  json["kind"] = FormatReadingKind(reading.kind);
  const auto set_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) json[name] = text;
  };
  set_text("from", reading.from);
  set_text("to", reading.to);
  set_text("level", reading.level);
  set_text("class", reading.op_class);
  set_text("dtype", reading.dtype);
  if (reading.kind == ReadingKind::kMatmul) {
    json["matrix_units"] = reading.matrix_units;
    json["size"] = reading.size;
    json["operations"] = reading.operations;
  }
  if (reading.kind == ReadingKind::kInterpreted) json["operations"] = reading.operations;
  if (IsKernel(reading.kind)) {
    json["operations"] = reading.operations;
    json["results"] = reading.results;
    if (reading.rows > 0) json["rows"] = reading.rows;
    if (reading.columns > 0) json["columns"] = reading.columns;
  }
  if (reading.bytes > 0) json["bytes"] = reading.bytes;
  json["seconds"] = {{"median", reading.seconds.median},
                     {"mad", reading.seconds.mad},
                     {"best", reading.seconds.best},
                     {"count", reading.seconds.count}};
  if (reading.Rate() > 0) json["rate"] = reading.Rate();
  if (reading.kind == ReadingKind::kCopy) json["is_verified"] = reading.is_verified;
  if (reading.clock_hz > 0) json["clock_hz"] = reading.clock_hz;
  return json;
}

// --- Reading. Each takes what has the right type and range, and fails otherwise.

class Reader {
 public:
  const Status& status() const { return status_; }

  double Real(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return 0;
    if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < 0) {
      Fail(fmt::format("'{}' is no number from 0.", name));
      return 0;
    }
    return found->get<double>();
  }
  int64_t Integer(const Json& object, const char* name) {
    const double value = Real(object, name);
    if (value > 9e18) Fail(fmt::format("'{}' is larger than 9e18.", name));
    return value > 9e18 ? 0 : static_cast<int64_t>(value);
  }
  std::string Text(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return "";
    if (found->is_string()) return found->get<std::string>();
    Fail(fmt::format("'{}' is no text.", name));
    return "";
  }
  bool Flag(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end()) return false;
    if (found->is_boolean()) return found->get<bool>();
    Fail(fmt::format("'{}' is neither true nor false.", name));
    return false;
  }
  const Json& List(const Json& object, const char* name) {
    static const Json empty = Json::array();
    const auto found = object.find(name);
    if (found != object.end() && found->is_array()) return *found;
    Fail(fmt::format("'{}' is no list.", name));
    return empty;
  }
  void Fail(const std::string& what) {
    if (status_.ok()) status_ = DataLoss("A probe report is damaged: {}", what);
  }

  void ReadValue(const Json& object, hal::Field<int64_t>* out) {
    *out = {Integer(object, "value"), hal::Source::kMeasured};
  }
  void ReadValue(const Json& object, hal::Field<double>* out) {
    *out = {Real(object, "value"), hal::Source::kMeasured};
  }
  void ReadValue(const Json& object, hal::Field<std::string>* out) {
    *out = {Text(object, "value"), hal::Source::kMeasured};
  }

 private:
  Status status_;
};

hal::Source ParseSource(const std::string& text) {
  for (const hal::Source source : {hal::Source::kApi, hal::Source::kOs, hal::Source::kTable}) {
    if (text == hal::FormatSource(source)) return source;
  }
  return hal::Source::kMeasured;
}

hal::DeviceState ReadState(Reader& reader, const Json& device, const char* name) {
  hal::DeviceState state;
  const auto found = device.find(name);
  if (found == device.end() || !found->is_object()) return state;
#define HY_READ(type, field, doc)                                                   \
  if (const auto at = found->find(#field); at != found->end() && at->is_object()) { \
    reader.ReadValue(*at, &state.field);                                            \
    state.field.source = ParseSource(reader.Text(*at, "source"));                   \
  }
  HY_STATE_FIELDS(HY_READ)
#undef HY_READ
  return state;
}

Reading ReadReading(Reader& reader, const Json& json, const std::string& device) {
  Reading out;
  out.device = device;
  if (!json.is_object()) {
    reader.Fail("a reading is no object.");
    return out;
  }
  const std::string kind = reader.Text(json, "kind");
  const auto* name = std::find(std::begin(kKindNames), std::end(kKindNames), kind);
  if (name == std::end(kKindNames)) {
    reader.Fail(fmt::format("there is no reading of kind '{}'.", kind));
    return out;
  }
  out.kind = static_cast<ReadingKind>(name - std::begin(kKindNames));
  out.from = reader.Text(json, "from");
  out.to = reader.Text(json, "to");
  out.level = reader.Text(json, "level");
  out.op_class = reader.Text(json, "class");
  out.dtype = reader.Text(json, "dtype");
  out.matrix_units = reader.Flag(json, "matrix_units");
  out.size = reader.Integer(json, "size");
  out.operations = reader.Real(json, "operations");
  out.results = reader.Integer(json, "results");
  out.rows = reader.Integer(json, "rows");
  out.columns = reader.Integer(json, "columns");
  out.bytes = reader.Integer(json, "bytes");
  out.is_verified = reader.Flag(json, "is_verified");
  out.clock_hz = reader.Integer(json, "clock_hz");
  const auto seconds = json.find("seconds");
  if (seconds == json.end() || !seconds->is_object()) {
    reader.Fail("a reading has no seconds.");
    return out;
  }
  out.seconds = {reader.Real(*seconds, "median"), reader.Real(*seconds, "mad"),
                 reader.Real(*seconds, "best"), reader.Integer(*seconds, "count")};
  if (out.seconds.count < 1) reader.Fail("a reading has no samples.");
  if (!out.IsPlausible()) reader.Fail(fmt::format("a reading of kind '{}' took no time.", kind));
  if (out.seconds.median > kMostSeconds)
    reader.Fail(fmt::format("a reading of kind '{}' took {:g} s.", kind, out.seconds.median));
  return out;
}

uint32_t ReadPart(Reader& reader, const Json& json) {
  for (const auto& [part, name] : kPartNames) {
    if (json == name) return part;
  }
  reader.Fail("'lacks' names what is no part.");
  return kAllParts;
}

std::string FormatBytes(int64_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:g} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:g} KiB", static_cast<double>(bytes) / (1 << 10));
}

}  // namespace

std::string_view FormatReadingKind(ReadingKind kind) { return kKindNames[static_cast<int>(kind)]; }

std::string FormatParts(uint32_t parts) {
  std::vector<std::string_view> names;
  for (const auto& [part, name] : kPartNames) {
    if ((parts & part) != 0) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Spread Summarize(std::vector<double> samples) {
  Spread out;
  out.count = static_cast<int64_t>(samples.size());
  if (samples.empty()) return out;
  out.best = *std::min_element(samples.begin(), samples.end());
  out.median = MedianOf(samples);
  for (double& sample : samples) sample = std::abs(sample - out.median);
  out.mad = MedianOf(samples);
  return out;
}

double Reading::Rate() const {
  const bool has_rate =
      !IsKernel(kind) && kind != ReadingKind::kCrossing && kind != ReadingKind::kInterpreted;
  if (seconds.median <= 0 || !has_rate) return 0;
  return (kind == ReadingKind::kMatmul ? operations : static_cast<double>(bytes)) / seconds.median;
}

bool Reading::IsPlausible() const {
  const bool is_difference = kind == ReadingKind::kDispatch || kind == ReadingKind::kWait;
  return seconds.median > 0 || is_difference;
}

const DeviceProbe* ProbeReport::Find(std::string_view path, std::string_view identity) const {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceProbe& probe) {
    return probe.path == path && probe.identity == identity;
  });
  return found == devices.end() ? nullptr : &*found;
}

std::string FormatProbeReport(const ProbeReport& report) {
  Json json;
  json["format"] = kFormat;
  json["snapshot"] = report.snapshot;
  json["unix_seconds"] = report.unix_seconds;
  json["devices"] = Json::array();
  for (const DeviceProbe& probe : report.devices) {
    Json device;
    device["path"] = probe.path;
    device["name"] = probe.name;
    device["identity"] = probe.identity;
    if (probe.is_first_use) device["is_first_use"] = true;
    device["is_complete"] = probe.is_complete;
    device["lacks"] = Json::array();
    for (const auto& [part, name] : kPartNames) {
      if ((probe.lacks & part) != 0) device["lacks"].push_back(name);
    }
    device["seconds"] = probe.seconds;
    device["parts"] = Json::array();
    for (const PartTime& time : probe.part_times) {
      device["parts"].push_back({{"part", FormatParts(time.part)},
                                 {"seconds", time.seconds},
                                 {"making_seconds", time.making_seconds}});
    }
    device["before"] = ToJson(probe.before);
    device["after"] = ToJson(probe.after);
    device["notes"] = probe.notes;
    device["readings"] = Json::array();
    for (const Reading& reading : probe.readings) device["readings"].push_back(ToJson(reading));
    json["devices"].push_back(std::move(device));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<ProbeReport> ParseProbeReport(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return DataLoss("A probe report has {} bytes; {} are allowed.", text.size(), kMaxTextBytes);
  }
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return DataLoss("A probe report is no JSON object.");
  Reader reader;
  const std::string format = reader.Text(json, "format");
  if (format != kFormat) {
    return DataLoss("A probe report is of format '{}'; '{}' is needed.", format, kFormat);
  }
  ProbeReport out;
  out.snapshot = static_cast<uint64_t>(reader.Integer(json, "snapshot"));
  out.unix_seconds = reader.Integer(json, "unix_seconds");
  for (const Json& device : reader.List(json, "devices")) {
    if (!device.is_object()) {
      reader.Fail("a device is no object.");
      break;
    }
    DeviceProbe& probe = out.devices.emplace_back();
    probe.path = reader.Text(device, "path");
    probe.name = reader.Text(device, "name");
    probe.identity = reader.Text(device, "identity");
    probe.is_first_use = reader.Flag(device, "is_first_use");
    probe.is_complete = reader.Flag(device, "is_complete");
    // Reports without the list call those complete that the time ended.
    if (device.contains("lacks")) {
      probe.lacks = 0;
      for (const Json& name : reader.List(device, "lacks")) probe.lacks |= ReadPart(reader, name);
    } else {
      probe.is_complete = false;
    }
    probe.seconds = reader.Real(device, "seconds");
    if (device.contains("parts")) {  // reports of before have none
      for (const Json& part : reader.List(device, "parts")) {
        if (!part.is_object()) {
          reader.Fail("a part is no object.");
          break;
        }
        probe.part_times.push_back(
            {static_cast<ProbePart>(ReadPart(reader, part.value("part", Json()))),
             reader.Real(part, "seconds"), reader.Real(part, "making_seconds")});
      }
    }
    probe.before = ReadState(reader, device, "before");
    probe.after = ReadState(reader, device, "after");
    for (const Json& note : reader.List(device, "notes")) {
      if (note.is_string()) probe.notes.push_back(note.get<std::string>());
    }
    for (const Json& reading : reader.List(device, "readings")) {
      probe.readings.push_back(ReadReading(reader, reading, probe.path));
    }
  }
  HY_TRY(reader.status());
  return out;
}

std::string TabulateProbe(const DeviceProbe& probe) {
  std::string text = fmt::format("{}: {}; {:.1f} s{}\n", probe.path, probe.name, probe.seconds,
                                 probe.is_complete ? "" : "; cut short");
  if (probe.lacks != 0) text += fmt::format("  lacks: {}\n", FormatParts(probe.lacks));
  const auto state = [&](const char* when, const hal::DeviceState& at) {
    std::string line;
    hal::VisitFields(at, [&](const hal::FieldView& field) {
      if (field.source == hal::Source::kUnknown) return;
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", field.name.substr(6), field.text);
    });
    if (!line.empty()) text += fmt::format("  {}: {}\n", when, line);
  };
  state("before", probe.before);
  state("after", probe.after);
  text += fmt::format("  {:<44} {:>12} {:>8} {:>5}  {}\n", "what", "median", "MAD", "n", "rate");
  for (const Reading& r : probe.readings) {
    std::string what(FormatReadingKind(r.kind));
    if (r.kind == ReadingKind::kCopy || r.kind == ReadingKind::kCrossing)
      what += fmt::format(" {} -> {}", r.from, r.to);
    if (!r.level.empty()) what += " " + r.level;
    if (IsKernel(r.kind) || r.kind == ReadingKind::kInterpreted) {
      what += fmt::format(" {} {}, {:.3g} MFLOP, {}", r.op_class, r.dtype, r.operations * 1e-6,
                          FormatBytes(r.bytes));
    } else if (r.kind == ReadingKind::kMatmul) {
      what += fmt::format(" {} {}^3 {}", r.dtype, r.size, r.matrix_units ? "matrix" : "scalar");
    } else if (r.bytes > 0) {
      what += " " + FormatBytes(r.bytes);
    }
    std::string rate;
    if (r.kind == ReadingKind::kMatmul) {
      rate = fmt::format("{:.2f} TFLOP/s", r.Rate() * 1e-12);
    } else if (r.Rate() > 0) {
      rate = fmt::format("{:.2f} GB/s", r.Rate() * 1e-9);
    }
    if (r.kind == ReadingKind::kCopy && !r.is_verified) rate += " (not verified)";
    const double mad = r.seconds.median > 0 ? r.seconds.mad / r.seconds.median * 100 : 0;
    text += fmt::format("  {:<44} {:>9.2f} us {:>6.1f} % {:>5}  {}\n", what, r.seconds.median * 1e6,
                        mad, r.seconds.count, rate);
  }
  for (const std::string& note : probe.notes)
    text += "  note on " + probe.path + ": " + note + "\n";
  return text;
}

}  // namespace halyard::runtime
