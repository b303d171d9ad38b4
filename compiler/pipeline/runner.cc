// SPDX-License-Identifier: Apache-2.0
// The runner of the pipeline: timing, dumps, disabling and stop-after.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "base/near_names.h"
#include "compiler/pipeline/node_fates.h"
#include "compiler/pipeline/pipeline.h"

namespace halyard::pipeline {
namespace {

std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) names.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return names;
}

Status CheckNames(std::string_view variable, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == "*" || FindPass(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const Pass& pass : Passes()) known.emplace_back(pass.name);
    return InvalidArgument("{} names '{}', which is no pass; there are {}.", variable, name,
                           NamesLike(name, known));
  }
  return OkStatus();
}

bool IsNamed(const std::vector<std::string>& names, std::string_view name) {
  for (const std::string& candidate : names) {
    if (candidate == "*" || candidate == name) return true;
  }
  return false;
}

// Numbered files of one compilation; the text before and after a pass decides whether it changed
// anything.
class Dumper {
 public:
  Dumper(const RunOptions& options)
      : folder_(options.dump_folder), names_(SplitNames(options.dump_passes)) {}

  Status AfterPass(size_t number, const Pass& pass, const CompileState& state) {
    if (folder_.empty()) return OkStatus();
    HY_ASSIGN(std::string text, FormatState(state));
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    const std::string file = fmt::format("{:02}-{}.hy", number, pass.name);
    std::ofstream index(folder_ / "index.txt", number == 0 ? std::ios::trunc : std::ios::app);
    const bool changed = text != last_;
    index << file << (changed ? "" : " (unchanged)") << "\n";
    if (changed && IsNamed(names_, pass.name)) {
      std::ofstream(folder_ / file) << text;
    }
    last_ = std::move(text);
    if (!index) return Unavailable("The dump folder '{}' cannot be written.", folder_.string());
    return OkStatus();
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  std::string last_;
};

// What of the whole passes in front of pass `end` are, where those of `options` are left out.
double ShareBefore(size_t end, const CompileState& state, const RunOptions& options) {
  const bool races =
      state.request != nullptr && state.request->options.tune && state.request->measurer != nullptr;
  int before = 0, all = 0;
  for (size_t i = 0; i < Passes().size(); ++i) {
    const Pass& pass = Passes()[i];
    if (options.disabled.count(pass.name)) continue;
    const int weight = races ? pass.weight_raced : pass.weight;
    all += weight;
    if (i < end) before += weight;
  }
  return static_cast<double>(before) / all;
}

}  // namespace

const Pass* FindPass(std::string_view name) {
  for (const Pass& pass : Passes()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

Result<RunOptions> RunOptionsFromEnvironment() {
  RunOptions options;
  const std::string dump = EnvString(EnvVar::kDump);
  if (!dump.empty()) {
    const size_t at = dump.find('@');
    options.dump_passes = dump.substr(0, at);
    options.dump_folder = at == std::string::npos ? "." : dump.substr(at + 1);
    HY_TRY(CheckNames("HALYARD_DUMP", SplitNames(options.dump_passes)));
  }
  options.stop_after = EnvString(EnvVar::kStopAfter);
  if (!options.stop_after.empty()) HY_TRY(CheckNames("HALYARD_STOP_AFTER", {options.stop_after}));
  for (std::string& name : SplitNames(EnvString(EnvVar::kDisablePass))) {
    HY_TRY(CheckNames("HALYARD_DISABLE_PASS", {name}));
    const Pass* pass = FindPass(name);
    if (pass == nullptr || !pass->can_disable) {
      std::vector<std::string> known;
      for (const Pass& one : Passes()) {
        if (one.can_disable) known.emplace_back(one.name);
      }
      return InvalidArgument(
          "HALYARD_DISABLE_PASS names '{}', which cannot be disabled: later passes need what it "
          "gives; {} can be.",
          name, NamesLike(name, known, known.size()));
    }
    options.disabled.insert(std::move(name));
  }
  return options;
}

Status RunPasses(CompileState& state, const RunOptions& options, std::string_view first,
                 std::vector<PhaseTime>* phases) {
  const std::span<const Pass> passes = Passes();
  Dumper dumper(options);
  NodeFates fates;
  bool is_started = first.empty();
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    is_started = is_started || pass.name == first;
    if (!is_started || options.disabled.count(pass.name)) continue;
    if (state.request != nullptr) HY_TRY(state.request->GoesOn());
    if (state.progress != nullptr) {
      state.progress->Begin(pass.name, ShareBefore(i, state, options),
                            ShareBefore(i + 1, state, options));
    }
    const auto start = std::chrono::steady_clock::now();
    HY_TRY(pass.run(state));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    state.level = pass.level_after;
    if (state.level == Level::kGraph) fates.AfterPass(pass.name, state);
    if (state.level == Level::kLoop && pass.level_before == Level::kGraph) fates.Record(state);
    if (phases != nullptr) phases->push_back({std::string(pass.name), elapsed.count()});
    HY_TRY_CONTEXT(dumper.AfterPass(i, pass, state), "dumping the result of pass '{}'", pass.name);
    if (pass.name == options.stop_after) break;
  }
  return OkStatus();
}

}  // namespace halyard::pipeline
