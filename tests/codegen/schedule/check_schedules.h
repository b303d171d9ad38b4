// SPDX-License-Identifier: Apache-2.0
// Runs every schedule of every kernel of a loop function, for every instruction set or for GPUs of
// several subgroup sizes: built, verified, run in the Kernel IR interpreter (and the best two for a
// CPU as native code) over poisoned outputs, and compared with a direct evaluation of the loops in
// double.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace halyard::schedule {

using Dims = std::map<std::string, int64_t>;

// Adds to each team schedule for GPUs the same in small parts, which only long rows would get, and
// to each contraction for CPUs the same in two and three blocks of k where these are whole vectors
// and steps, which only long sums would get.
void AddSplitRecords(std::vector<ScheduleRecord>* records);

// f32: a few roundings of values near 1.
inline constexpr double kClose = 4e-6;

// Kernels run in order on the reference's buffers, so an error stays in the kernel that made it.
// `index_limit`: integers in inputs are in [-limit, limit). `seen` gets the records as text.
// `compile`: also as native code. Reports through GoogleTest.
void CheckAll(std::string_view text, const Dims& dims, double tolerance, int64_t index_limit = 5,
              std::vector<std::string>* seen = nullptr, bool compile = true);
void CheckOnGpus(std::string_view text, const Dims& dims, double tolerance, int64_t index_limit = 5,
                 std::vector<std::string>* seen = nullptr);

}  // namespace halyard::schedule
