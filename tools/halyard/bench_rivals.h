// SPDX-License-Identifier: Apache-2.0
// Libraries of others on the inputs of an op's row: oneDNN beside a CPU, cuBLASLt or cuDNN beside a CUDA
// device.
#pragma once

#include "tools/halyard/bench_row.h"

namespace halyard::tools {

// How long the comparison takes, at most; 0: none is asked for.
double RivalSeconds(const BenchOptions& options);

// For each library that is known for the device, in turn with `ours`, which has run: its result
// against ours first, then blocks of both. A library that is not there, does not compute the op or
// differs is an entry with "error". `row`: as far as it is measured, with its profile.
Json MeasureRivals(const BenchOptions& options, const ModelOptions& model_options,
                   const Inputs& inputs, const hy::Device& device, Runner& ours,
                   BenchProgress& progress, const Json& row);

}  // namespace halyard::tools
