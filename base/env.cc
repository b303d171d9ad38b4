// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/near_names.h"
#include "base/parse_number.h"

namespace halyard {
namespace {

constexpr std::string_view kPrefix = "HALYARD_";
constexpr std::string_view kFlag = "flag", kNumber = "number", kOneOf = "one of ";

constexpr std::string_view kOffWords[] = {"0", "false", "off", "no"};
constexpr std::string_view kOnWords[] = {"1", "true", "on", "yes"};

constexpr EnvVarInfo kTable[] = {
    {EnvVar::kValidate, "HALYARD_VALIDATE", "0",
     "1 wraps every device in the validation layer, which checks each call against the contract of "
     "`hal/`, says precisely what is wrong, and runs one dispatch at a time, so that a fault names "
     "it.",
     kFlag},
    {EnvVar::kDump, "HALYARD_DUMP", "",
     "A pattern of pass names, `*` for all: the compiler writes the module after each such pass "
     "into "
     "numbered files in the current folder, each a valid input of `hy-opt`. `PATTERN@DIR` names "
     "another folder."},
    {EnvVar::kStopAfter, "HALYARD_STOP_AFTER", "",
     "Name of the pass after which compilation ends with an error; the dumps up to it are kept. "
     "While this or one of its two neighbours is set, compiled programs are not cached."},
    {EnvVar::kDisablePass, "HALYARD_DISABLE_PASS", "",
     "Names of optimisation passes to skip, separated by commas."},
    {EnvVar::kBless, "HALYARD_BLESS", "0",
     "1 lets the tests rewrite golden files and generated documents instead of comparing with "
     "them.",
     kFlag},
    {EnvVar::kLog, "HALYARD_LOG", "warning",
     "Least severe message that `halyard` writes to standard error. Programs that use the library "
     "give a log sink and a level of their own; there it rules the few messages of drivers that "
     "belong to no instance.",
     "one of error warning info debug off"},
    {EnvVar::kCacheDir, "HALYARD_CACHE_DIR", "",
     "Folder of compiled programs, packed constants and timings. Unset: `$XDG_CACHE_HOME/halyard`, "
     "else `~/.cache/halyard`. `off` disables the cache."},
    {EnvVar::kCompilerLibrary, "HALYARD_COMPILER_LIBRARY", "",
     "Path of the compiler library. Unset: `libhalyard_compiler.so` beside `libhalyard.so`."},
    {EnvVar::kThreads, "HALYARD_THREADS", "0",
     "Tasks that the CPU device runs at once. 0: as many as affinity, cpuset and cgroup quota "
     "allow; a "
     "larger number is cut down to that.",
     kNumber, 0, 4096},
    {EnvVar::kSpin, "HALYARD_SPIN_US", "50",
     "Microseconds that a thread of a run on the CPU watches for the others between two stages "
     "before "
     "it sleeps. Nothing spins between runs.",
     kNumber, 0, 1000000},
    {EnvVar::kPerfMap, "HALYARD_PERF_MAP", "0",
     "1 writes `/tmp/perf-PID.map`, so that `perf` can name generated CPU kernels.", kFlag},
    {EnvVar::kCudaLibrary, "HALYARD_CUDA_LIBRARY", "libcuda.so.1",
     "The library that the CUDA driver opens: a soname or a path. Tests name their stand-in here."},
    {EnvVar::kNvmlLibrary, "HALYARD_NVML_LIBRARY", "libnvidia-ml.so.1",
     "The library that tells clocks, power and links of CUDA devices: a soname or a path. Without "
     "it they stay unknown."},
    {EnvVar::kNvrtcLibrary, "HALYARD_NVRTC_LIBRARY", "",
     "The library that compiles CUDA kernels: a soname or a path. Unset: `libnvrtc.so.13` or `.12` "
     "where the system, the CUDA toolkit or a Python package of NVIDIA has it, in this order; the "
     "packages are the system's, those of `$VIRTUAL_ENV`, those of the `python3` that `PATH` finds "
     "and the user's."},
    {EnvVar::kCublasLtLibrary, "HALYARD_CUBLASLT_LIBRARY", "",
     "NVIDIA's library of matrix products, which compete with generated kernels but under "
     "`--no-vendor-libs`: a soname or a path. Unset: `libcublasLt.so.13` or `.12`, looked for like "
     "NVRTC."},
    {EnvVar::kCudnnLibrary, "HALYARD_CUDNN_LIBRARY", "",
     "NVIDIA's library of convolutions, which compete in the same way: a soname or a path. Unset: "
     "`libcudnn.so.9`, looked for where NVRTC is, but first in the toolkit and the packages, and "
     "only the first that is found is opened."},
    {EnvVar::kOneDnnLibrary, "HALYARD_ONEDNN_LIBRARY", "",
     "oneDNN, which `halyard bench --op` times beside a CPU: a soname or a path. Unset: "
     "`libdnnl.so.3` or `.2`."},
    {EnvVar::kSyntheticDevices, "HALYARD_SYNTHETIC_DEVICES", "",
     "A tool for tests: further devices of the CPU driver, `cpu:1`, `cpu:2`, ..., that stand for "
     "accelerators with memory of their own. Their options are separated by `;`, as in "
     "`speed_percent=50&link_bytes_per_s=1000000000;memory_bytes=1000000`. They run on this "
     "machine's processors and are used only by those who name them."},
    {EnvVar::kFirstProbe, "HALYARD_FIRST_PROBE_MS", "2000",
     "Milliseconds that compiling for several devices spends, once, on measuring those that have "
     "no "
     "stored probe, so that placement need not guess. 0: nothing is measured but by `halyard "
     "devices "
     "--probe`.",
     kNumber, 0, 600000},
};

const EnvVarInfo& InfoOf(EnvVar variable) { return kTable[static_cast<size_t>(variable)]; }

constexpr bool IsInEnumOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].variable) != i) return false;
  }
  return true;
}
static_assert(IsInEnumOrder(), "the rows stand in the order of EnvVar");

