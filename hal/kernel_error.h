// SPDX-License-Identifier: Apache-2.0
// Turns what a kernel wrote into its submission's ErrorRecord into a Status for people.
#pragma once

#include <string_view>

#include "base/error_record.h"
#include "base/status.h"
#include "hal/executable.h"

namespace halyard::hal {

// OK when the record holds no failure. `label`: of the dispatch that the record names; `entry`: its
// kernel.
Status StatusFromErrorRecord(const ErrorRecord& record, std::string_view label,
                             const ExecutableEntry& entry);

}  // namespace halyard::hal
