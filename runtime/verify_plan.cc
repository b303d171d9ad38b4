// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify_plan.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "compiler/place/plan.h"
#include "runtime/device_target.h"
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

// What the plan is timed against: a device, and in words how much of the model it runs.
struct Single {
  std::string device;  // empty: there is none but the plan itself
  std::string what;
};

// The device with which placement expects the shortest run, another device helping with what it
// cannot do, if that is not the plan itself; without placement's record, the first one.
Single BestSingleDevice(const program::Program& program) {
  for (const program::Record& record : program.records) {
    if (record.kind != "plan") continue;
    const auto plan = place::ParsePlan(record.text);
    if (!plan.ok()) continue;
    std::vector<uint32_t> chosen;
    for (const place::Decision& decision : plan->decisions) chosen.push_back(decision.device);
    const place::Rival *best = nullptr, *same = nullptr;
    for (const place::Rival& rival : plan->rivals) {
      const bool is_single =
          rival.name.starts_with("all on '") || rival.name.starts_with("all that can be on '");
      if (!rival.is_feasible || !is_single) continue;
      if (rival.devices == chosen) {
        same = &rival;
      } else if (best == nullptr || rival.makespan_seconds < best->makespan_seconds) {
        best = &rival;
      }
    }
    if (best == nullptr) return {"", same == nullptr ? "" : same->name};
    const size_t begin = best->name.find('\'') + 1;
    return {best->name.substr(begin, best->name.rfind('\'') - begin), best->name};
  }
  const std::string& first = program.devices.front().name;
  return {first, fmt::format("all on '{}'", first)};
}

// The job for the device alone; the host's device of the job stays for what it cannot do. What was
// said of the others goes with them.
void KeepOnly(const std::string& name, CompileJob& job) {
  std::erase_if(job.devices, [&](const Ref<hal::Device>& device) {
    if (device->path() == name) return false;
    if (!IsHostDevice(*device)) return true;
    job.options.placement.last_resort = {std::string(device->path())};
    return false;
  });
  const auto is_gone = [&](const auto& said) {
    return std::none_of(job.devices.begin(), job.devices.end(),
                        [&](const auto& device) { return device->path() == said.device; });
  };
  std::erase_if(job.options.placement.affinities, is_gone);
  std::erase_if(job.options.placement.memory_caps, is_gone);
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
  const auto [name, what] = BestSingleDevice(planned->program());
  if (name.empty()) {
    planned->AddRecord({"placement", "verify-plan",
                        what.empty()
                            ? "The plan has no rival: no device has most of the model alone."
                            : fmt::format("The plan has no rival: it is {} already.", what)});
    return planned;
  }
  CompileJob single = job;
  single.is_first = false;
  single.verify_plan = false;
  KeepOnly(name, single);
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
       fmt::format(
           "The plan takes {:.3f} ms, {} {:.3f} ms (medians of {} runs in turn); {} is kept.",
           plan_seconds * 1e3, what, rival_seconds * 1e3, a.count(),
           keeps_plan ? "the plan" : "the single device")});
  return kept;
}

}  // namespace halyard::runtime
