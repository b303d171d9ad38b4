// SPDX-License-Identifier: Apache-2.0
#include "runtime/part_names.h"

#include <algorithm>

#include "base/status.h"

namespace halyard::runtime {
namespace {

constexpr std::string_view kIn = "in dispatch '";
constexpr size_t kMostNodes = 6;

}  // namespace

PartNames::PartNames(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind == "source") nodes_.insert(record.subject);
    if (record.kind != "node" || !record.text.starts_with(kIn) || !record.text.ends_with("'"))
      continue;
    std::vector<std::string>& nodes =
        nodes_of_[record.text.substr(kIn.size(), record.text.size() - kIn.size() - 1)];
    if (std::find(nodes.begin(), nodes.end(), record.subject) != nodes.end()) continue;
    nodes.push_back(record.subject);
    ++parts_[record.subject];
  }
}

std::string PartNames::PartOf(const std::string& node) const {
  const auto found = parts_.find(node);
  return found != parts_.end() && found->second > 1 ? "part of " + node : node;
}

std::string PartNames::Describe(std::string_view name) const {
  std::vector<std::string> words;
  bool is_own = false;  // the name is that of a node which is nowhere else
  if (const auto found = nodes_of_.find(name); found != nodes_of_.end()) {
    for (const std::string& node : found->second) words.push_back(PartOf(node));
    is_own = std::erase(words, name) > 0;
  } else if (nodes_.count(name) == 0) {
    // A kernel that fusion has made a part of another one.
    const size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == name.size() || name[end] != '_') return "";
    const std::string node(name.substr(0, end));
    if (nodes_.count(node) == 0) return "";
    words.push_back("part of " + node);
  }
  if (words.empty()) return "";
  const size_t more = words.size() > kMostNodes ? words.size() - kMostNodes : 0;
  words.resize(words.size() - more);
  return fmt::format(" ({}{}{})", is_own ? "with " : "", fmt::join(words, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace halyard::runtime
