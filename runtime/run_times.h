// SPDX-License-Identifier: Apache-2.0
// RunTimes: what the kernels of programs took in runs that timed their commands, for the timing
// cache: a later replan prices the same work by them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/loaded_program.h"
#include "runtime/run_profile.h"

namespace halyard::runtime {

// One thread at a time.
class RunTimes {
 public:
  // A run of `program` has ended. Its times count where all of its sizes are fixed, as the keys of
  // clusters are of the sizes that were compiled for.
  void Add(const std::shared_ptr<LoadedProgram>& program, const RunProfile& profile);
  // Stores the medians, per cluster that is one kernel or several of its own, of programs that ran
  // often enough; in the caches of their programs.
  void Store() const;

 private:
  using Samples = std::map<std::string, std::vector<double>, std::less<>>;  // by label
  std::map<std::shared_ptr<LoadedProgram>, Samples> samples_;
};

}  // namespace halyard::runtime
