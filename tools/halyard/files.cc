// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/output_file.h"
#include "base/regular_file.h"
#include "tools/halyard/command.h"

namespace halyard::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostReportBytes = size_t{1} << 30, kPieceBytes = size_t{1} << 20;

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

// Whether the bytes of a file hold the text. They are read in pieces, which a model may be larger
// than memory for.
bool HasText(const std::string& path, const std::string& text) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(kPieceBytes + text.size(), '\0');
  size_t kept = 0;  // the end of the piece before, where the text may begin
  while (file) {
    file.read(piece.data() + kept, static_cast<std::streamsize>(piece.size() - kept));
    const size_t size = kept + static_cast<size_t>(file.gcount());
    if (std::string_view(piece.data(), size).find(text) != std::string_view::npos) return true;
    kept = std::min(size, text.size());
    std::copy(piece.begin() + static_cast<ptrdiff_t>(size - kept),
              piece.begin() + static_cast<ptrdiff_t>(size), piece.begin());
  }
  return false;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return !fs::exists(a, error) && !fs::exists(b, error) && PlaceOf(a) == PlaceOf(b);
}

}  // namespace

std::string NameOfOutput(std::string path) { return path == "-" ? "/dev/stdout" : path; }

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

void CheckWritable(const std::vector<NamedFile>& outputs) {
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    const Status status = OutputFile::Check(output.path);
    if (!status.ok()) throw CommandError(kSystemFailure, status.ToLine());
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
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || !fs::is_regular_file(output.path, error)) continue;
    const std::string place = place_in(folder, output.path);
    std::vector<std::string> places = {place};
    if (place.empty() || place.starts_with("..")) {
      // Beside what the model is a link to, data is what links beside the model lead to.
      places.clear();
      if (!fs::is_symlink(fs::symlink_status(model, error))) continue;
      if (fs::canonical(model, error).parent_path() !=
          fs::canonical(output.path, error).parent_path()) {
        continue;
      }
      for (fs::directory_iterator it(folder, error), end; !error && it != end;
           it.increment(error)) {
        std::error_code none;  // as of a link to nothing
        if (fs::equivalent(it->path(), output.path, none)) {
          places.push_back(it->path().filename().string());
        }
      }
    }
    if (!fs::is_regular_file(model, error)) continue;
    for (const std::string& name : places) {
      if (!HasText(model, name)) continue;
      throw CommandError(kWrongUsage, output.name + " '" + output.path +
                                          "' is data of the model '" + model +
                                          "', which stays as it is");
    }
  }
}

std::string ReadReport(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw CommandError(kBadModel, "'" + path + "' is a folder; a file is needed");
  const auto text = ReadRegularFile(path, kMostReportBytes);
  if (!text.ok())
    throw CommandError(kBadModel, "file '" + path + "' cannot be read: " + text.status().ToLine());
  return *text;
}

void WriteWhole(const std::string& path, const std::string& text) {
  const Status status = WriteOutputFile(path, text);
  if (!status.ok()) throw CommandError(kSystemFailure, status.ToLine());
}

bool WriteOrTell(const std::string& path, const std::string& text) {
  try {
    WriteWhole(path, text);
    return true;
  } catch (const CommandError& error) {
    PrintError(error.what());
    return false;
  }
}

}  // namespace halyard::tools