std::optional<int64_t> NumberOf(const EnvVarInfo& info, std::string_view text) {
  const std::optional<int64_t> value = ParseNumber<int64_t>(text);
  return value && *value >= info.min && *value <= info.max ? value : std::nullopt;
}

// The words of "one of a b c".
std::vector<std::string_view> ChoicesOf(const EnvVarInfo& info) {
  std::vector<std::string_view> words;
  std::string_view rest = info.form.substr(kOneOf.size());
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

// "0 or 1", "a whole number from 0 to 4096", "error, warning or off"; empty: any text.
std::string FormatForm(const EnvVarInfo& info, std::string_view mark) {
  if (info.form == kFlag) return fmt::format("{0}0{0} or {0}1{0}", mark);
  if (info.form == kNumber) {
    return fmt::format("a whole number from {} to {}", info.min, info.max);
  }
  if (info.form.empty()) return "";
  std::string out;
  const std::vector<std::string_view> words = ChoicesOf(info);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view between = i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    out += fmt::format("{}{}{}{}", between, mark, words[i], mark);
  }
  return out;
}

bool IsOneOf(std::string_view text, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// On or off, in any case of letters; nothing for any other text.
std::optional<bool> ParseFlag(std::string_view text) {
  std::string word(text);
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (IsOneOf(word, kOnWords)) return true;
  if (IsOneOf(word, kOffWords)) return false;
  return std::nullopt;
}

bool IsTaken(const EnvVarInfo& info, std::string_view text) {
  if (info.form == kFlag) return ParseFlag(text).has_value();
  if (info.form == kNumber) return NumberOf(info, text).has_value();
  return info.form.empty() || IsOneOf(text, ChoicesOf(info));
}

}  // namespace

std::span<const EnvVarInfo> EnvTable() { return kTable; }

std::string EnvString(EnvVar variable) {
  const EnvVarInfo& info = InfoOf(variable);
  const char* text = std::getenv(std::string(info.name).c_str());
  return text && *text ? std::string(text) : std::string(info.default_value);
}

bool EnvFlag(EnvVar variable) {
  return ParseFlag(EnvString(variable))
      .value_or(ParseFlag(InfoOf(variable).default_value).value_or(false));
}

int64_t EnvInt(EnvVar variable) {
  const EnvVarInfo& info = InfoOf(variable);
  const auto value = NumberOf(info, EnvString(variable));
  return value ? *value : NumberOf(info, info.default_value).value_or(info.min);
}

namespace {

// The variable that one of an unknown name was meant to be; empty for names that are known or like
// none, which may be a host's own.
std::string MistypedFrom(std::string_view name) {
  std::string near;
  for (const EnvVarInfo& info : kTable) {
    if (info.name == name) return {};
    const size_t longer = std::max(info.name.size(), name.size());
    if (longer - std::min(info.name.size(), name.size()) > 2) continue;
    const std::vector<std::string> known = {std::string(info.name.substr(kPrefix.size()))};
    if (near.empty() && !NamesNear(name.substr(kPrefix.size()), known).empty()) near = info.name;
  }
  return near;
}

}  // namespace

std::vector<std::string> CheckEnvironment() {
  std::vector<std::string> out;
  for (const EnvVarInfo& info : kTable) {
    const std::string text = EnvString(info.variable);
    if (text.empty() || IsTaken(info, text)) continue;
    out.push_back(fmt::format("The environment variable {} is '{}'; it takes {}, and {} holds.",
                              info.name, text.substr(0, 80), FormatForm(info, ""),
                              info.default_value));
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    const std::string known = name.starts_with(kPrefix) ? MistypedFrom(name) : std::string();
    if (known.empty()) continue;
    out.push_back(fmt::format("There is no environment variable {}; near it is {}.",
                              name.substr(0, 80), known));
  }
  return out;
}

