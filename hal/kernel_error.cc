// SPDX-License-Identifier: Apache-2.0
#include "hal/kernel_error.h"

namespace halyard::hal {

Status StatusFromErrorRecord(const ErrorRecord& record, std::string_view label,
                             const ExecutableEntry& entry) {
  if (record.state == 0) return OkStatus();
  std::string where = record.site < entry.sites.size() ? entry.sites[record.site]
                                                       : fmt::format("report site {}", record.site);
  where = fmt::format("{} (dispatch '{}', kernel '{}')", where, label, entry.name);
  switch (static_cast<KernelErrorReason>(record.reason)) {
    case KernelErrorReason::kIndexOutOfRange:
      return OutOfRange("Index {} is outside an extent of {} at {}.", record.value, record.limit,
                        where);
    case KernelErrorReason::kIntegerDivideByZero:
      return InvalidArgument("{} was divided by zero at {}.", record.value, where);
    case KernelErrorReason::kOutputBoundExceeded:
      return OutOfRange("{} elements were produced where {} fit at {}.", record.value, record.limit,
                        where);
    case KernelErrorReason::kTripCountExceeded:
      return OutOfRange("{} iterations were asked for where {} are allowed at {}.", record.value,
                        record.limit, where);
    case KernelErrorReason::kNone:
      break;
  }
  return Internal("A kernel reported the unknown reason {} with value {} and limit {} at {}.",
                  record.reason, record.value, record.limit, where);
}

std::string DescribeDispatches(size_t count, const std::function<std::string_view(size_t)>& label) {
  constexpr size_t kMostNamed = 8;
  std::string text =
      fmt::format("the submission of {} {}", count, count == 1 ? "dispatch" : "dispatches");
  for (size_t i = 0; i < count && i < kMostNamed; ++i) {
    text += fmt::format("{}'{}'", i == 0 ? ": " : ", ", label(i));
  }
  if (count > kMostNamed) text += fmt::format(" and {} more", count - kMostNamed);
  return text;
}

}  // namespace halyard::hal
