// SPDX-License-Identifier: Apache-2.0
// Ops with regions. A region sees only its parameters.
#include "compiler/ops/families.h"

namespace halyard::graph {
namespace {

constexpr AttributeDef kLoopAttributes[] = {
    {"carried", AttributeKind::kInt, true,
     "How many operands are carried from one iteration to the next."},
    {"trips", AttributeKind::kExprs, false,
     "One expression: the iterations that run, the first dim of the stacked "
     "results; a dim symbol of its own where only the run can tell. Needed "
     "where there are stacked results."},
};

constexpr OpDef kOps[] = {
    {
        .name = "if",
        .doc = "Operands: condition bool[], then the arguments. Regions: then, else; "
               "both take the arguments and give results of equal types.",
        .traits = kHasRegions,
        .min_operands = 1,
        .max_operands = -1,
    },
    {
        .name = "loop",
        .doc = "Operands: trip count i64[] (absent: unbounded), initial condition "
               "bool[] (absent: true), `carried` values, then invariants. One region: "
               "parameters (iteration i64[], carried..., invariants...), results "
               "(condition bool[], carried..., stacked...). Runs while the condition "
               "holds and the count is not reached. Results: the last carried values, "
               "then each stacked value of every iteration along a new first axis. "
               "ONNX Scan is a loop that gathers its inputs.",
        .traits = kHasRegions,
        .min_operands = 2,
        .max_operands = -1,
        .attributes = kLoopAttributes,
    },
};

}  // namespace

std::span<const OpDef> ControlOps() { return kOps; }

}  // namespace halyard::graph
