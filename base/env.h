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
  kNvrtcLibrary,
};

struct EnvVarInfo {
  EnvVar variable;
  std::string_view name;           // "HALYARD_VALIDATE"
  std::string_view default_value;  // as text; empty: unset
  std::string_view doc;            // one sentence or two
};

std::span<const EnvVarInfo> EnvTable();

// The variable's text, or its default when it is unset or empty. Reads the environment at each
// call.
std::string EnvString(EnvVar variable);
// False for unset, "", "0", "false", "off" and "no"; true for anything else.
bool EnvFlag(EnvVar variable);
// The number, or `fallback` when the variable is unset or not a whole number in [min, max].
int64_t EnvInt(EnvVar variable, int64_t fallback, int64_t min, int64_t max);

// The user's cache folder for Halyard: `$XDG_CACHE_HOME/halyard`, else `$HOME/.cache/halyard`. Empty when
// neither variable is an absolute path.
std::string EnvDefaultCacheFolder();

// Folders below which Python packages of this user lie in lib/python3.*/site-packages: `$VIRTUAL_ENV` and
// `$HOME/.local`, as far as they are absolute paths.
std::vector<std::string> EnvPythonFolders();

// The text of docs/environment.md.
std::string FormatEnvTable();

}  // namespace halyard
