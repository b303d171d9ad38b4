// SPDX-License-Identifier: Apache-2.0
// Clustering, placement and segmentation: the three passes that decide which device runs which part
// and cut the graph accordingly. They stand after the graph passes, because only a simplified graph
// shows what will fuse, and before lowering, because fusion never crosses a cut.
#pragma once

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Fills cluster_of: nodes that fusion will most likely run in one kernel share a cluster (a dry run
// of the fusion rules that changes nothing). A node without a lowering is a cluster of its own.
Status ClusterNodes(CompileState& state);

// Fills device_of and records why. With one device there is nothing to choose; with several, the
// first one that can run a cluster takes it.
Status PlaceClusters(CompileState& state);

// Cuts the entry graph into convex segments in execution order. Constants belong to every segment
// that uses them. A node without a lowering becomes an interpreted segment and a `fallback` record;
// UNIMPLEMENTED instead when the request forbids fallbacks.
Status CutSegments(CompileState& state);

}  // namespace halyard::pipeline
