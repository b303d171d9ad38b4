// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/align_tables.h"

#include <algorithm>
#include <vector>

namespace halyard::tools {
namespace {

constexpr size_t kWidest = 64;  // longer cells do not widen their column

// Characters, of which UTF-8 may have several bytes each.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// "| a | b\|c |" into "a" and "b\|c".
std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '|' && line[i - 1] != '\\') {
      const size_t first = std::min(cell.find_first_not_of(' '), cell.size());
      const size_t end = cell.find_last_not_of(' ') + 1;
      cells.push_back(cell.substr(first, end - std::min(first, end)));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

void AddTable(const std::vector<std::string>& lines, std::string* out) {
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> widths;
  for (const std::string& line : lines) {
    rows.push_back(CellsOf(line));
    const std::vector<std::string>& cells = rows.back();
    if (widths.size() < cells.size()) widths.resize(cells.size(), 3);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (const size_t width = WidthOf(cells[i]); width <= kWidest)
        widths[i] = std::max(widths[i], width);
    }
  }
  for (const std::vector<std::string>& cells : rows) {
    *out += "|";
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i] == "---") {
        *out += std::string(widths[i] + 2, '-') + "|";
        continue;
      }
      const size_t width = WidthOf(cells[i]);
      *out += " " + cells[i] + std::string(width < widths[i] ? widths[i] - width : 0, ' ') + " |";
    }
    *out += "\n";
  }
}

}  // namespace

std::string AlignTables(const std::string& text) {
  std::string out;
  std::vector<std::string> table;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("|")) {
      table.push_back(line);
      continue;
    }
    AddTable(table, &out);
    table.clear();
    out += line + "\n";
  }
  AddTable(table, &out);
  return out;
}

}  // namespace halyard::tools
