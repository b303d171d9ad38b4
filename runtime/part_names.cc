// SPDX-License-Identifier: Apache-2.0
#include "runtime/part_names.h"

#include <algorithm>

#include "base/status.h"

namespace halyard::runtime {
namespace {

constexpr std::string_view kIn = "in dispatch '";

// Letters and digits alone, in small letters: "/layer_norm/LayerNormalization" holds "layernorm".
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

}  // namespace

PartNames::PartNames(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind == "source") {
      nodes_.try_emplace(record.subject,
                         Source{nodes_.size(), record.text.substr(0, record.text.find('\n'))});
    }
    if (record.kind != "node" || !record.text.starts_with(kIn) || !record.text.ends_with("'"))
      continue;
    std::vector<std::string>& nodes =
        nodes_of_[record.text.substr(kIn.size(), record.text.size() - kIn.size() - 1)];
    if (std::find(nodes.begin(), nodes.end(), record.subject) != nodes.end()) continue;
    nodes.push_back(record.subject);
    ++parts_[record.subject];
  }
  const auto number = [&](const std::string& node) {
    const auto found = nodes_.find(node);
    return found == nodes_.end() ? nodes_.size() : found->second.number;
  };
  for (auto& [dispatch, nodes] : nodes_of_) {
    std::stable_sort(nodes.begin(), nodes.end(), [&](const std::string& a, const std::string& b) {
      return number(a) < number(b);
    });
  }
}

std::string PartNames::WithOp(const std::string& node) const {
  const auto source = nodes_.find(node);
  if (source == nodes_.end() || Plain(node).find(Plain(source->second.op)) != std::string::npos) {
    return node;
  }
  return fmt::format("{} ({})", node, source->second.op);
}

std::string PartNames::PartOf(const std::string& node) const {
  const auto found = parts_.find(node);
  return (found != parts_.end() && found->second > 1 ? "part of " : "") + WithOp(node);
}

std::string PartNames::Describe(std::string_view name, size_t most) const {
  std::vector<std::string> words;
  bool is_own = false;  // the name is that of a node which is nowhere else
  if (const auto found = nodes_of_.find(name); found != nodes_of_.end()) {
    for (const std::string& node : found->second) {
      is_own = is_own || (node == name && parts_.find(node)->second == 1);
      if (node != name || parts_.find(node)->second > 1) words.push_back(PartOf(node));
    }
  } else if (nodes_.count(name) == 0) {
    // A kernel that fusion has made a part of another one.
    const size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == name.size() || name[end] != '_') return "";
    const std::string node(name.substr(0, end));
    if (nodes_.count(node) == 0) return "";
    words.push_back("part of " + node);
  }
  if (words.empty()) return "";
  const size_t more = words.size() > most ? words.size() - most : 0;
  words.resize(words.size() - more);
  return fmt::format(" ({}{}{})", is_own ? "with " : "", fmt::join(words, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace halyard::runtime
