// SPDX-License-Identifier: Apache-2.0
// TrialRun: a program with inputs of its own, to be timed: what a plan is verified by, and what
// the benchmarks of placement measure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/session.h"

namespace halyard::runtime {

// Inputs are the same for every program with the same inputs: floats in [0, 1) from a fixed seed;
// everything else is 0, which is an index of every table. Thread-compatible.
class TrialRun {
 public:
  // `sizes`: of open symbols; one that is not named gets 128, or the nearest value that it may
  // have. OUT_OF_RANGE where an input does not fit 64 bits.
  static Result<TrialRun> Make(std::shared_ptr<LoadedProgram> program,
                               const std::map<std::string, int64_t>& sizes = {});

  // One run, its time noted: from host memory to host memory.
  Status Run();
  // One run whose time is not noted.
  Status WarmUp();
  void ForgetTimes() { seconds_.clear(); }
  // Of the runs since then; at least one.
  double MedianSeconds() const;
  size_t count() const { return seconds_.size(); }
  // Of the last run; live until the next.
  std::span<const CallResult> outputs() const { return results_; }
  const std::shared_ptr<LoadedProgram>& program() const { return program_; }

 private:
  std::shared_ptr<LoadedProgram> program_;
  std::shared_ptr<Session> session_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<std::vector<uint8_t>> bytes_;
  std::vector<CallTensor> inputs_, outputs_;
  std::vector<CallResult> results_;
  std::vector<double> seconds_;
};

}  // namespace halyard::runtime
