// SPDX-License-Identifier: Apache-2.0
#include "runtime/run_times.h"

#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "compiler/place/prediction.h"
#include "compiler/place/timings.h"
#include "runtime/device_target.h"

namespace halyard::runtime {
namespace {

constexpr size_t kFewestRuns = 3;
constexpr size_t kMostRuns = 1000;

std::optional<uint32_t> DeviceOf(const program::Program& program, const std::string& label) {
  for (const program::Entry& entry : program.entries) {
    for (const program::Block& block : entry.blocks) {
      for (const program::Command& command : block.commands) {
        if (command.label == label) return block.device;
      }
    }
  }
  return std::nullopt;
}

// Of the kernels with these labels, as the records of their schedules begin.
std::string ScheduleOf(const program::Program& program, const std::vector<std::string>& labels) {
  std::string out;
  for (const std::string& label : labels) {
    for (const program::Record& record : program.records) {
      if (record.kind != "schedule" || record.subject != label) continue;
      out += (out.empty() ? "" : " + ") + record.text.substr(0, record.text.find(':'));
    }
  }
  return out;
}

}  // namespace

void RunTimes::Add(const std::shared_ptr<LoadedProgram>& program, const RunProfile& profile) {
  if (program->timing_cache() == nullptr || !program->program().symbols.empty()) return;
  std::map<std::string_view, double> seconds;  // of this run, by label
  for (const TimedCommand& command : profile.commands()) {
    if (command.kind != TimedKind::kDispatch || command.device_ns <= 0) continue;
    seconds[command.label] += static_cast<double>(command.device_ns) * 1e-9;
  }
  Samples& samples = samples_[program];
  for (const auto& [label, one] : seconds) {
    std::vector<double>& all = samples.try_emplace(std::string(label)).first->second;
    if (all.size() < kMostRuns) all.push_back(one);
  }
}

void RunTimes::Store() const {
  for (const auto& [program, samples] : samples_) {
    for (const program::Record& record : program->program().records) {
      if (record.kind != place::kPredictedRecord) continue;
      const auto prediction = place::ParsePrediction(record.text);
      if (!prediction.ok() || prediction->key == 0) continue;
      double seconds = 0;
      for (const std::string& label : prediction->labels) {
        const auto found = samples.find(label);
        if (found == samples.end() || found->second.size() < kFewestRuns) {
          seconds = 0;
          break;
        }
        std::vector<double> all = found->second;
        std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(all.size() / 2),
                         all.end());
        seconds += all[all.size() / 2];
      }
      const auto device = DeviceOf(program->program(), prediction->labels.front());
      if (!(seconds > 0) || !device) continue;
      const uint64_t identity = HashString(IdentityOf(*program->device(*device)));
      const place::ClusterTime time{seconds, ScheduleOf(program->program(), prediction->labels)};
      const auto known = program->timing_cache()->FindTiming(identity, prediction->key);
      if (known && !place::IsBetterKnown(time, *known)) continue;
      program->timing_cache()->StoreTiming(identity, prediction->key,
                                           place::FormatClusterTime(time), seconds);
    }
  }
}

}  // namespace halyard::runtime
