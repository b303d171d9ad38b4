// SPDX-License-Identifier: Apache-2.0
// Clusters that read from each other in turn cannot both be whole kernels, and on two devices there
// are transfers both ways between them; placement prices both only of parts that have an order.
#pragma once

#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Clusters of a cycle, and those between two cycles, become one cluster for each node. Changes
// `cluster_of` alone.
void SplitMutualClusters(CompileState& state);

}  // namespace halyard::pipeline
