// SPDX-License-Identifier: Apache-2.0
// The table of every HALYARD_* environment variable, and the only place that reads the environment.
// docs/environment.md is generated from the table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halyard {

// One value per row of the table, in its order.
enum class EnvVar : uint8_t {
  kValidate,
  kDump,
  kStopAfter,
  kDisablePass,
  kBless,
  kLog,
  kCacheDir,
  kCompilerLibrary,
  kThreads,
  kSpin,
  kPerfMap,
  kCudaLibrary,
  kNvmlLibrary,
  kNvrtcLibrary,
  kCublasLtLibrary,
  kCudnnLibrary,
  kOneDnnLibrary,
  kSyntheticDevices,
  kFirstProbe,
};

struct EnvVarInfo {
  EnvVar variable;
  std::string_view name;           // "HALYARD_VALIDATE"
  std::string_view default_value;  // as text; empty: unset
  std::string_view doc;            // one sentence or two
  // What it takes: "flag", "number", "one of error warning ...", or empty for any text.
  std::string_view form = {};
  int64_t min = 0, max = 0;  // of a number
};

std::span<const EnvVarInfo> EnvTable();

// The variable's text, or its default when it is unset or empty. Reads the environment at each
// call.
std::string EnvString(EnvVar variable);
// True for "1", "true", "on" and "yes", false for "0", "false", "off" and "no", in any case of
// letters; the default of the row for any other text.
bool EnvFlag(EnvVar variable);
// The number; its default when the variable is not a whole number in the range of its row.
int64_t EnvInt(EnvVar variable);

// One sentence for each variable whose value is none of those that it takes: the value, what it
// takes, and what holds instead; and for each of a name that is nearly that of one.
std::vector<std::string> CheckEnvironment();

// The user's cache folder for Halyard: `$XDG_CACHE_HOME/halyard`, else `$HOME/.cache/halyard`.
// Empty when neither variable is an absolute path.
std::string EnvDefaultCacheFolder();

// The variable by which the user names drivers to the Vulkan loader, and its value:
// "VK_DRIVER_FILES='/x.json'"; an empty value counts, as for the loader. Empty: none is set.
std::string EnvVulkanDriverFiles();
// The driver files that the Vulkan loader reads, and folders of such files: those that the user
// names, else those of the system's and the user's own folders that there are.
std::vector<std::string> EnvVulkanDriverPlaces();
// The same of layers, which the loader reads with every program.
std::vector<std::string> EnvVulkanLayerPlaces();

// Folders below which Python packages of this user lie in lib/python3.*/site-packages:
// `$VIRTUAL_ENV`, that whose bin/python3 is the first on `$PATH` (the Python of a virtual
// environment may be called without activating it) and `$HOME/.local`, as far as they are absolute
// paths.
std::vector<std::string> EnvPythonFolders();

// The text of docs/environment.md.
std::string FormatEnvTable();

}  // namespace halyard
