// SPDX-License-Identifier: Apache-2.0
// ClusterWork: what one execution of a cluster does, counted on Graph IR: FLOPs, bytes that must be
// read or written at least once, what class of op dominates. Sizes that depend on symbols count
// with their hints; they are for costs only.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "compiler/graph/graph.h"
#include "compiler/place/cost.h"

namespace halyard::pipeline {

// The storage of a value under the hints, at most 2^42 bytes.
int64_t HintedBytes(const graph::Module& module, graph::ValueId value);

// FLOPs of one node; a multiply-add is two, any scalar op is one.
double CountFlops(const graph::Module& module, const graph::Node& node);
place::OpClass ClassOf(const graph::Node& node);

// `nodes`: of the entry graph, in order, without constants. `leaves`: per value of the module,
// whether it is read outside the cluster or is a result.
place::Work CountWork(const graph::Module& module, std::span<const graph::NodeId> nodes,
                      const std::vector<bool>& leaves);

// Bytes that the nodes read of constants that are not in `counted`, which gets them.
double ConstantBytesRead(const graph::Module& module, std::span<const graph::NodeId> nodes,
                         std::set<graph::ValueId>* counted);

// Equal for clusters that do the same work on tensors of the same hinted sizes: what timings are
// kept by. Names, the contents of constants and what stands outside do not matter.
uint64_t WorkKey(const graph::Module& module, std::span<const graph::NodeId> nodes);

}  // namespace halyard::pipeline
