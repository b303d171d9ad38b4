// SPDX-License-Identifier: Apache-2.0
// The common part of the sub-commands.
#include "tools/halyard/command.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace halyard::tools {

ExitStatus StatusOf(hy_result result) {
  switch (result) {
    case HY_OK:
      return kDone;
    case HY_INVALID_ARGUMENT:
    case HY_NOT_FOUND:
    case HY_OUT_OF_RANGE:
    case HY_UNIMPLEMENTED:
    case HY_DATA_LOSS:
    case HY_INCOMPATIBLE:
      return kBadModel;
    default:
      return kSystemFailure;
  }
}

hy::Error WithFile(const hy::Error& error, const std::string& file) {
  const std::string head = file + ": ", message = error.what();
  return hy::Error(error.code(), message.starts_with(head) ? message : head + message);
}

void AddModelOptions(CLI::App& app, ModelOptions& options) {
  app.add_option("MODEL", options.model, "An ONNX file, or a program written by `halyard compile`")
      ->required();
  app.add_option("--device", options.device,
                 "Devices that placement may choose from, such as cpu or cpu:0,cuda; auto: all");
  app.add_option("--shape", options.shapes, "SYMBOL=N: the value of a named size")
      ->allow_extra_args(false);
  app.add_flag("--no-fallback", options.no_fallback,
               "A missing device or an unsupported op is an error instead of a reported fallback");
  app.add_flag("--no-tune", options.no_tune, "Choose schedules by the model only; time nothing");
  app.add_flag("--no-cache", options.no_cache, "Neither read nor write the cache folder");
  app.add_option(
         "--precision", options.precision,
         "fp16: f32 weights and activations in 16 bits, sums, softmax and statistics in f32")
      ->check(CLI::IsMember({"as-given", "fp16"}));
  app.add_flag("--json", options.json, "Write JSON");
}

std::map<std::string, int64_t> ParseShapes(const std::vector<std::string>& shapes) {
  std::map<std::string, int64_t> out;
  for (const std::string& text : shapes) {
    const size_t equals = text.rfind('=');
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const bool is_good = equals != std::string::npos && equals > 0 && equals + 1 < text.size() &&
                         std::from_chars(text.data() + equals + 1, end, value).ptr == end &&
                         value >= 0;
    if (!is_good) throw CommandError(kWrongUsage, "--shape '" + text + "' is not SYMBOL=N");
    if (!out.emplace(text.substr(0, equals), value).second) {
      throw CommandError(kWrongUsage, "--shape gives '" + text.substr(0, equals) + "' twice");
    }
  }
  return out;
}

hy::Instance MakeInstance(bool no_fallback, bool no_cache) {
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.log = [](void*, hy_log_level, hy_string message) {
    std::fprintf(stderr, "halyard: %.*s\n", static_cast<int>(message.size), message.data);
  };
  if (no_fallback) {
    desc.on_missing_device = HY_POLICY_ERROR;
    desc.on_unsupported_op = HY_POLICY_ERROR;
  }
  if (no_cache) desc.cache_folder = HY_STRING("off");
  return hy::Instance::Create(&desc);
}

namespace {

bool IsProgramFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[8] = {};
  file.read(magic, sizeof(magic));
  return file.gcount() == sizeof(magic) && std::memcmp(magic, "HALYPROG", sizeof(magic)) == 0;
}

// The devices of the list. Without --no-fallback those that are missing are reported and left out.
std::vector<hy::Device> OpenDevices(const hy::Instance& instance, const ModelOptions& options) {
  std::vector<hy::Device> devices;
  if (options.device == "auto") return devices;  // the library takes all
  std::string missing;
  for (size_t at = 0; at <= options.device.size();) {
    const size_t comma = std::min(options.device.find(',', at), options.device.size());
    const std::string path = options.device.substr(at, comma - at);
    at = comma + 1;
    try {
      devices.push_back(instance.Open(path));
    } catch (const hy::Error& error) {
      const bool is_missing = error.code() == HY_NOT_FOUND || error.code() == HY_UNAVAILABLE;
      if (!is_missing) throw CommandError(kWrongUsage, "--device " + path + ": " + error.what());
      if (options.no_fallback)
        throw CommandError(kSystemFailure, "device " + path + ": " + error.what());
      std::fprintf(stderr, "halyard: device '%s' is left out: %s\n", path.c_str(), error.what());
    }
  }
  if (devices.empty()) devices.push_back(instance.Open("cpu:0"));
  return devices;
}

}  // namespace

Model OpenModel(const ModelOptions& options, bool fix_shapes) {
  Model model;
  model.instance = MakeInstance(options.no_fallback, options.no_cache);
  model.devices = OpenDevices(model.instance, options);
  std::vector<hy_device_t*> devices;
  for (const hy::Device& device : model.devices) devices.push_back(device.get());
  const std::map<std::string, int64_t> shapes = ParseShapes(options.shapes);
  try {
    if (IsProgramFile(options.model)) {
      hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
      desc.path = hy::View(options.model);
      desc.devices = devices.data();
      desc.device_count = devices.size();
      model.program = hy::Program::Load(model.instance, desc);
      model.is_saved = true;
    } else {
      hy_compile_desc desc = HY_COMPILE_DESC_INIT;
      desc.onnx_path = hy::View(options.model);
      desc.devices = devices.data();
      desc.device_count = devices.size();
      desc.disable_tuning = options.no_tune ? 1 : 0;
      desc.disable_cache = options.no_cache ? 1 : 0;
      desc.precision = options.precision == "fp16" ? HY_PRECISION_F16 : HY_PRECISION_AS_GIVEN;
      std::vector<hy_symbol_value> symbols;
      for (const auto& [name, value] : shapes) symbols.push_back({hy::View(name), value});
      if (fix_shapes) {
        desc.symbols = symbols.data();
        desc.symbol_count = symbols.size();
      }
      model.program = hy::Program::Compile(model.instance, desc);
    }
  } catch (const hy::Error& error) {
    throw WithFile(error, options.model);
  }
  return model;
}

}  // namespace halyard::tools
