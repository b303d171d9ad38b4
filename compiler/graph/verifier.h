// SPDX-License-Identifier: Apache-2.0
// The rules of well-formed Graph IR, run after every pass. What the builder makes always passes;
// passes that edit nodes in place are what this checks.
//
// Rules: every graph but the entry is the region of exactly one node, and regions nest without
// cycles; graph and value names are unique and not empty; every live node stands in exactly one
// graph and has an op of the catalogue, operands defined before it in the same graph, and results
// that name it as their producer; operand counts, attributes and regions suit the op's record; the
// types of the results are what shape inference says; constants have bytes of their size; dims are
// not provably negative; graph results are values of the graph and have names.
#pragma once

#include "compiler/graph/graph.h"

namespace halyard::graph {

// INTERNAL with one sentence naming the node, value or graph and the rule. The module is not
// changed but for expressions in its arena and dims assumed equal.
Status VerifyModule(Module& module);

}  // namespace halyard::graph
