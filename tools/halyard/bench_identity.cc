// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_identity.h"

#include <cstdio>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/regular_file.h"

namespace halyard::tools {
namespace {

// The wire form of protocol buffers, as far as it is needed to walk over the fields of one message.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  // False at the end, and where the bytes are no message; is_good tells which.
  bool Next() {
    uint64_t key = 0;
    if (bytes_.empty() || !ReadNumber(&key)) return false;
    number = static_cast<int>(key >> 3);
    text = {};
    switch (key & 7) {
      case 0:
        return ReadNumber(&value);
      case 1:
        return Skip(8);
      case 5:
        return Skip(4);
      case 2: {
        uint64_t size = 0;
        if (!ReadNumber(&size) || size > bytes_.size()) return is_good = false;
        text = bytes_.substr(0, size);
        return Skip(size);
      }
      default:
        return is_good = false;
    }
  }

  int number = 0;
  uint64_t value = 0;
  std::string_view text;
  bool is_good = true;

 private:
  bool ReadNumber(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      *out |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return is_good = false;
  }
  bool Skip(uint64_t size) {
    if (size > bytes_.size()) return is_good = false;
    bytes_.remove_prefix(size);
    return true;
  }
  std::string_view bytes_;
};

Json TensorsJson(const hy::Program& program, hy_io_kind kind, const std::vector<Tensor>& tensors) {
  Json list = Json::array();
  const std::vector<hy_tensor_info> infos = program.Io(kind);
  for (size_t i = 0; i < tensors.size() && i < infos.size(); ++i) {
    list.push_back({{"name", hy::ToString(infos[i].name)},
                    {"dtype", FormatDType(static_cast<DType>(tensors[i].dtype))},
                    {"dims", tensors[i].dims}});
  }
  return list;
}

Json PhasesOf(const hy::Program& program) {
  return Json::parse(program.Report(HY_REPORT_PHASES, HY_FORMAT_JSON));
}

// Nothing of a phase that the program did not go through.
std::optional<double> PhaseSeconds(const hy::Program& program, std::string_view name) {
  const Json report = PhasesOf(program);
  for (const Json& phase : report.value("phases", Json::array())) {
    if (phase.at("phase") == name) return phase.at("seconds");
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> OpsetOf(std::string_view onnx) {
  constexpr int kOpsetImport = 8, kDomain = 1,
                kVersion = 2;  // of ModelProto, of OperatorSetIdProto
  std::optional<int64_t> found;
  Fields model(onnx);
  while (model.Next()) {
    if (model.number != kOpsetImport) continue;
    std::string_view domain;
    int64_t version = 0;
    Fields set(model.text);
    while (set.Next()) {
      if (set.number == kDomain) domain = set.text;
      if (set.number == kVersion) version = static_cast<int64_t>(set.value);
    }
    if (domain.empty() || domain == "ai.onnx") found = version;
  }
  return model.is_good ? found : std::nullopt;
}

Json IdentityJson(const std::string& path, const hy::Program& program,
                  const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  Json json = Json::object();
  if (!path.empty()) {
    const auto bytes = ReadRegularFile(path, SIZE_MAX);
    if (!bytes.ok()) throw CommandError(kBadModel, bytes.status().ToLine());
    char hash[17];
    std::snprintf(hash, sizeof(hash), "%016llx",
                  static_cast<unsigned long long>(HashString(*bytes)));
    json["file_hash"] = hash;
    if (!IsProgramFile(path)) {
      if (const auto opset = OpsetOf(*bytes)) json["opset"] = *opset;
    }
  }
  const Json phases = PhasesOf(program);
  if (phases.contains("cache_key")) json["cache_key"] = phases["cache_key"];
  json["inputs"] = TensorsJson(program, HY_IO_INPUT, inputs);
  json["outputs"] = TensorsJson(program, HY_IO_OUTPUT, outputs);
  return json;
}

RowPlacement PlacementOf(const hy::Program& program) {
  RowPlacement out;
  const Json report = Json::parse(program.Report(HY_REPORT_PLACEMENT, HY_FORMAT_JSON));
  out.json = {{"devices", Json::array()}};
  for (const Json& device : report.at("devices")) {
    out.devices.push_back(device.at("device"));
    Json counts = {{"device", device.at("device")}};
    bool works = false;
    for (const char* work : {"dispatches", "copies", "fills", "interpreted"}) {
      counts[work] = device.at(work);
      works |= device.at(work).get<int64_t>() != 0;
    }
    if (works) out.working.push_back(out.devices.back());
    out.json["devices"].push_back(std::move(counts));
  }
  out.json["transfers"] = report.at("transfers");
  out.json["fallbacks"] = Json::array();
  for (const Json& record : report.at("fallbacks"))
    out.json["fallbacks"].push_back(record.at("text"));
  out.fallbacks = static_cast<int>(report.at("fallbacks").size());
  return out;
}

bool IsFromCache(const hy::Program& program) { return !PhaseSeconds(program, "open compiler"); }

const char* HowOpened(const Model& model) {
  if (model.is_saved) return "loaded";
  return IsFromCache(model.program) ? "loaded from the cache" : "compiled";
}

Json LoadPhases(const hy::Program& program) {
  const auto seconds = [&](const char* phase) { return PhaseSeconds(program, phase).value_or(0); };
  const double code = seconds("load code"), weights = seconds("load weights");
  const double all = code + weights + seconds("load");
  if (all <= 0) return Json::object();
  return {{"load", all}, {"load_code", code}, {"load_weights", weights}};
}

}  // namespace halyard::tools
