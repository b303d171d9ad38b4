// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/row_name.h"

#include <algorithm>
#include <vector>

namespace halyard::tools {
namespace {

// "batch=1", "fp16": what stands behind the model.
std::vector<std::string> WordsOf(const Json& row) {
  std::vector<std::string> words;
  const Json shapes = row.value("shapes", Json::object());
  for (const auto& [symbol, size] : shapes.items()) words.push_back(symbol + "=" + size.dump());
  std::sort(words.begin(), words.end());
  if (row.contains("precision")) words.push_back(row["precision"].get<std::string>());
  if (const std::string io = row.value("io_precision", "as-given"); io != "as-given")
    words.push_back("io-" + io);
  return words;
}

// Earlier reports have those of a grid in the name, in the order of the options.
std::string WithoutWords(std::string model, const std::vector<std::string>& words) {
  const auto ends_in = [&](const std::string& word) { return model.ends_with(" " + word); };
  for (auto found = words.begin(); found != words.end();) {
    found = std::find_if(words.begin(), words.end(), ends_in);
    if (found != words.end()) model.resize(model.size() - found->size() - 1);
  }
  return model;
}

}  // namespace

std::string ModelOfRow(const Json& row) {
  const std::vector<std::string> words = WordsOf(row);
  std::string name = WithoutWords(row["model"], words);
  for (const std::string& word : words) name += " " + word;
  return name;
}

std::string NameOfRow(const Json& row) {
  return ModelOfRow(row) + " on " + row["device"].get<std::string>();
}

std::string KeyOfRow(const Json& row) {
  Json key = {WithoutWords(row["model"], WordsOf(row)), row["device"],
              row.value("precision", "as-given"), row.value("io_precision", "as-given")};
  const Json identity = row.value("identity", Json::object());
  if (identity.contains("inputs")) {
    for (const Json& input : identity["inputs"]) key.push_back(input.value("dims", Json::array()));
  } else {
    key.push_back(WordsOf(row));
  }
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace halyard::tools
