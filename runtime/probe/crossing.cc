// SPDX-License-Identifier: Apache-2.0
// What a border between two devices costs a program: one whose kernels alternate between both,
// against the same graph on one of them, both run as programs are. Threads that sleep and wake up,
// submissions, transfer commands and their copies are in the difference; a wait with nothing behind
// it, as kWait has it, shows a part of that only.
#include <algorithm>

#include "compiler/place/machine.h"
#include "runtime/compiler_library.h"
#include "runtime/device_target.h"
#include "runtime/loaded_program.h"
#include "runtime/probe/prober.h"
#include "runtime/trial_run.h"

namespace halyard::runtime {
namespace {

constexpr int kVisits = 4;                  // of the other device
constexpr int kProductsBetween = 3;         // between two visits, each behind the one before
constexpr int64_t kRows = 16, kSide = 128;  // of the products
static_assert(kRows * kSide * 4 == place::kCrossingBytes);
constexpr double kCrossingSeconds = 0.2;

std::string AlternatingGraph() {
  const std::string type = fmt::format("f32[{}, {}]", kRows, kSide);
  std::string text =
      fmt::format("graph g(%x: {}, %w: f32[{}, {}]) -> (\"y\" = %last) {{\n", type, kSide, kSide);
  std::string before = "x";
  const auto products = [&](int visit) {
    for (int p = 0; p < kProductsBetween; ++p) {
      std::string name = fmt::format("here{}_{}", visit, p);
      if (visit == kVisits && p + 1 == kProductsBetween) name = "last";
      text += fmt::format("  %{0} = matmul %{1}, %w : {2} \"here_{0}\"\n", name, before, type);
      before = name;
    }
  };
  for (int visit = 0; visit < kVisits; ++visit) {
    products(visit);
    text += fmt::format("  %there{0} = neg %{1} : {2} \"there_{0}\"\n", visit, before, type);
    before = fmt::format("there{}", visit);
  }
  products(kVisits);
  return text + "}\n";
}

Result<TrialRun> CompileFor(const Prober& prober, const std::vector<Ref<hal::Device>>& devices,
                            const std::string& graph) {
  HY_ASSIGN(const CompilerTable* compiler, OpenCompilerLibrary());
  CompileRequest request;
  request.graph_text = graph;
  for (const Ref<hal::Device>& device : devices) {
    request.devices.push_back({std::string(device->path()), TargetOf(*device), IdentityOf(*device),
                               IsHostDevice(*device)});
  }
  request.options.allow_fallback = false;
  request.options.tune = false;
  request.should_stop = [&] { return prober.SecondsLeft() <= 0; };
  if (devices.size() > 1) {
    request.options.placement.affinities = {
        {"here_*", std::string(devices[0]->path()), place::Strength::kRequire},
        {"there_*", std::string(devices[1]->path()), place::Strength::kRequire}};
  }
  auto result = compiler->compile(request);
  if (!result.ok() && request.should_stop())
    return DeadlineExceeded("The time was over before the program was compiled.");
  HY_ASSIGN(CompileResult compiled, std::move(result));
  HY_TRY(program::Verify(compiled.program));
  std::vector<Ref<hal::Device>> used;
  for (const program::Device& wanted : compiled.program.devices) {
    for (const Ref<hal::Device>& device : devices) {
      if (device->path() == wanted.name) used.push_back(device);
    }
  }
  HY_ASSIGN(auto loaded, LoadedProgram::Load(std::move(compiled.program), std::move(used)));
  return TrialRun::Make(std::move(loaded));
}

// Transfers of a program in one run.
size_t CountTransfers(const program::Program& program) {
  size_t count = 0;
  for (const program::Block& block : program.entries.front().blocks) {
    count += static_cast<size_t>(std::count_if(
        block.commands.begin(), block.commands.end(),
        [](const auto& command) { return command.kind == program::CommandKind::kTransfer; }));
  }
  return count;
}

Result<Reading> TimeCrossing(Prober& prober, const Ref<hal::Device>& other) {
  const std::string graph = AlternatingGraph();
  HY_ASSIGN(TrialRun both, CompileFor(prober, {prober.device_ref(), other}, graph));
  HY_ASSIGN(TrialRun alone, CompileFor(prober, {prober.device_ref()}, graph));
  const size_t crossings = CountTransfers(both.program()->program());
  if (crossings != 2 * kVisits) {
    return FailedPrecondition("The program has {} transfers; {} are needed.", crossings,
                              2 * kVisits);
  }
  const auto seconds = [](TrialRun& run) -> Result<double> {
    run.ForgetTimes();
    HY_TRY(run.Run());
    return run.MedianSeconds();
  };
  const DeviceTurn::Hold turn = prober.TakeTurn();
  SampleOptions sampling = prober.Sampling(turn, kCrossingSeconds);
  sampling.min_count = 9;
  Reading reading;
  HY_ASSIGN(reading.seconds, Sample(
                                 [&]() -> Result<double> {
                                   HY_ASSIGN(const double crossed, seconds(both));
                                   HY_ASSIGN(const double stayed, seconds(alone));
                                   return (crossed - stayed) / (2 * kVisits);
                                 },
                                 sampling));
  if (reading.seconds.median <= 0) {
    return FailedPrecondition("Programs over both took no longer than those on one of them.");
  }
  reading.seconds.best = std::max(reading.seconds.best, 0.0);
  reading.kind = ReadingKind::kCrossing;
  reading.from = "device";
  reading.to = std::string(other->path());
  reading.bytes = place::kCrossingBytes;
  return reading;
}

}  // namespace

Status ProbeCrossing(Prober& prober, const Ref<hal::Device>& other) {
  const std::string what = fmt::format("crossings to {}", other->path());
  if (!prober.Begins(what)) return OkStatus();
  auto reading = TimeCrossing(prober, other);
  if (!reading.ok()) return prober.Note(what, reading.status());
  prober.Add(std::move(*reading));
  return OkStatus();
}

}  // namespace halyard::runtime
