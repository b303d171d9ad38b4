// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/option_values.h"

#include <optional>
#include <utility>

#include "base/parse_number.h"
#include "tools/halyard/command.h"
#include "tools/halyard/format.h"

namespace halyard::tools {
namespace {

// `bounds` in words of the message, `shown` of the help.
template <typename Number>
CLI::Validator IsWholeWithin(Number least, Number most, const std::string& bounds,
                             const std::string& shown) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<Number> value = ParseNumber<Number>(text);
        if (!value || *value < least || *value > most) {
          return "'" + text + "' is not a whole number " + bounds;
        }
        text = std::to_string(*value);
        return std::string();
      },
      shown);
}

}  // namespace

CLI::Validator IsNumber(double least, double most, const std::string& what) {
  const std::string bounds = Format("from %.15g to %.15g", least, most);
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<double> value = ParseFinite(text);
        return value && *value >= least && *value <= most
                   ? std::string()
                   : "'" + text + "' is not a " + what + " " + bounds;
      },
      bounds);
}

CLI::Validator IsWhole(int64_t least, int64_t most) {
  const std::string bounds = "from " + std::to_string(least) + " to " + std::to_string(most);
  return IsWholeWithin(least, most, bounds, bounds);
}

std::string IsTolerance(const std::string& text) {
  const std::optional<double> value = ParseFinite(text);
  return value && *value >= 0 ? "" : "'" + text + "' is not a number of at least 0";
}

CLI::Validator IsSeed() { return IsWholeWithin<uint64_t>(0, UINT64_MAX, "from 0 to 2^64 - 1", ""); }

CLI::Validator IsOneOf(std::vector<std::string> words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
  return CLI::Validator(
      [words = std::move(words)](std::string& text) {
        std::string known;
        for (size_t i = 0; i < words.size(); ++i) {
          if (words[i] == text) return std::string();
          known += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
        }
        return "'" + text + "' is not " + known;
      },
      "{" + list + "}");
}

CLI::Validator IsListOf(const CLI::Validator& item) {
  return CLI::Validator(
      [item](std::string& text) {
        for (std::string part : Split(text, ',')) {
          if (part.empty()) return "'" + text + "' has nothing on one side of a comma";
          if (const std::string fault = item(part); !fault.empty()) return fault;
        }
        return std::string();
      },
      item.get_description());
}

std::vector<std::string> ItemsOf(const std::vector<std::string>& lists) {
  std::vector<std::string> items;
  for (const std::string& list : lists) {
    for (std::string& item : Split(list, ',')) items.push_back(std::move(item));
  }
  return items;
}

}  // namespace halyard::tools
