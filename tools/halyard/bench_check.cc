// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_check.h"

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "tools/halyard/compare.h"
#include "tools/halyard/format.h"

namespace halyard::tools {
namespace {

constexpr double kLargestHalf = 65504, kLeastNormalHalf = 6.103515625e-5;
constexpr double kMostOfFlushing = 0.05;  // of the size of an output
constexpr double kFarOff = 0.25;          // of half of the elements

bool IsHalf(int32_t dtype) { return dtype == HY_DTYPE_F16 || dtype == HY_DTYPE_BF16; }

bool IsFloat(int32_t dtype) {
  return IsHalf(dtype) || dtype == HY_DTYPE_F32 || dtype == HY_DTYPE_F64;
}

int64_t CountNotFinite(const Tensor& tensor) {
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    count += std::isfinite(ElementAsDouble(tensor, static_cast<size_t>(i))) ? 0 : 1;
  return count;
}

// Of the elements that the results can hold; 0 where there is none.
double MedianRelative(const Tensor& actual, const Tensor& expected, bool is_half) {
  std::vector<double> errors;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const auto index = static_cast<size_t>(i);
    const double e = ElementAsDouble(expected, index), a = ElementAsDouble(actual, index);
    const double size = std::fabs(e);
    if (!std::isfinite(e) || size == 0 || (is_half && size < kLeastNormalHalf)) continue;
    errors.push_back(std::isfinite(a) ? std::fabs(a - e) / size : HUGE_VAL);
  }
  if (errors.empty()) return 0;
  const auto middle = errors.begin() + static_cast<ptrdiff_t>((errors.size() - 1) / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

// "0.0012%", "4.1%", "150%".
std::string FormatPercent(double share) {
  const double percent = 100 * share;
  if (percent == 0) return "0%";
  if (percent < 1e-4) return "below 0.0001%";
  return Format(percent < 100 ? "%.2g%%" : "%.0f%%", percent);
}

}  // namespace

Json JudgeOutputs(const std::vector<std::string>& names, const std::vector<Tensor>& results,
                  const std::vector<Tensor>& expected, const std::string& reference,
                  const CheckOptions& options) {
  double absolute = 0, relative = 0, of_size = 0, median = 0;
  std::string wrong, overflows;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool is_half = options.is_half || IsHalf(expected[i].dtype);
    const bool is_float = IsFloat(expected[i].dtype);
    const double size = LargestMagnitude(expected[i]);
    double scale = is_half ? size : std::min(size, 1.0);
    if (size == 0 || !is_float) scale = 1;
    double atol = options.atol * scale;
    if (is_half && is_float)
      atol = std::max(atol, std::min(kLeastNormalHalf, kMostOfFlushing * size));
    const Comparison comparison = Compare(results[i], expected[i], options.rtol, atol);
    absolute = std::max(absolute, comparison.max_absolute);
    relative = std::max(relative, comparison.max_relative);
    if (size > 0) of_size = std::max(of_size, comparison.max_absolute / size);
    const bool is_alike =
        results[i].dtype == expected[i].dtype && results[i].dims == expected[i].dims;
    if (is_float && is_alike) {
      const double half_off = MedianRelative(results[i], expected[i], is_half);
      if (std::isfinite(half_off)) median = std::max(median, half_off);
      const int64_t odd = CountNotFinite(expected[i]);
      if (odd > 0) {
        overflows += (overflows.empty() ? "" : ", ") +
                     Format("%lld of %lld elements of %s", static_cast<long long>(odd),
                            static_cast<long long>(expected[i].elements()), names[i].c_str());
      }
      if (wrong.empty() && comparison.is_equal && half_off > kFarOff) {
        wrong = names[i] + " differs from " + reference +
                Format(": half of its elements are off by %.0f%% or more", half_off * 100);
      }
    }
    if (wrong.empty() && !comparison.is_equal) {
      wrong = names[i] + " differs from " + reference + ": " + comparison.difference;
      if (!comparison.is_finite && is_half && size > kLargestHalf)
        wrong += Format("; f16 holds no more than %.0f", kLargestHalf);
    }
  }
  Json json = {{"max_abs_error", absolute},
               {"max_rel_error", relative},
               {"max_scaled_error", of_size},
               {"median_rel_error", median}};
  if (!wrong.empty()) json["wrong"] = wrong;
  if (!overflows.empty()) json["overflows"] = overflows;
  return json;
}

std::vector<std::string> CheckVerdicts(const Json& row) {
  std::vector<std::string> out;
  const Json errors = row.value("errors", Json::object());
  if (errors.contains("wrong")) {
    out.push_back("wrong: " + errors["wrong"].get<std::string>() +
                  ", and nothing was timed; the largest error is " +
                  FormatPercent(errors["max_scaled_error"]) + " of its output's size");
  }
  if (errors.contains("overflows")) {
    out.push_back(
        "not all is compared: the reference on cpu:0 is itself infinite or not a number "
        "in " +
        errors["overflows"].get<std::string>());
  }
  return out;
}

std::string FormatErrors(const Json& row) {
  const auto found = row.find("errors");
  if (found == row.end() || !found->contains("max_scaled_error")) return "not compared";
  return (found->contains("wrong") ? "wrong, " : "") + FormatPercent((*found)["max_scaled_error"]);
}

}  // namespace halyard::tools
