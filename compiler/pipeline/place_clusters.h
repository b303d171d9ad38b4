// SPDX-License-Identifier: Apache-2.0
// Placement: makes a problem (compiler/place/problem.h) of the clustered graph, solves it and keeps
// the plan. It stands after clustering, because what fuses is placed together, and before the cut,
// which needs its answer.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/pipeline/state.h"
#include "compiler/place/problem.h"

namespace halyard::pipeline {

// The machine of the request: what was measured where it fits the devices, defaults elsewhere.
place::Machine MachineOf(const CompileState& state, std::vector<std::string>* notes);

// `cluster_of_item`: the cluster of each item. INVALID_ARGUMENT where a wish or a limit names a
// device that the request does not have, or the previous plan is no plan.
Result<place::Problem> MakeProblem(const CompileState& state, place::Machine machine,
                                   std::vector<uint32_t>* cluster_of_item);

// Fills device_of and records why: `placement` sentences, and with several devices the whole plan
// (`plan`, place::FormatPlan). With one device there is nothing to choose.
Status PlaceClusters(CompileState& state);

// Whether a wish's pattern means the node: by its name, or after "op:" by its op in the Graph IR or
// by the op type of its source node in the ONNX file.
bool MatchesNode(const CompileState& state, std::string_view pattern, const graph::Node& node);

}  // namespace halyard::pipeline
