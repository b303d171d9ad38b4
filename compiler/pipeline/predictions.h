// SPDX-License-Identifier: Apache-2.0
// Predictions: what placement's cost model expects of the kernels that were made, as records of the
// program, so that a run whose kernels are timed tells how far the model is off.
#pragma once

#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// Adds a record of kind "predicted" (program/prediction.h) for each smallest set of kernels that
// is the whole work of some clusters. Interpreted ops have none; nor does a state without clusters.
void RecordPredictions(CompileState& state);

}  // namespace halyard::pipeline
