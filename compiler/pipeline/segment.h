// SPDX-License-Identifier: Apache-2.0
// Clustering and segmentation: the passes around placement (place_clusters.h). They stand after the
// graph passes, because only a simplified graph shows what will fuse, and before lowering, because
// fusion never crosses a cut.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Fills cluster_of: nodes that fusion will most likely run in one kernel share a cluster (a dry run
// of the fusion rules that changes nothing). A node without a lowering is a cluster of its own.
Status ClusterNodes(CompileState& state);

// Per node what the user demands of it, as text: nodes of different demands stay apart.
std::vector<std::string> WishesOf(const CompileState& state);

// Cuts the entry graph into convex segments in execution order (cut_segments.cc). Constants belong
// to every segment that uses them. A node without a lowering becomes an interpreted segment on the
// host's device and a `fallback` record; UNIMPLEMENTED instead when the request forbids fallbacks.
Status CutSegments(CompileState& state);

}  // namespace halyard::pipeline
