// SPDX-License-Identifier: Apache-2.0
// SystemFiles: small text files of /proc and /sys. A file that is missing or cannot be read is an
// empty answer, because every machine lacks some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halyard {

// Thread-safe; reads at every call.
class SystemFiles {
 public:
  // `root` stands in front of every path; tests name a folder of theirs.
  explicit SystemFiles(std::string root = "") : root_(std::move(root)) {}
  const std::string& root() const { return root_; }

  // Without the end of the line; "" when there is none.
  std::string FirstLine(const std::string& path) const;
  // The number that the first line begins with, blanks skipped.
  std::optional<int64_t> Number(const std::string& path) const;
  // What stands behind the first "key" and a colon, blanks around it cut off.
  std::string ValueOf(const std::string& path, std::string_view key) const;
  // The word in brackets of "always [madvise] never".
  std::string Choice(const std::string& path) const;
  // Names of the entries of a folder, sorted.
  std::vector<std::string> List(const std::string& folder) const;

 private:
  std::string root_;
};

}  // namespace halyard
