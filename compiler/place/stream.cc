// SPDX-License-Identifier: Apache-2.0
#include "compiler/place/stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/place/transfer.h"

namespace halyard::place {
namespace {

int64_t LargeWeights(const Problem& problem, const Item& item) {
  int64_t bytes = 0;
  for (const uint32_t weight : item.weights) {
    if (problem.weights[weight].bytes >= kLeastStreamed) bytes += problem.weights[weight].bytes;
  }
  return bytes;
}

bool IsLimited(const Problem& problem, uint32_t memory) {
  return memory != problem.machine.home && !problem.memory_caps.empty() &&
         problem.memory_caps[memory] > 0;
}

}  // namespace

int64_t StreamedBytes(const Problem& problem, uint32_t item, uint32_t memory) {
  if (!problem.items[item].streams || !IsLimited(problem, memory)) return 0;
  return LargeWeights(problem, problem.items[item]);
}

Problem StreamWeights(const Problem& problem, uint32_t lots) {
  Problem out = problem;
  out.stream_lots = lots;
  const TransferModel model(problem.machine);
  int64_t largest = 0;
  for (const Item& item : problem.items) largest = std::max(largest, LargeWeights(problem, item));
  for (Item& item : out.items) {
    const int64_t bytes = LargeWeights(problem, item);
    if (bytes == 0) continue;
    for (uint32_t d = 0; d < item.costs.size(); ++d) {
      if (!IsLimited(problem, problem.machine.devices[d].memory)) continue;
      const TransferCost bring = model.Estimate(kNone, d, bytes, true);
      if (!std::isfinite(bring.copy_seconds)) continue;  // no way leads there
      item.streams = true;
      Cost& cost = item.costs[d];
      if (lots == 1 && bytes > largest / 2) {
        cost.seconds = std::min(cost.seconds + bring.copy_seconds, 1e6);
        continue;
      }
      if (bring.copy_seconds <= cost.seconds) continue;
      cost.seconds = std::min(bring.copy_seconds, 1e6);
      cost.sigma = bring.sigma_seconds / bring.copy_seconds;
      cost.source = bring.source;
    }
  }
  return out;
}

void KeepWhatFits(const Problem& kept, const Assignment& at, std::vector<int64_t> memory_bytes,
                  Problem* streamed) {
  std::vector<uint32_t> order(at.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto gain = [&](uint32_t i) {  // seconds per byte
    const int64_t bytes = LargeWeights(kept, kept.items[i]);
    if (bytes == 0) return 0.0;
    return (streamed->items[i].costs[at[i]].seconds - kept.items[i].costs[at[i]].seconds) /
           static_cast<double>(bytes);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return gain(a) > gain(b); });
  const Problem before = *streamed;
  for (const uint32_t i : order) {
    const uint32_t memory = kept.machine.devices[at[i]].memory;
    const int64_t bytes = StreamedBytes(before, i, memory);
    if (bytes == 0) continue;
    const int64_t cap = kept.memory_caps[memory];
    if (memory_bytes[memory] > cap - cap / 8 - bytes) continue;
    memory_bytes[memory] += bytes;
    streamed->items[i] = kept.items[i];
  }
}

}  // namespace halyard::place
