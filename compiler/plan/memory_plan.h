// SPDX-License-Identifier: Apache-2.0
// Memory planning: places buffers that live during intervals of a linear order into one arena, so
// that buffers alive at the same time do not overlap. Static sizes only; symbolic sizes are
// arena_plan.h's. The main algorithm is decreasing-size best fit over live intervals, as in XLA's
// heap simulator, improved by restarts with other orders; the others exist to be compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace halyard::plan {

// A buffer alive from step `first` to step `last`, both inclusive, of `size_bytes` bytes.
struct LiveRange {
  int64_t size_bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;   // one per range, in bytes, multiples of the alignment
  int64_t arena_bytes = 0;        // end of the highest range
  int64_t lower_bound_bytes = 0;  // largest sum of live bytes (sizes rounded up to the alignment)
};

enum class PlanAlgorithm : uint8_t {
  kBest,             // ours: the best of several orders under best fit; stops at the lower bound
  kFirstFitByStart,  // in lifetime order into the first gap (IREE's LayoutSlices)
  kGreedyBySize,     // decreasing size into the smallest fitting gap (TFLite)
  kBestFitBySize,    // decreasing size, ties by length of life, smallest gap (XLA's heap simulator)
};

// Deterministic. INVALID_ARGUMENT on a negative size or a range that ends before it starts,
// OUT_OF_RANGE when the sizes do not fit int64.
Result<MemoryPlan> PlanMemory(std::span<const LiveRange> ranges, int64_t alignment,
                              PlanAlgorithm algorithm = PlanAlgorithm::kBest);

// Checks that no two ranges alive together overlap; INTERNAL naming the pair. For tests and debug
// builds.
Status VerifyMemoryPlan(std::span<const LiveRange> ranges, const MemoryPlan& plan);

}  // namespace halyard::plan
