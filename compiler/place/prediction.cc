// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/prediction.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "compiler/program/program.h"

namespace halyard::place {
namespace {

template <typename Enum>
std::optional<Enum> FindName(std::string_view text, size_t count,
                             std::string_view (*format)(Enum)) {
  for (size_t i = 0; i < count; ++i) {
    if (format(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::string_view TakeWord(std::string_view* rest) {
  const size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view word = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return word;
}

}  // namespace

std::string FormatPrediction(const KernelPrediction& prediction) {
  const Work& work = prediction.work;
  std::string out = fmt::format("{} {} {} {} {} {} {} {} {} {:016x}", FormatOpClass(work.op_class),
                                FormatDType(work.dtype), work.flops, work.bytes, work.results,
                                work.rows, work.columns, prediction.seconds,
                                FormatSource(prediction.source), prediction.key);
  for (const std::string& label : prediction.labels) out += ' ' + label;
  return out;
}

Result<KernelPrediction> ParsePrediction(std::string_view text) {
  KernelPrediction out;
  const std::string_view op_class = TakeWord(&text);
  const auto known_class = FindName<OpClass>(op_class, kOpClassCount, FormatOpClass);
  if (!known_class) return InvalidArgument("'{}' is no class of ops.", op_class);
  out.work.op_class = *known_class;
  HY_ASSIGN(out.work.dtype, ParseDType(TakeWord(&text)));
  for (double* const number : {&out.work.flops, &out.work.bytes, &out.work.results, &out.work.rows,
                               &out.work.columns, &out.seconds}) {
    const std::string_view word = TakeWord(&text);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(*number) ||
        *number < 0) {
      return InvalidArgument("'{}' is no number from 0.", word);
    }
  }
  const std::string_view source = TakeWord(&text);
  const auto known_source = FindName<Source>(source, 4, FormatSource);
  if (!known_source) return InvalidArgument("'{}' is no source of a cost.", source);
  out.source = *known_source;
  const std::string_view key = TakeWord(&text);
  const auto [key_end, key_error] =
      std::from_chars(key.data(), key.data() + key.size(), out.key, 16);
  if (key_error != std::errc() || key_end != key.data() + key.size() || key.size() != 16) {
    return InvalidArgument("'{}' is no key of a cluster.", key);
  }
  while (!text.empty()) out.labels.emplace_back(TakeWord(&text));
  if (out.labels.empty()) return InvalidArgument("The prediction names no kernel.");
  return out;
}

std::vector<Prediction> ComparePredictions(const program::Program& program,
                                           const std::map<std::string, double>& seconds) {
  std::vector<Prediction> out;
  for (const program::Record& record : program.records) {
    if (record.kind != kPredictedRecord) continue;
    const auto prediction = ParsePrediction(record.text);
    if (!prediction.ok()) continue;
    Prediction one{prediction->work.op_class, prediction->seconds, 0};
    bool has_all = true;
    for (const std::string& label : prediction->labels) {
      const auto found = seconds.find(label);
      has_all = has_all && found != seconds.end();
      if (has_all) one.measured_seconds += found->second;
    }
    if (has_all) out.push_back(one);
  }
  return out;
}

}  // namespace halyard::place
