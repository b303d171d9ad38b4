// SPDX-License-Identifier: Apache-2.0
// KernelPrediction: what the cost model expects of some kernels of a program together, as the text
// of a record of kind "predicted"; and the model's error where the kernels were timed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/place/cost.h"

namespace halyard::program {
struct Program;
}

namespace halyard::place {

inline constexpr std::string_view kPredictedRecord = "predicted";

struct KernelPrediction {
  Work work;                         // of the cluster that is expected to take longest
  double seconds = 0;                // of one run of all of them
  Source source = Source::kDefault;  // of the cost of what takes longest
  uint64_t key = 0;  // what the timing cache is asked by, if they are one cluster; 0: they are not
  std::vector<std::string> labels;  // of their commands; names without spaces
  friend bool operator==(const KernelPrediction&, const KernelPrediction&) = default;
};

// "contraction f32 1000000 40000 6400 80 80 1.5e-05 default 00a1b2c3d4e5f607 first second": the
// work's class, dtype, FLOPs, bytes, results, rows and columns, then the rest in their order. Parse
// is the inverse; INVALID_ARGUMENT says what is wrong.
std::string FormatPrediction(const KernelPrediction& prediction);
Result<KernelPrediction> ParsePrediction(std::string_view text);

// The predictions of a program for all of whose kernels there is a time: `seconds` by label, the
// sum over all commands of that label in one run. Records that do not parse are left out.
std::vector<Prediction> ComparePredictions(const program::Program& program,
                                           const std::map<std::string, double>& seconds);

}  // namespace halyard::place
