// SPDX-License-Identifier: Apache-2.0
// Failures of submissions in words for people: what a kernel wrote into its submission's
// ErrorRecord, and what was in flight when a device was lost.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error_record.h"
#include "base/status.h"
#include "hal/executable.h"

namespace halyard::hal {

// OK when the record holds no failure. `label`: of the dispatch that the record names; `entry`: its
// kernel.
Status StatusFromErrorRecord(const ErrorRecord& record, std::string_view label,
                             const ExecutableEntry& entry);

// "the submission of 3 dispatches: 'a', 'b', 'c'", the first eight by name.
std::string DescribeDispatches(size_t count, const std::function<std::string_view(size_t)>& label);

}  // namespace halyard::hal
