// SPDX-License-Identifier: Apache-2.0
// One row of `halyard bench`: one model on one device, opened, checked, timed and profiled.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>

#include "tools/halyard/bench_op.h"
#include "tools/halyard/bench_progress.h"
#include "tools/halyard/bench_report.h"
#include "tools/halyard/inputs.h"

namespace halyard::tools {

struct BenchOptions {
  double warm_seconds = 0.2, seconds = 3;
  int64_t runs = 0;  // 0: as many as the seconds hold
  int64_t concurrency = 2;
  std::vector<double> rates;  // of open loops: runs that are due per second
  double rtol = 1e-2, atol = 1e-3;
  bool no_check = false, no_profile = false, no_rivals = false;
  bool cold_cache = false;   // timed runs find nothing in the caches; neither loads nor rivals
  std::optional<OpCase> op;  // instead of a model file
  GraphMaker make_graph;     // of the op; empty without
};

// A session with its inputs and room for outputs. One thread at a time.
class Runner {
 public:
  // `time_runs` as in hy_session_desc.
  Runner(const Model& model, const Inputs& inputs, uint32_t time_runs = 0);
  // Seconds from call to return.
  double Run();
  hy::Event Submit();
  std::vector<Tensor> Results() const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  void Reset();
  std::vector<std::unique_ptr<void, Free>> memory_;  // of the inputs; a run may read it to its end
  hy::Session session_;
  std::vector<hy_tensor> calls_, outputs_;
};

// The profile of some runs apart from the timed ones (SummarizeProfile); null when interrupted.
Json MeasureProfile(const Model& model, const Inputs& inputs, double plain_s,
                    const std::vector<hy::Device>& devices);

// The devices that one part of --device names: "a+b" is one program placed over both, "auto" none.
std::vector<std::string> DevicesOfRow(const std::string& part);

// What the phases of a row take whose time is known before. With `runs` nobody knows that of the
// timed runs.
double TimedSeconds(const BenchOptions& options);

// Throws CommandError or hy::Error when there is nothing to report. An interrupted row has what was
// measured until then.
Json BenchRow(const BenchOptions& options, ModelOptions model_options,
              const InputOptions& input_options, BenchProgress& progress);

}  // namespace halyard::tools
