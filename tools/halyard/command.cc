// SPDX-License-Identifier: Apache-2.0
// The common part of the sub-commands.
#include "tools/halyard/command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>

#include "base/escape_controls.h"
#include "base/excerpt.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "compiler/expr/largest_symbol.h"
#include "tools/halyard/progress_line.h"

namespace halyard::tools {

void PrintError(const std::string& message) {
  EraseProgress();
  std::fprintf(stderr, "halyard: error: %s\n", EscapeControls(message).c_str());
}

void PrintWarning(const std::string& message) {
  EraseProgress();
  std::fprintf(stderr, "halyard: warning: %s\n", EscapeControls(message).c_str());
}

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
  const bool names_it =
      message.starts_with(head) || message.find("file '" + file + "'") != message.npos;
  return hy::Error(error.code(), names_it ? message : head + message);
}

void AddVendorLibsOption(CLI::App& app, ModelOptions& options) {
  options.for_models.push_back(app.add_flag_function(
      "!--no-vendor-libs,--vendor-libs",
      [&options](int64_t count) {
        options.vendor_libs = count > 0 ? HY_VENDOR_LIBRARIES_RACE : HY_VENDOR_LIBRARIES_OFF;
      },
      "Whether cuBLASLt's products and cuDNN's convolutions race against generated kernels on "
      "CUDA devices (yes)"));
}

void AddIoPrecisionOption(CLI::App& app, ModelOptions& options) {
  options.for_models.push_back(
      app.add_option("--io-precision", options.io_precision,
                     "fp16: f32 inputs and outputs are f16; f32 files of inputs are rounded")
          ->check(IsOneOf({"as-given", "fp16"}))
          ->capture_default_str());
}

