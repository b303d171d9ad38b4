// SPDX-License-Identifier: Apache-2.0
// What the processor's cores reach in each level of the memory hierarchy: every thread streams over
// memory of its own, so that no level has to share lines. Loops in C++ for the widest vectors of
// this CPU; a kernel of the device would spend more on starting than a first-level cache takes to
// read.
#pragma once

#include <cstdint>

#include "runtime/probe/reading.h"

namespace halyard::runtime {

enum class HostPattern : uint8_t { kRead, kCopy, kTriad };

struct HostMemoryTime {
  Spread seconds;     // of one pass of all threads over their sets
  int64_t bytes = 0;  // that one pass moves
};

// `bytes_per_thread`: the working set of one thread, all its arrays together. OUT_OF_MEMORY when
// they do not fit.
Result<HostMemoryTime> MeasureHostMemory(HostPattern pattern, int64_t threads,
                                         int64_t bytes_per_thread, double seconds);

}  // namespace halyard::runtime
