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

void KeepApartFromData(const std::vector<NamedFile>& outputs, const std::string& model) {
  std::error_code error;
  // As the model names them, whatever the last name links to.
  const auto place_in = [&](const fs::path& folder, const std::string& path) {
    const fs::path whole = fs::absolute(path, error);
    const fs::path place = fs::weakly_canonical(whole.parent_path(), error) / whole.filename();
    return place.lexically_relative(folder).generic_string();
  };
  const fs::path folder = fs::weakly_canonical(fs::absolute(model, error).parent_path(), error);
  std::string bytes;
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || !fs::is_regular_file(output.path, error)) continue;
    const std::string place = place_in(folder, output.path);
    if (place.empty() || place.starts_with("..")) continue;
    if (bytes.empty() && fs::is_regular_file(model, error)) bytes = ReadWhole(model);
    if (bytes.find(place) == std::string::npos) continue;
    throw CommandError(kWrongUsage, output.name + " '" + output.path + "' is data of the model '" +
                                        model + "', which stays as it is");
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
