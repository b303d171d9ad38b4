// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/files.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

namespace fs = std::filesystem;

// Where a file that is not there yet would come to be: a link to nothing is written through.
fs::path PlaceOf(const std::string& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(place, error)); ++links) {
    place = place.parent_path() / fs::read_symlink(place, error);
  }
  const fs::path resolved = fs::weakly_canonical(place, error);
  return error ? place.lexically_normal() : resolved;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return !fs::exists(a, error) && !fs::exists(b, error) && PlaceOf(a) == PlaceOf(b);
}

}  // namespace

void KeepApart(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    std::error_code error;
    if (output.path.empty()) continue;
    if (fs::exists(output.path, error) && !fs::is_regular_file(output.path, error)) continue;
    const std::string what = output.name + " '" + output.path + "'";
    for (const NamedFile& input : inputs) {
      if (!IsSameFile(output.path, input.path)) continue;
      const std::string same = input.path == output.path ? "" : " '" + input.path + "'";
      throw CommandError(kWrongUsage, what + " is " + input.name + same + ", which stays as it is");
    }
    for (size_t j = 0; j < i; ++j) {
      if (outputs[j].path.empty() || !IsSameFile(output.path, outputs[j].path)) continue;
      throw CommandError(kWrongUsage, outputs[j].name + " '" + outputs[j].path + "' and " + what +
                                          " are one file; each needs its own");
    }
  }
}

std::string ReadWhole(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw CommandError(kBadModel, "'" + path + "' is a folder; a file is needed");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw CommandError(kBadModel, "file '" + path + "' cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteWhole(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw CommandError(kSystemFailure, "file '" + path + "' cannot be written");
}

}  // namespace halyard::tools
