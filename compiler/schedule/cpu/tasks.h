// SPDX-License-Identifier: Apache-2.0
// How finely schedules cut work for the threads of a CPU.
#pragma once

#include <cstdint>

namespace halyard::schedule {

inline constexpr int64_t kTasksPerWorker = 4;  // room for balancing
inline constexpr double kTaskWork = 40000;     // scalar operations worth waking a worker for

}  // namespace halyard::schedule