std::string EnvDefaultCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/halyard";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/halyard" : std::string();
}

std::string EnvVulkanDriverFiles() {
  for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    if (const char* files = std::getenv(name)) return fmt::format("{}='{}'", name, files);
  }
  return {};
}

namespace {

std::string ValueOr(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// Each part of a list with colons.
void AddParts(std::string_view list, std::vector<std::string>* places) {
  for (size_t end = 0; !list.empty(); list.remove_prefix(std::min(end + 1, list.size()))) {
    end = std::min(list.find(':'), list.size());
    if (end > 0) places->emplace_back(list.substr(0, end));
  }
}

// The folders of that name that there are, of the user and of the system.
void AddVulkanFolders(std::string_view name, std::vector<std::string>* places) {
  const std::string home = ValueOr("HOME", "/nonexistent");
  std::vector<std::string> roots;
  AddParts(ValueOr("XDG_CONFIG_HOME", home + "/.config"), &roots);
  AddParts(ValueOr("XDG_CONFIG_DIRS", "/etc/xdg"), &roots);
  roots.emplace_back("/etc");
  AddParts(ValueOr("XDG_DATA_HOME", home + "/.local/share"), &roots);
  AddParts(ValueOr("XDG_DATA_DIRS", "/usr/local/share:/usr/share"), &roots);
  for (const std::string& root : roots) {
    std::string folder = fmt::format("{}/vulkan/{}", root, name);
    if (access(folder.c_str(), F_OK) == 0) places->push_back(std::move(folder));
  }
}

}  // namespace

std::vector<std::string> EnvVulkanDriverPlaces() {
  std::vector<std::string> places;
  const char* named = std::getenv("VK_DRIVER_FILES");
  if (!named) named = std::getenv("VK_ICD_FILENAMES");
  if (named) {
    AddParts(named, &places);
  } else {
    AddVulkanFolders("icd.d", &places);
  }
  AddParts(ValueOr("VK_ADD_DRIVER_FILES", ""), &places);
  return places;
}

std::vector<std::string> EnvVulkanLayerPlaces() {
  std::vector<std::string> places;
  AddVulkanFolders("implicit_layer.d", &places);
  AddVulkanFolders("explicit_layer.d", &places);
  AddParts(ValueOr("VK_LAYER_PATH", ""), &places);
  AddParts(ValueOr("VK_ADD_LAYER_PATH", ""), &places);
  return places;
}

std::vector<std::string> EnvPythonFolders() {
  std::vector<std::string> folders;
  const auto add = [&](std::string folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(std::move(folder));
    }
  };
  const char* virtual_env = std::getenv("VIRTUAL_ENV");
  if (virtual_env && *virtual_env == '/') add(virtual_env);
  const char* path = std::getenv("PATH");
  constexpr std::string_view kBin = "/bin";
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    if (!folder.starts_with('/') || access((std::string(folder) + "/python3").c_str(), X_OK) != 0) {
      continue;
    }
    if (folder.ends_with(kBin) && folder.size() > kBin.size()) {
      add(std::string(folder.substr(0, folder.size() - kBin.size())));
    }
    break;
  }
  const char* home = std::getenv("HOME");
  if (home && *home == '/') add(std::string(home) + "/.local");
  return folders;
}

std::string FormatEnvTable() {
  std::string text =
      "# Environment variables\n\n"
      "Generated from the table in `base/env.cc`; `HALYARD_BLESS=1` with the base tests rewrites "
      "it. Where `0` or `1` is taken, `off`, `false`, `no` and `on`, `true`, `yes` are too. A "
      "value that a variable does not take is a warning in the log, once a process, and the "
      "default holds.\n\n"
      "| Variable | Default | Values | Meaning |\n|---|---|---|---|\n";
  for (const EnvVarInfo& info : kTable) {
    text += "| `" + std::string(info.name) + "` | ";
    text += info.default_value.empty() ? "unset" : "`" + std::string(info.default_value) + "`";
    text += " | " + FormatForm(info, "`") + " | " + std::string(info.doc) + " |\n";
  }
  return text +
         "\nThe tests alone read these:\n\n"
         "| Variable | Values | Meaning |\n|---|---|---|\n"
         "| `HALYARD_TEST_GRAPHS` | `FIRST:COUNT` | The random graphs of `pipeline_tests` with "
         "these seeds, instead of those of every run. |\n"
         "| `HALYARD_TEST_DEVICE` | a device, such as `cuda:0` | `codegen_tests` also runs the "
         "kernels that it schedules for GPUs on this device. |\n"
         "| `HALYARD_TEST_PART` | `I/N` | Of those, the I-th of N parts, I from 0. |\n";
}

}  // namespace halyard
