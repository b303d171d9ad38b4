// SPDX-License-Identifier: Apache-2.0
// How long a tile schedule of a contraction takes, in nanoseconds, from its sizes alone. The
// constants are fitted to what one H200 measured (bench/contraction_bench); between schedules of
// one contraction they matter more than the time itself.
#pragma once

#include <cstdint>

#include "compiler/schedule/schedule.h"
#include "compiler/target/target.h"

namespace halyard::schedule {

// Multiprocessors of a GPU that does not tell.
inline constexpr int64_t kUnknownUnits = 16;

// A contraction as its schedules see it: sizes are hints where they are symbols.
struct ContractionSizes {
  int64_t rows = 1, cols = 1, k = 1, batches = 1;  // rows and columns as `swap` has them
  int64_t operand_bytes = 4, sum_bytes = 4;        // of an element
  int64_t memory_bytes = 0;                        // of all operands and results, each once
};

double CostOfTiles(const ContractionSizes& sizes, const ScheduleRecord& record,
                   const Target& target);

}  // namespace halyard::schedule
