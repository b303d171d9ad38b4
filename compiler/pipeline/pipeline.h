// SPDX-License-Identifier: Apache-2.0
// The pipeline: the one list of passes from an ONNX file to a program, and the runner that times,
// dumps, disables and stops. A pass is a function on CompileState; what must come before what is
// data, checked when this is compiled.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// What a pass needs and gives: facts about the state.
enum Fact : uint32_t {
  kImported = 1u << 0,
  kShaped = 1u << 1,      // symbols bound, types final
  kSimplified = 1u << 2,  // folded, shape arithmetic gone
  kClustered = 1u << 3,
  kPlaced = 1u << 4,
  kSegmented = 1u << 5,
  kLowered = 1u << 6,
  kFused = 1u << 7,
  kScheduled = 1u << 8,
  kAssembled = 1u << 9,  // constants packed, memory and queues planned
  kCompiled = 1u << 10,
};

struct Pass {
  std::string_view name;
  std::string_view doc;  // one line
  Status (*run)(CompileState& state);
  uint32_t needs = 0;
  uint32_t gives = 0;
  Level level_before = Level::kGraph;
  Level level_after = Level::kGraph;
  bool can_disable = false;  // an optimisation: the result is the same without it
  // What a large model spends on it, for the progress that is told: of all passes, where schedules
  // race, and where they do not.
  int weight_raced = 1;
  int weight = 1;
};

std::span<const Pass> Passes();
const Pass* FindPass(std::string_view name);

struct RunOptions {
  std::string dump_folder;        // empty: no dumps
  std::string dump_passes = "*";  // "*" or names separated by commas
  std::string stop_after;         // empty: run to the end
  std::set<std::string, std::less<>> disabled;
};

// From HALYARD_DUMP, HALYARD_STOP_AFTER and HALYARD_DISABLE_PASS. INVALID_ARGUMENT on a
// name that is no pass.
Result<RunOptions> RunOptionsFromEnvironment();

// Runs the passes in order, skipping those before `first` (by name; empty: none). Phase times are
// appended. A pass that changed nothing writes no dump, but stands in the folder's index.txt.
Status RunPasses(CompileState& state, const RunOptions& options, std::string_view first,
                 std::vector<PhaseTime>* phases);

// The whole compilation: what hy_compiler_get hands to the runtime.
Result<CompileResult> Compile(const CompileRequest& request);
// Its first passes only: whether the source is a well-formed graph.
Status ImportAndVerify(const CompileRequest& request);

}  // namespace halyard::pipeline
