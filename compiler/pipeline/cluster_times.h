// SPDX-License-Identifier: Apache-2.0
// ClusterTimes: which clusters a race of schedules has timed. A kernel that is one cluster and the
// whole of it tells what the cluster takes on that device; a later placement may ask for it
// (compiler/place/timings.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Per kernel of the segment: the key of its cluster (cluster_work.h) where the two are the same
// work; nothing elsewhere, and everywhere in a state without clusters.
std::vector<std::optional<uint64_t>> ClusterKeysOf(const CompileState& state,
                                                   const Segment& segment);

}  // namespace halyard::pipeline
