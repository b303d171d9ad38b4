// SPDX-License-Identifier: Apache-2.0
// Gives every reader of a constant its own view of it: two ReLUs compare with one zero since equal
// nodes were merged, and the view that spreads it would be a cluster apart from both and bind
// devices together that share nothing. Stands after the last pass that merges, and before
// clustering, for which it is. A view of a constant is only an index expression in the kernel that
// reads it, so no kernel is added.
#pragma once

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// A view that memory holds anyway, because it is a result or read by a node that has no lowering,
// stays shared. Copies have the names of the nodes that they are for.
Status CloneViews(CompileState& state);

}  // namespace halyard::pipeline
