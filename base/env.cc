// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <charconv>
#include <cstdlib>

namespace halyard {
namespace {

constexpr EnvVarInfo kTable[] = {
    {EnvVar::kValidate, "HALYARD_VALIDATE", "0",
     "1 wraps every device in the validation layer, which checks each call against the contract of "
     "`hal/`, says precisely what is wrong, and runs one dispatch at a time, so that a fault names "
     "it."},
    {EnvVar::kDump, "HALYARD_DUMP", "",
     "A pattern of pass names, `*` for all: the compiler writes the module after each such pass "
     "into "
     "numbered files in the current folder, each a valid input of `hy-opt`. `PATTERN@DIR` names "
     "another folder."},
    {EnvVar::kStopAfter, "HALYARD_STOP_AFTER", "",
     "Name of the pass after which compilation ends with an error; the dumps up to it are kept."},
    {EnvVar::kDisablePass, "HALYARD_DISABLE_PASS", "",
     "Names of optimisation passes to skip, separated by commas."},
    {EnvVar::kBless, "HALYARD_BLESS", "0",
     "1 lets the tests rewrite golden files and generated documents instead of comparing with "
     "them."},
    {EnvVar::kLog, "HALYARD_LOG", "warning",
     "Least severe message that is written to standard error: `error`, `warning`, `info`, `debug` "
     "or "
     "`off`."},
    {EnvVar::kCacheDir, "HALYARD_CACHE_DIR", "",
     "Folder of compiled programs, packed constants and timings. Unset: `$XDG_CACHE_HOME/halyard`, "
     "else `~/.cache/halyard`. `off` disables the cache."},
    {EnvVar::kCompilerLibrary, "HALYARD_COMPILER_LIBRARY", "",
     "Path of the compiler library. Unset: `libhalyard_compiler.so` beside `libhalyard.so`."},
    {EnvVar::kThreads, "HALYARD_THREADS", "0",
     "Tasks that the CPU device runs at once. 0: as many as affinity, cpuset and cgroup quota "
     "allow; a "
     "larger number is cut down to that."},
    {EnvVar::kSpin, "HALYARD_SPIN_US", "50",
     "Microseconds that a thread of a run on the CPU watches for the others between two stages "
     "before "
     "it sleeps. Nothing spins between runs."},
    {EnvVar::kPerfMap, "HALYARD_PERF_MAP", "0",
     "1 writes `/tmp/perf-PID.map`, so that `perf` can name generated CPU kernels."},
    {EnvVar::kCudaLibrary, "HALYARD_CUDA_LIBRARY", "libcuda.so.1",
     "The library that the CUDA driver opens: a soname or a path. Tests name their stand-in here."},
    {EnvVar::kNvrtcLibrary, "HALYARD_NVRTC_LIBRARY", "",
     "The library that compiles CUDA kernels: a soname or a path. Unset: `libnvrtc.so.13` or `.12` "
     "where "
     "the system, the CUDA toolkit or a Python package of NVIDIA has it."},
};

const EnvVarInfo& InfoOf(EnvVar variable) { return kTable[static_cast<size_t>(variable)]; }

constexpr bool IsInEnumOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].variable) != i) return false;
  }
  return true;
}
static_assert(IsInEnumOrder(), "the rows stand in the order of EnvVar");

}  // namespace

std::span<const EnvVarInfo> EnvTable() { return kTable; }

std::string EnvString(EnvVar variable) {
  const EnvVarInfo& info = InfoOf(variable);
  const char* text = std::getenv(std::string(info.name).c_str());
  return text && *text ? std::string(text) : std::string(info.default_value);
}

bool EnvFlag(EnvVar variable) {
  std::string text = EnvString(variable);
  return !(text.empty() || text == "0" || text == "false" || text == "off" || text == "no");
}

int64_t EnvInt(EnvVar variable, int64_t fallback, int64_t min, int64_t max) {
  std::string text = EnvString(variable);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return fallback;
  return value < min || value > max ? fallback : value;
}

std::string EnvDefaultCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache == '/') return std::string(cache) + "/halyard";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/halyard" : std::string();
}

std::vector<std::string> EnvPythonFolders() {
  std::vector<std::string> folders;
  const char* virtual_env = std::getenv("VIRTUAL_ENV");
  if (virtual_env && *virtual_env == '/') folders.emplace_back(virtual_env);
  const char* home = std::getenv("HOME");
  if (home && *home == '/') folders.push_back(std::string(home) + "/.local");
  return folders;
}

std::string FormatEnvTable() {
  std::string text =
      "# Environment variables\n\n"
      "Generated from the table in `base/env.cc`; `HALYARD_BLESS=1` with the base tests rewrites "
      "it.\n\n"
      "| Variable | Default | Meaning |\n|---|---|---|\n";
  for (const EnvVarInfo& info : kTable) {
    text += "| `" + std::string(info.name) + "` | ";
    text += info.default_value.empty() ? "unset" : "`" + std::string(info.default_value) + "`";
    text += " | " + std::string(info.doc) + " |\n";
  }
  return text;
}

}  // namespace halyard
