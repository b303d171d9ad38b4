// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace halyard::plan {
namespace {

using Ranges = std::span<const LiveRange>;

bool LiveTogether(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

int64_t LowerBound(Ranges ranges) {
  std::map<int64_t, int64_t>
      change;  // step -> bytes that begin (positive) or have ended (negative)
  for (const LiveRange& range : ranges) {
    change[range.first] += range.size_bytes;
    change[range.last + 1] -= range.size_bytes;
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

// Places ranges one by one in the given order. `take_first` takes the lowest gap that fits,
// otherwise the smallest one (ties: the lowest). Quadratic; graphs have a few thousand values at
// most.
MemoryPlan PlaceInOrder(Ranges ranges, std::span<const size_t> order, bool take_first) {
  MemoryPlan plan;
  plan.offsets.assign(ranges.size(), 0);
  std::vector<size_t> placed;  // sorted by offset
  for (size_t index : order) {
    const LiveRange& range = ranges[index];
    if (range.size_bytes == 0) continue;
    int64_t cursor = 0, best_offset = -1, best_gap = INT64_MAX;
    for (size_t other : placed) {
      if (!LiveTogether(range, ranges[other])) continue;
      const int64_t gap = plan.offsets[other] - cursor;
      if (gap >= range.size_bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = cursor;
        if (take_first) break;
      }
      cursor = std::max(cursor, plan.offsets[other] + ranges[other].size_bytes);
    }
    plan.offsets[index] = best_offset >= 0 ? best_offset : cursor;
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[index] + range.size_bytes);
    const auto position =
        std::lower_bound(placed.begin(), placed.end(), index,
                         [&plan](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    placed.insert(position, index);
  }
  return plan;
}

template <typename Less>
std::vector<size_t> OrderBy(size_t count, Less less) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

std::vector<size_t> OrderBySizeThenLength(Ranges ranges) {
  return OrderBy(ranges.size(), [&](size_t a, size_t b) {
    if (ranges[a].size_bytes != ranges[b].size_bytes)
      return ranges[a].size_bytes > ranges[b].size_bytes;
    return ranges[a].last - ranges[a].first > ranges[b].last - ranges[b].first;
  });
}

std::vector<size_t> OrderByStart(Ranges ranges) {
  return OrderBy(ranges.size(),
                 [&](size_t a, size_t b) { return ranges[a].first < ranges[b].first; });
}

// Tries several orders, then moves the range that touches the top of the arena to the front: it was
// placed too late. Stops at the lower bound.
MemoryPlan PlaceBest(Ranges ranges, int64_t lower_bound) {
  const auto length = [&](size_t i) { return ranges[i].last - ranges[i].first + 1; };
  const auto area = [&](size_t i) {
    return static_cast<double>(ranges[i].size_bytes) * static_cast<double>(length(i));
  };
  const std::vector<size_t> orders[] = {
      OrderBySizeThenLength(ranges),
      OrderBy(ranges.size(),
              [&](size_t a, size_t b) { return ranges[a].size_bytes > ranges[b].size_bytes; }),
      OrderBy(ranges.size(), [&](size_t a, size_t b) { return area(a) > area(b); }),
      OrderBy(ranges.size(), [&](size_t a, size_t b) { return length(a) > length(b); }),
      OrderByStart(ranges),
      OrderBy(ranges.size(), [&](size_t a, size_t b) { return ranges[a].last > ranges[b].last; })};
  MemoryPlan best;
  best.arena_bytes = INT64_MAX;
  const auto try_order = [&](std::span<const size_t> order) {
    for (bool take_first : {false, true}) {
      if (best.arena_bytes == lower_bound) return;
      MemoryPlan plan = PlaceInOrder(ranges, order, take_first);
      if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
    }
  };
  for (const auto& order : orders) try_order(order);
  std::vector<size_t> order = orders[0];
  for (int round = 0; round < 64 && best.arena_bytes > lower_bound; ++round) {
    const MemoryPlan plan = PlaceInOrder(ranges, order, false);
    const auto top = std::find_if(order.begin(), order.end(), [&](size_t i) {
      return plan.offsets[i] + ranges[i].size_bytes == plan.arena_bytes && ranges[i].size_bytes > 0;
    });
    if (top == order.end() || top == order.begin()) break;
    std::rotate(order.begin(), top, top + 1);
    try_order(order);
  }
  return best;
}

}  // namespace

Result<MemoryPlan> PlanMemory(Ranges ranges, int64_t alignment, PlanAlgorithm algorithm) {
  std::vector<LiveRange> rounded(ranges.begin(), ranges.end());
  int64_t sum = 0;
  for (LiveRange& range : rounded) {
    if (range.size_bytes < 0 || range.last < range.first) {
      return InvalidArgument(
          "A buffer of {} bytes lives from step {} to {}; sizes are at least 0 and lives "
          "end after they start.",
          range.size_bytes, range.first, range.last);
    }
    int64_t padded = 0;
    if (__builtin_add_overflow(range.size_bytes, alignment - 1, &padded) ||
        __builtin_add_overflow(sum, padded, &sum)) {
      return OutOfRange("The buffers of one arena hold more than 2^63 bytes.");
    }
    range.size_bytes = padded / alignment * alignment;
  }
  const Ranges view(rounded);
  const int64_t lower_bound = LowerBound(view);
  MemoryPlan plan;
  switch (algorithm) {
    case PlanAlgorithm::kBest:
      plan = PlaceBest(view, lower_bound);
      break;
    case PlanAlgorithm::kFirstFitByStart:
      plan = PlaceInOrder(view, OrderByStart(view), true);
      break;
    case PlanAlgorithm::kGreedyBySize:
      plan = PlaceInOrder(
          view,
          OrderBy(view.size(),
                  [&](size_t a, size_t b) { return view[a].size_bytes > view[b].size_bytes; }),
          false);
      break;
    case PlanAlgorithm::kBestFitBySize:
      plan = PlaceInOrder(view, OrderBySizeThenLength(view), false);
      break;
  }
  plan.lower_bound_bytes = lower_bound;
  return plan;
}

Status VerifyMemoryPlan(Ranges ranges, const MemoryPlan& plan) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (plan.offsets[i] < 0 || plan.offsets[i] + ranges[i].size_bytes > plan.arena_bytes) {
      return Internal("Range {} at offset {} leaves the arena of {} bytes.", i, plan.offsets[i],
                      plan.arena_bytes);
    }
    for (size_t j = 0; j < i; ++j) {
      if (!LiveTogether(ranges[i], ranges[j])) continue;
      if (plan.offsets[i] < plan.offsets[j] + ranges[j].size_bytes &&
          plan.offsets[j] < plan.offsets[i] + ranges[i].size_bytes) {
        return Internal("Ranges {} and {} overlap at offsets {} and {} while both are alive.", j, i,
                        plan.offsets[j], plan.offsets[i]);
      }
    }
  }
  return OkStatus();
}

}  // namespace halyard::plan
