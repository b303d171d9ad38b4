// SPDX-License-Identifier: Apache-2.0
#include "base/system_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace halyard {

std::string SystemFiles::FirstLine(const std::string& path) const {
  std::ifstream stream(root_ + path);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<int64_t> SystemFiles::Number(const std::string& path) const {
  const std::string line = FirstLine(path);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(line.c_str(), &end, 10);
  if (end == line.c_str() || errno != 0) return std::nullopt;
  return value;
}

std::string SystemFiles::ValueOf(const std::string& path, std::string_view key) const {
  std::ifstream stream(root_ + path);
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find_first_not_of(" \t", key.size());
    if (colon == std::string::npos || line[colon] != ':') continue;
    const size_t first = line.find_first_not_of(" \t", colon + 1);
    if (first == std::string::npos) return "";
    return line.substr(first, line.find_last_not_of(" \t") - first + 1);
  }
  return "";
}

std::string SystemFiles::Choice(const std::string& path) const {
  const std::string line = FirstLine(path);
  const size_t first = line.find('['), last = line.find(']');
  if (first == std::string::npos || last == std::string::npos || last < first) return "";
  return line.substr(first + 1, last - first - 1);
}

std::vector<std::string> SystemFiles::List(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(root_ + folder, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace halyard
