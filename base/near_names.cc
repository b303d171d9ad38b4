// SPDX-License-Identifier: Apache-2.0
#include "base/near_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace halyard {
namespace {

constexpr size_t kComparedBytes = 96;  // names come from files and may be long

std::string Lower(std::string_view text) {
  std::string out(text.substr(0, kComparedBytes));
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

// Insertions, deletions and replacements that make one of the other (Levenshtein).
size_t EditsBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// Twice the edits, less for names of which one holds the other.
size_t DistanceOf(std::string_view wanted, std::string_view name) {
  const bool holds =
      !wanted.empty() && !name.empty() &&
      (name.find(wanted) != std::string_view::npos || wanted.find(name) != std::string_view::npos);
  const size_t edits = EditsBetween(wanted, name);
  return holds ? std::min<size_t>(edits, 1) : 2 * edits;
}

}  // namespace

std::string NamesLike(std::string_view wanted, std::span<const std::string> known, size_t most) {
  if (known.empty()) return "none";
  std::vector<size_t> order(known.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (known.size() > most) {
    const std::string sought = Lower(wanted);
    std::vector<size_t> distances;
    for (const std::string& name : known) distances.push_back(DistanceOf(sought, Lower(name)));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return distances[a] < distances[b]; });
    order.resize(most);
  }
  std::string out;
  for (const size_t i : order) out += fmt::format("{}'{}'", out.empty() ? "" : ", ", known[i]);
  if (known.size() > most) out += fmt::format(" and {} more", known.size() - most);
  return out;
}

std::string NamesNear(std::string_view wanted, std::span<const std::string> known, size_t most) {
  const std::string sought = Lower(wanted);
  const size_t limit = 2 * std::max<size_t>(1, sought.size() / 3);
  std::vector<std::pair<size_t, size_t>> near;  // distance, index
  for (size_t i = 0; i < known.size(); ++i) {
    const std::string name = Lower(known[i]);
    // One letter is within nearly every name.
    const size_t distance = std::min(name.size(), sought.size()) < 2
                                ? 2 * EditsBetween(sought, name)
                                : DistanceOf(sought, name);
    if (distance <= limit) near.emplace_back(distance, i);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > most) near.resize(most);
  if (sought.empty()) near.clear();
  std::string out;
  for (const auto& [distance, i] : near) {
    out += fmt::format("{}'{}'", out.empty() ? "" : ", ", known[i]);
  }
  return out;
}

}  // namespace halyard
