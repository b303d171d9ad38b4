// SPDX-License-Identifier: Apache-2.0
// The cost model: seconds of a cluster on a device. The ladder is timing cache, then the roofline
// corrected by the op class's fit, then the roofline alone (Williams, Waterman and Patterson 2009),
// which knows that small products leave units of a GPU idle; each estimate carries its source and
// uncertainty. Also: making fits from measured times, and the model's error per op class.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/place/machine.h"
#include "compiler/place/problem.h"
#include "compiler/place/timings.h"

namespace halyard::place {

// The dispatches, and the longer of bytes over bandwidth and FLOPs over rate. A contraction or
// convolution takes its rate from tiles of results in whole rounds over the device's units. The
// Number's source is the least trusted of the numbers that bound it, and at most kTable: a
// roofline is not a measurement.
Number Roofline(const Device& device, const Work& work);

// `timing`: what the timing cache knows of this cluster there. Feasibility is the caller's.
Cost EstimateCost(const Device& device, const Work& work, const std::optional<Timing>& timing);

// Of work that the interpreter does on `host`: what a probe measured of the class, or of pointwise
// ops; a default otherwise. `host` may be null.
Cost InterpretedCost(const Device* host, const Work& work);

struct Sample {
  Work work;
  double seconds = 0;  // measured; samples that are not above 0 are left out
};
// One fit per op class with at least two samples: the median factor and size in steps of two in
// size, sigma from what remains (at least 5 %, and 25 % for fewer than eight samples). The order of
// the samples does not matter.
std::vector<Fit> FitEfficiency(const Device& device, std::span<const Sample> samples);

struct Prediction {
  OpClass op_class = OpClass::kPointwise;
  double predicted_seconds = 0;
  double measured_seconds = 0;
};
// |predicted - measured| / measured, and predicted / measured, of a class.
struct ModelError {
  OpClass op_class = OpClass::kPointwise;
  uint32_t count = 0;
  double median_error = 0;
  double worst_error = 0;
  double median_ratio = 1;
};
// Per op class that occurs, in the order of the classes. Predictions whose measured time is not
// above 0 are left out.
std::vector<ModelError> ModelErrors(std::span<const Prediction> predictions);

}  // namespace halyard::place
