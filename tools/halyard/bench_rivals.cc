// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/bench_rivals.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "tools/halyard/bench_check.h"
#include "tools/halyard/clock.h"
#include "tools/halyard/interrupt.h"
#include "tools/halyard/rival_nvidia.h"
#include "tools/halyard/rival_onednn.h"
#include "tools/halyard/rival_report.h"

namespace halyard::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRivalSeconds = 2, kBlockSeconds = 0.02;
constexpr size_t kFewestBlocks = 5;

// Runs that follow each other, after one that is not timed: threads and caches of the other side
// have gone then.
template <typename Run>
void RunBlock(Run run, std::vector<double>* samples) {
  run();
  const Clock::time_point start = Clock::now();
  do {
    samples->push_back(run());
  } while (!IsInterrupted() && SecondsSince(start) < kBlockSeconds);
}

// How often the system has taken a processor from a thread of this process that was at work.
int64_t Interruptions() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Threads that Halyard runs on the device.
int WorkersOf(const hy::Device& device) {
  for (const hy_property& field : device.Properties("compute.usable_worker_count")) {
    if (field.source != HY_SOURCE_UNKNOWN) return static_cast<int>(field.integer);
  }
  return 1;
}

Json MeasureRival(const BenchOptions& options, Rival& rival, Runner& ours, BenchProgress& progress,
                  const Json& row) {
  Json json = Json::object();
  rival.Run();
  ours.Run();
  const Json errors = JudgeOutputs({"its result"}, {rival.Result()}, {ours.Results()[0]},
                                   "Halyard's", {options.rtol, options.atol});
  json["how"] = rival.Describe();
  if (errors.contains("wrong")) {
    json["error"] = errors["wrong"];
    return json;
  }
  json["errors"] = {{"max_abs_error", errors["max_abs_error"]},
                    {"max_rel_error", errors["max_rel_error"]}};
  std::vector<double> our_samples, samples;
  int64_t interruptions = 0;
  const Clock::time_point start = Clock::now();
  for (size_t block = 0;
       !IsInterrupted() && (block < kFewestBlocks || SecondsSince(start) < RivalSeconds(options));
       ++block) {
    RunBlock([&] { return ours.Run(); }, &our_samples);
    const int64_t before = Interruptions();
    RunBlock([&] { return rival.Run(); }, &samples);
    interruptions += Interruptions() - before;
    progress.Tick();
  }
  if (our_samples.empty() || samples.empty()) return json;
  json["ours"] = StatisticsJson(Describe(our_samples));
  json["latency"] = StatisticsJson(Describe(samples));
  json["interruptions"] = interruptions;
  if (!IsInterrupted()) AddRivalFigures(row, rival.KernelSeconds(), &json);
  return json;
}

}  // namespace

double RivalSeconds(const BenchOptions& options) {
  return options.op && !options.no_rivals && !options.cold_cache
             ? std::min(options.seconds, kRivalSeconds)
             : 0;
}

Json MeasureRivals(const BenchOptions& options, const ModelOptions& model_options,
                   const Inputs& inputs, const hy::Device& device, Runner& ours,
                   BenchProgress& progress, const Json& row) {
  Json list = Json::array();
  const std::string path = hy::ToString(device.info().path);
  RivalOffer offer;
  if (path.starts_with("cpu:")) {
    offer = OfferOneDnn(*options.op, inputs.tensors(), WorkersOf(device));
  } else if (path.starts_with("cuda:")) {
    progress.StartPhase("compiling with NVIDIA's library alone");
    offer = OfferNvidiaLibrary(options, model_options, inputs);
  } else {
    return list;
  }
  Json json = {{"library", offer.library}};
  if (!offer.rival) {
    json["error"] = offer.why_not;
  } else {
    progress.StartPhase("in turn with " + offer.library, RivalSeconds(options));
    try {
      json.update(MeasureRival(options, *offer.rival, ours, progress, row));
    } catch (const std::runtime_error& error) {  // of the library; the row is ours
      json["error"] = error.what();
    }
  }
  list.push_back(std::move(json));
  return list;
}

}  // namespace halyard::tools
