// SPDX-License-Identifier: Apache-2.0
// Clusters that read from each other in turn cannot both be whole kernels, and on two devices there
// are transfers both ways between them; placement prices both only of parts that have an order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/graph/graph.h"

namespace halyard::pipeline {

// Clusters of a cycle, and those between two cycles, become one cluster for each of their parts.
// Per node of the module: `cluster_of`; and `parts`, which have no cycles.
void SplitMutualClusters(const graph::Module& module, std::span<const uint32_t> parts,
                         std::vector<uint32_t>* cluster_of);

}  // namespace halyard::pipeline
