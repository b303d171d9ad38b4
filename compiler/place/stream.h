// SPDX-License-Identifier: Apache-2.0
// Streaming: large weights that a device does not keep, because its memory has a limit, but gets
// anew in each run while it computes. The host has them, so the devices in its memory never stream.
#pragma once

#include <cstdint>

#include "compiler/place/core.h"

namespace halyard::place {

// A weight below this stays on the device: the latency of a transfer costs more than its memory.
inline constexpr int64_t kLeastStreamed = int64_t{64} << 10;

// Bytes of the item's weights that each run brings to that memory; 0: none, or they are kept.
int64_t StreamedBytes(const Problem& problem, uint32_t item, uint32_t memory);

// The problem in which all items with large weights stream them, wherever a memory has a limit.
// With two lots, one that the device reads and one that arrives, a cost is the longer of computing
// and bringing. With one lot, which is as large as the largest item's weights, items whose weights
// take more than half of it wait for the device and the device for them: both are their cost.
Problem StreamWeights(const Problem& problem, uint32_t lots);

// Items that gain most by it keep their weights again, as long as the memories have room: an eighth
// of each is left free for what the plan does not count. `at`: device per item; `memory_bytes`:
// what that assignment takes of each memory. `kept`: the problem that StreamWeights was given.
void KeepWhatFits(const Problem& kept, const Assignment& at, std::vector<int64_t> memory_bytes,
                  Problem* streamed);

}  // namespace halyard::place
