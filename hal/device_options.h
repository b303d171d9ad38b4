// SPDX-License-Identifier: Apache-2.0
// Options of a device path ("cpu:0?threads=2") whose values are whole numbers: a driver states a
// table of rows, and this reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/parse_number.h"
#include "base/status.h"
#include "hal/driver.h"

namespace halyard::hal {

template <typename Options>
struct OptionRow {
  std::string_view key;
  int64_t Options::*member;
  int64_t min;
  int64_t max;
  bool is_for_tests = false;  // not named to users
};

// Writes what is given into `parsed` and leaves the rest. INVALID_ARGUMENT names an unknown option
// and those that the driver (`driver`: "CPU") has, one given twice, or a value and its bounds.
template <typename Options, size_t kCount>
Status ParseOptions(std::string_view driver, const OptionRow<Options> (&rows)[kCount],
                    std::span<const DeviceOption> options, Options* parsed) {
  for (const DeviceOption& option : options) {
    const OptionRow<Options>* row = nullptr;
    std::string known;
    for (const OptionRow<Options>& candidate : rows) {
      if (candidate.key == option.key) row = &candidate;
      if (candidate.is_for_tests) continue;
      known += known.empty() ? "" : ", ";
      known += candidate.key;
    }
    for (const DeviceOption* before = options.data(); before != &option; ++before) {
      if (before->key != option.key) continue;
      return InvalidArgument("Option '{}' of the {} driver is given twice.", option.key, driver);
    }
    if (!row) {
      return InvalidArgument("The {} driver has no option '{}'; it has: {}.", driver, option.key,
                             known);
    }
    const std::optional<int64_t> value = ParseNumber<int64_t>(option.value);
    if (!value || *value < row->min || *value > row->max) {
      return InvalidArgument(
          "Option '{}' of the {} driver is '{}'; it takes a whole number from {} to {}.",
          option.key, driver, option.value, row->min, row->max);
    }
    parsed->*(row->member) = *value;
  }
  return OkStatus();
}

}  // namespace halyard::hal
