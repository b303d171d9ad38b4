// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify_plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "compiler/place/plan.h"
#include "runtime/trial_run.h"

namespace halyard::runtime {
namespace {

constexpr int kWarmUps = 3;
constexpr int kMostRounds = 100;
constexpr int kLeastRounds = 30;
constexpr double kSeconds = 3;  // after the least rounds

std::set<uint32_t> DevicesInUse(const program::Program& program) {
  std::set<uint32_t> devices;
  for (const program::Entry& entry : program.entries) {
    for (const program::Block& block : entry.blocks) {
      if (!block.commands.empty()) devices.insert(block.device);
    }
  }
  return devices;
}

// The device on which placement expects everything to run fastest; without its record, the first
// one.
std::string BestSingleDevice(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind != "plan") continue;
    const auto plan = place::ParsePlan(record.text);
    if (!plan.ok()) continue;
    const place::Rival* best = nullptr;
    for (const place::Rival& rival : plan->rivals) {
      if (!rival.is_feasible || !rival.name.starts_with("all on '")) continue;
      if (best == nullptr || rival.makespan_seconds < best->makespan_seconds) best = &rival;
    }
    if (best == nullptr) continue;
    const size_t begin = std::strlen("all on '");
    return best->name.substr(begin, best->name.find('\'', begin) - begin);
  }
  return program.devices.front().name;
}

// Both programs in turn, until the medians of their times mean something. The first run behind the
// other program does not count: two drivers of one GPU take turns on it, and a change from one to
// the other is no part of a program that runs again and again.
Status RunInTurn(const CompileJob& job, TrialRun& a, TrialRun& b) {
  for (int i = 0; i < kWarmUps; ++i) {
    HY_TRY(a.Run());
    HY_TRY(b.Run());
  }
  a.ForgetTimes();
  b.ForgetTimes();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kMostRounds; ++i) {
    if (job.should_stop && job.should_stop()) return Aborted("Timing the plan was stopped.");
    for (TrialRun* run : {&a, &b}) {
      HY_TRY(run->WarmUp());
      HY_TRY(run->Run());
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i + 1 >= kLeastRounds && taken.count() > kSeconds) break;
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<LoadedProgram>> VerifyPlan(const std::shared_ptr<Instance>& instance,
                                                  const CompileJob& job,
                                                  std::shared_ptr<LoadedProgram> planned) {
  if (DevicesInUse(planned->program()).size() < 2) return planned;
  for (const place::Affinity& affinity : job.options.placement.affinities) {
    if (affinity.strength == place::Strength::kPrefer) continue;
    planned->AddRecord({"placement", "verify-plan",
                        fmt::format("The plan has no rival: the affinity '{}' has to hold.",
                                    place::FormatAffinity(affinity))});
    return planned;
  }
  const std::string name = BestSingleDevice(planned->program());
  CompileJob single = job;
  single.is_first = false;
  single.verify_plan = false;
  std::erase_if(single.devices, [&](const auto& device) { return device->path() != name; });
  auto rival = Compile(instance, std::move(single));
  if (rival.status().code() == StatusCode::kAborted) return rival.status();
  if (!rival.ok()) {
    planned->AddRecord({"placement", "verify-plan",
                        fmt::format("The plan has no rival: the program does not compile for '{}' "
                                    "alone: {}",
                                    name, rival.status().ToLine())});
    return planned;
  }
  HY_ASSIGN(TrialRun a, TrialRun::Make(planned));
  HY_ASSIGN(TrialRun b, TrialRun::Make(*rival));
  // Its inputs may be none that the model takes, such as an index out of range.
  if (const Status ran = RunInTurn(job, a, b); ran.code() == StatusCode::kOutOfRange) {
    planned->AddRecord(
        {"placement", "verify-plan", fmt::format("The plan was not timed: {}", ran.ToLine())});
    return planned;
  } else if (!ran.ok()) {
    return ran;
  }
  const double plan_seconds = a.MedianSeconds(), rival_seconds = b.MedianSeconds();
  const bool keeps_plan = plan_seconds <= rival_seconds;
  const auto& kept = keeps_plan ? planned : *rival;
  kept->AddRecord(
      {"placement", "verify-plan",
       fmt::format("The plan takes {:.3f} ms, everything on '{}' {:.3f} ms (medians of {} runs in "
                   "turn); {} is kept.",
                   plan_seconds * 1e3, name, rival_seconds * 1e3, a.count(),
                   keeps_plan ? "the plan" : "the single device")});
  return kept;
}

}  // namespace halyard::runtime