void AddModelOptions(CLI::App& app, ModelOptions& options) {
  app.add_option("MODEL", options.model, "An ONNX file, or a program written by `halyard compile`")
      ->required();
  app.add_option(
      "--device", options.device,
      "Devices that placement may choose from, such as cpu or cpu:0,cuda; auto: the CPU and all "
      "GPUs; of a program file those that it was compiled for");
  app.add_option("--shape", options.shapes,
                 "The value of a named size of the inputs; open sizes that no input gives are 1 or "
                 "the least that the model takes")
      ->type_name("SYMBOL=N")
      ->allow_extra_args(false);
  app.add_flag("--no-fallback", options.no_fallback,
               "A missing device or an unsupported op is an error instead of a reported fallback");
  const auto for_models = [&](CLI::Option* option) {
    options.for_models.push_back(option);
    return option;
  };
  for_models(app.add_flag("--no-tune", options.no_tune,
                          "Choose schedules by the model of costs only; time nothing"));
  for_models(app.add_flag("--no-cache", options.no_cache,
                          "Neither read nor write the cache folder (HALYARD_CACHE_DIR)"));
  AddVendorLibsOption(app, options);
  for_models(app.add_option("--precision", options.precision,
                            "fp16: f32 weights and activations in 16 bits; sums, softmax and "
                            "statistics in f32"))
      ->check(IsOneOf({"as-given", "fp16"}))
      ->capture_default_str();
  AddIoPrecisionOption(app, options);
  for_models(app.add_option("--affinity", options.affinities,
                            "Nodes whose names match PATTERN run on DEVICE (op:NAME matches ops); "
                            "also PATTERN=prefer:DEVICE and PATTERN=forbid:DEVICE"))
      ->type_name("PATTERN=DEVICE")
      ->allow_extra_args(false);
  for_models(app.add_option("--memory-cap", options.memory_caps,
                            "What the program may take on DEVICE: bytes, or a number with KB, MB, "
                            "GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024; K, M, "
                            "G, T mean these)"))
      ->type_name("DEVICE=SIZE")
      ->allow_extra_args(false);
  for_models(app.add_flag(
      "--verify-plan", options.verify_plan,
      "Time a plan over several devices against the best single one; keep the faster"));
  for_models(
      app.add_flag("--replan", options.replan, "Place anew, even where the cache has a program"));
  for_models(
      app.add_flag("--no-first-probe", options.no_first_probe,
                   "Do not measure devices that nobody measured before several share a model"));
  app.add_option(
         "--on-missing-device", options.on_missing_device,
         "A device is not there or was lost: error, fallback, or warn (fallback with a line)")
      ->check(IsOneOf({"error", "fallback", "warn"}))
      ->capture_default_str();
  for_models(app.add_option("--on-unsupported-op", options.on_unsupported_op,
                            "No device of the list runs an op: error, fallback, or warn"))
      ->check(IsOneOf({"error", "fallback", "warn"}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write JSON");
}

namespace {

std::vector<std::string> typed_words;

}  // namespace

void KeepArguments(int argc, char** argv) {
  typed_words.assign(argv + 1, argv + std::max(argc, 1));
}

std::string NameTyped(const CLI::Option& option) {
  std::string name = option.get_name();
  for (const std::string& word : typed_words) {
    if (word == "--") break;
    for (const std::string& one : option.get_lnames()) {
      if (word == "--" + one || word.starts_with("--" + one + "=")) name = "--" + one;
    }
    for (const std::string& one : option.get_snames()) {
      if (word.starts_with("-" + one)) name = "-" + one;
    }
  }
  return name;
}

void RefuseOthers(const CLI::App& command, const std::string& option, const std::string& does,
                  const std::string& but) {
  std::string given;
  for (const CLI::Option* one : command.get_options()) {
    if (one->count() == 0 || one->get_name() == option || one->get_name() == but) continue;
    given += (given.empty() ? "" : ", ") + NameTyped(*one);
  }
  if (!given.empty())
    throw CommandError(kWrongUsage, option + " " + does + "; it takes no " + given);
}

size_t FindEqualsBeforeDevice(const std::string& text) {
  const size_t last = text.rfind('=');
  const size_t mark = last == text.npos ? text.npos : text.rfind('?', last);
  const size_t before = mark == text.npos ? text.npos : text.rfind('=', mark);
  if (before == text.npos) return last;
  const size_t colon = text.rfind(':', mark);
  const bool has_number = colon != text.npos && colon > before && colon + 1 < mark &&
                          text.find_first_not_of("0123456789", colon + 1) == mark;
  return has_number ? before : last;
}

Affinity ParseAffinity(const std::string& text) {
  const size_t equals = FindEqualsBeforeDevice(text);
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw CommandError(kWrongUsage, "--affinity '" + text + "' is not PATTERN=DEVICE");
  }
  Affinity affinity{text.substr(0, equals), text.substr(equals + 1)};
  static constexpr std::pair<std::string_view, hy_affinity_kind> kKinds[] = {
      {"require:", HY_AFFINITY_REQUIRE},
      {"prefer:", HY_AFFINITY_PREFER},
      {"forbid:", HY_AFFINITY_FORBID}};
  for (const auto& [prefix, kind] : kKinds) {
    if (!affinity.device.starts_with(prefix)) continue;
    affinity.device.erase(0, prefix.size());
    affinity.kind = kind;
    break;
  }
  if (affinity.device.empty()) {
    throw CommandError(kWrongUsage, "--affinity '" + text + "' names no device");
  }
  if (affinity.device.find(',') != std::string::npos) {
    throw CommandError(kWrongUsage,
                       "--affinity '" + text + "' names several devices; a wish names one");
  }
  const std::string path = affinity.device.substr(0, affinity.device.find('?'));
  if (std::count(path.begin(), path.end(), ':') > 1) {
    throw CommandError(kWrongUsage, "--affinity '" + text + "': '" +
                                        path.substr(0, path.find(':') + 1) +
                                        "' is not require:, prefer: or forbid:");
  }
  return affinity;
}

namespace {

// "1.5GiB" in bytes; nothing for what is no size of 1 to 2^63 - 1 bytes.
std::optional<int64_t> ParseSize(std::string_view text) {
  double number = 0;
  const auto [at, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string unit(at, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  double base = 1024;
  if (unit.size() == 2 && unit.back() == 'B') base = 1000;  // "MB"
  if (unit.size() == 3 && unit.ends_with("IB")) unit.resize(1);
  if (unit.size() == 2 && unit.back() == 'B' && unit.front() != 'B') unit.resize(1);
  if (unit == "B") unit.clear();
  const size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit[0]) + 1;
  if (unit.size() > 1 || (!unit.empty() && power == 0)) return std::nullopt;
  int64_t whole = 0;
  if (power == 0) {  // bytes are counted exactly
    const auto [end, fault] = std::from_chars(text.data(), at, whole);
    return fault == std::errc() && end == at && whole > 0 ? std::optional(whole) : std::nullopt;
  }
  const double bytes = number * std::pow(base, static_cast<double>(power));
  return bytes >= 1 && bytes < 0x1p63 ? std::optional(static_cast<int64_t>(bytes)) : std::nullopt;
}

}  // namespace

std::pair<std::string, int64_t> ParseMemoryCap(const std::string& text) {
  const size_t equals = text.rfind('=');
  const auto size = equals == std::string::npos || equals == 0
                        ? std::nullopt
                        : ParseSize(std::string_view(text).substr(equals + 1));
  if (!size) {
    throw CommandError(
        kWrongUsage,
        "--memory-cap '" + text +
            "' is not DEVICE=SIZE, such as cuda:0=2GB; a size is a number of bytes, "
            "or one with KB, MB, GB, TB, KiB, MiB, GiB or TiB, of 1 to 2^63 - 1 bytes");
  }
  return {text.substr(0, equals), *size};
}

namespace {

hy_policy PolicyOf(const std::string& word) {
  if (word == "error") return HY_POLICY_ERROR;
  return word == "fallback" ? HY_POLICY_FALLBACK : HY_POLICY_FALLBACK_WARN;
}

}  // namespace

std::map<std::string, int64_t> ParseShapes(const std::vector<std::string>& shapes) {
  std::map<std::string, int64_t> out;
  for (const std::string& text : shapes) {
    const size_t equals = text.rfind('=');
    if (text.find(',', text.find('=')) < equals) {
      throw CommandError(kWrongUsage, "--shape '" + text +
                                          "' gives several sizes; each takes a --shape of its own");
    }
    const auto shape = ParseNamedNumber(text);
    if (!shape || shape->second < 0 || shape->second > kLargestSymbol) {
      throw CommandError(kWrongUsage,
                         "--shape '" + text + "' is not SYMBOL=N, N from 0 to 2^31 - 1");
    }
    if (!out.insert(*shape).second) {
      throw CommandError(kWrongUsage, "--shape gives '" + shape->first + "' twice");
    }
  }
  return out;
}

namespace {

// A command that opens a model several times hears the same warnings each time.
bool IsFirst(const std::string& warning) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::scoped_lock lock(mutex);
  return told.insert(warning).second;
}

}  // namespace

hy::Instance MakeInstance(bool no_fallback, bool no_cache, hy_policy on_missing,
                          hy_policy on_unsupported) {
  hy_instance_desc desc = HY_INSTANCE_DESC_INIT;
  desc.log = [](void*, hy_log_level level, hy_string message) {
    if (level <= HY_LOG_WARNING && !IsFirst(hy::ToString(message))) return;
    EraseProgress();
    // The library's levels begin at error.
    const auto name = FormatLogLevel(static_cast<LogLevel>(level + 1));
    std::fprintf(stderr, "halyard: %s: %s\n", std::string(name).c_str(),
                 EscapeControls(hy::ToString(message)).c_str());
  };
  // HALYARD_LOG, whose first level is off.
  desc.log_level = static_cast<hy_log_level>(GetLogLevel()) - 1;
  if (GetLogLevel() == LogLevel::kOff) desc.log = nullptr;
  desc.on_missing_device = on_missing;
  desc.on_unsupported_op = on_unsupported;
  if (no_fallback) {
    desc.on_missing_device = HY_POLICY_ERROR;
    desc.on_unsupported_op = HY_POLICY_ERROR;
  }
  if (no_cache) desc.cache_folder = HY_STRING("off");
  return hy::Instance::Create(&desc);
}

hy::Device OpenNamed(const hy::Instance& instance, const std::string& path) {
  if (path.empty()) {
    throw CommandError(kWrongUsage,
                       "--device has nothing on one side of a comma; it lists devices, such as "
                       "cpu:0,cuda:0");
  }
  if (path == "auto") {
    throw CommandError(kWrongUsage,
                       "'auto' is the CPU and all GPUs; it stands alone, not beside other devices");
  }
  if (path.find('+') != std::string::npos) {
    throw CommandError(kWrongUsage, "'" + Excerpt(path) +
                                        "' names several devices as a row of bench does; elsewhere "
                                        "a list has commas, such as cpu:0,cuda:0");
  }
  try {
    return instance.Open(path);
  } catch (const hy::Error& error) {
    // Not there, or full, or in another process's hands, or broken.
    if (error.code() != HY_INVALID_ARGUMENT) throw MissingDevice(error.what());
    throw CommandError(kWrongUsage, "device '" + Excerpt(path) + "': " + error.what());
  }
}

bool IsProgramFile(const std::string& path) {
  std::error_code error;  // to open a pipe is to wait for a writer
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  char magic[8] = {};
  file.read(magic, sizeof(magic));
  return file.gcount() == sizeof(magic) && std::memcmp(magic, "HALYPROG", sizeof(magic)) == 0;
}

std::vector<std::string> Split(const std::string& list, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(separator, at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string Join(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

namespace {

// A program keeps what it was compiled with.
void RefuseOptionsOfModels(const ModelOptions& options) {
  std::string given;
  for (const CLI::Option* option : options.for_models) {
    if (option->count() > 0) given += (given.empty() ? "" : ", ") + NameTyped(*option);
  }
  if (given.empty()) return;
  throw CommandError(kWrongUsage, options.model +
                                      " is a compiled program, which keeps what it was "
                                      "compiled with; for models only: " +
                                      given);
}

// The devices of the list. Without --no-fallback those that are missing are reported and left out;
// a saved program needs all of its devices.
std::vector<hy::Device> OpenDevices(const hy::Instance& instance, const ModelOptions& options,
                                    bool is_saved) {
  std::vector<hy::Device> devices;
  if (options.device == "auto") return devices;  // the library takes all
  std::map<std::string, std::string> given;      // the list's words by the devices' paths
  for (const std::string& word : Split(options.device, ',')) {
    try {
      devices.push_back(OpenNamed(instance, word));
      const auto path = hy::ToString(devices.back().info().path);
      if (const auto [at, is_new] = given.emplace(path, word); !is_new) {
        const std::string first = at->second == word ? "" : "'" + at->second + "' and ";
        throw CommandError(kWrongUsage, "--device names " + first + "'" + word +
                                            (first.empty() ? "' twice" : "', which are the same"));
      }
    } catch (const MissingDevice& error) {
      if (is_saved) {
        throw CommandError(kSystemFailure,
                           options.model + ": device " + word + ": " + error.what() +
                               " A saved program needs all of its devices, whatever "
                               "--on-missing-device says; compile the model anew for others");
      }
      if (options.no_fallback || options.on_missing_device == "error")
        throw CommandError(kSystemFailure, "device " + word + ": " + error.what());
      if (options.on_missing_device == "fallback") continue;
      PrintWarning("device '" + word + "' is left out: " + error.what());
    }
  }
  if (devices.empty()) devices.push_back(instance.Open("cpu:0"));
  return devices;
}

// "cuda" is "cuda:0", and the options of a path are no part of the name.
std::string NameOfDevice(const std::string& word) {
  const std::string path = word.substr(0, word.find('?'));
  return path.find(':') == std::string::npos ? path + ":0" : path;
}

// The devices that placement may choose from, the last resort too.
std::vector<std::string> Placeable(const Model& model, const ModelOptions& options) {
  std::vector<std::string> names;
  for (const hy::Device& device : model.devices) names.push_back(hy::ToString(device.info().path));
  if (names.empty()) {  // auto
    for (const hy_device_info& info : model.instance.Devices()) {
      if (info.left_out.size == 0) names.push_back(hy::ToString(info.path));
    }
  }
  const bool has_cpu = std::find(names.begin(), names.end(), "cpu:0") != names.end();
  if (!has_cpu && !options.no_fallback && options.on_unsupported_op != "error")
    names.emplace_back("cpu:0");
  return names;
}

// That `device`, which `option` names, is one of the program's. A name that no driver has, and one
// that is not in the list, is wrong usage; a device of the list that is not here is missing.
void CheckPlaceable(const Model& model, const ModelOptions& options, const std::string& option,
                    const std::string& device) {
  CheckDriver(model.instance, option, device);
  const std::vector<std::string> names = Placeable(model, options);
  const std::string name = NameOfDevice(device);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  try {
    OpenNamed(model.instance, name);
  } catch (const MissingDevice& error) {
    throw CommandError(kSystemFailure, option + ": " + error.what());
  }
  throw CommandError(kWrongUsage, option + " names device '" + name +
                                      "', which the program may not use; it may use " +
                                      Join(names, ", "));
}

}  // namespace

void CheckDriver(const hy::Instance& instance, const std::string& option,
                 const std::string& device) {
  const std::string wanted = device.substr(0, device.find_first_of(":?"));
  std::string known;
  for (const hy_driver_info& driver : instance.Drivers()) {
    if (hy::ToString(driver.name) == wanted) return;
    known += (known.empty() ? "" : ", ") + hy::ToString(driver.name);
  }
  throw CommandError(kWrongUsage, option + ": there is no driver '" + Excerpt(wanted) +
                                      "'; this build has: " + known);
}

Model OpenModel(const ModelOptions& options, bool fix_shapes, const GraphMaker& make_graph) {
  if (options.should_stop != nullptr && options.should_stop(nullptr) != 0)
    throw hy::Error(HY_ABORTED, "opening " + options.model + " was stopped");
  Model model;
  model.instance =
      MakeInstance(options.no_fallback, options.no_cache, PolicyOf(options.on_missing_device),
                   PolicyOf(options.on_unsupported_op));
  const bool is_saved = !make_graph && IsProgramFile(options.model);
  model.devices = OpenDevices(model.instance, options, is_saved);
  std::vector<hy_device_t*> devices;
  for (const hy::Device& device : model.devices) devices.push_back(device.get());
  const std::map<std::string, int64_t> shapes = ParseShapes(options.shapes);
  try {
    if (is_saved) {
      RefuseOptionsOfModels(options);
      hy_program_load_desc desc = HY_PROGRAM_LOAD_DESC_INIT;
      desc.path = hy::View(options.model);
      desc.devices = devices.data();
      desc.device_count = devices.size();
      model.program = hy::Program::Load(model.instance, desc);
      model.is_saved = true;
    } else {
      hy_compile_desc desc = HY_COMPILE_DESC_INIT;
      hy::Graph graph;
      if (make_graph) {
        graph = make_graph(model.instance);
        desc.graph = graph.get();
      } else {
        desc.onnx_path = hy::View(options.model);
      }
      desc.devices = devices.data();
      desc.device_count = devices.size();
      desc.disable_tuning = options.no_tune ? 1 : 0;
      desc.disable_cache = options.no_cache ? 1 : 0;
      const auto precision_of = [](const std::string& word) {
        return word == "fp16" ? HY_PRECISION_F16 : HY_PRECISION_AS_GIVEN;
      };
      desc.precision = precision_of(options.precision);
      desc.io_precision = precision_of(options.io_precision);
      std::vector<Affinity> affinities;
      for (const std::string& text : options.affinities) {
        affinities.push_back(ParseAffinity(text));
        CheckPlaceable(model, options, "--affinity '" + text + "'", affinities.back().device);
      }
      std::vector<hy_affinity> wishes;
      for (const Affinity& one : affinities) {
        wishes.push_back({hy::View(one.pattern), hy::View(one.device), one.kind});
      }
      desc.affinities = wishes.data();
      desc.affinity_count = wishes.size();
      std::vector<std::pair<std::string, int64_t>> caps;
      for (const std::string& text : options.memory_caps) {
        caps.push_back(ParseMemoryCap(text));
        CheckPlaceable(model, options, "--memory-cap '" + text + "'", caps.back().first);
        const auto is_same = [&](const auto& cap) {
          return NameOfDevice(cap.first) == NameOfDevice(caps.back().first);
        };
        if (std::count_if(caps.begin(), caps.end(), is_same) > 1) {
          throw CommandError(kWrongUsage,
                             "--memory-cap limits '" + NameOfDevice(caps.back().first) + "' twice");
        }
      }
      std::vector<hy_memory_cap> limits;
      for (const auto& [device, bytes] : caps) limits.push_back({hy::View(device), bytes});
      desc.memory_caps = limits.data();
      desc.memory_cap_count = limits.size();
      desc.vendor_libraries = options.vendor_libs;
      desc.verify_plan = options.verify_plan ? 1 : 0;
      desc.replan = options.replan ? 1 : 0;
      desc.no_first_probe = options.no_first_probe ? 1 : 0;
      desc.should_stop = options.should_stop;
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
