// SPDX-License-Identifier: Apache-2.0
// FusedClusters: which clusters are one kernel once placed. Clustering predicts fusion from local
// rules; here the placed graph is cut, lowered and fused for real, and thrown away, so that a
// second placement can price kernels instead of parts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Per node its cluster, where clusters that lie whole in one kernel are one, but for those of
// different wishes. Needs device_of; leaves the state as it was, but for expressions in the arena.
Result<std::vector<uint32_t>> FusedClusters(CompileState& state);

// After fusion: the clusters become what the kernels of `segments` are, wishes or not, and
// `predictions` what placement's model expects of them. That is what times are kept by and compared
// with, also where placement itself knew other parts.
Status PredictKernels(CompileState& state);

}  // namespace halyard::pipeline
