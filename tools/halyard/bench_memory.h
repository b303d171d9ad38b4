// SPDX-License-Identifier: Apache-2.0
// The memory of a row of `halyard bench`: what the plan says of each device beside what was held.
#pragma once

#include "tools/halyard/bench_report.h"
#include "tools/halyard/inputs.h"

namespace halyard::tools {

// Planned and observed bytes, of all devices of the program and of each: the most that was held at
// once since `model` opened its devices, with what loading held for a while. `devices`: those that
// the row has open.
Json MeasureMemory(const Model& model, const Inputs& inputs,
                   const std::vector<hy::Device>& devices);
// Adds what has been held at most since then, while several sessions ran, to such an object.
void AddConcurrentPeaks(const Model& model, const std::vector<hy::Device>& devices, Json* memory);

}  // namespace halyard::tools
