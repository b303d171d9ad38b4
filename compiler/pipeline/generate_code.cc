// SPDX-License-Identifier: Apache-2.0
// The last pass: compiles the kernels that no race has compiled. An executable of many kernels
// becomes several images, compiled at the same time; each is self-contained.
#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "compiler/codegen/codegen.h"
#include "compiler/pipeline/assemble.h"

namespace halyard::pipeline {
namespace {

constexpr size_t kKernelsPerPart = 4;

}  // namespace

Status GenerateCode(CompileState& state) {
  std::vector<program::Executable> executables;
  std::vector<kernel::Module> modules;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>>
      new_place;  // [executable][entry] -> new place
  for (size_t e = 0; e < state.program.executables.size(); ++e) {
    program::Executable& whole = state.program.executables[e];
    const Target& target = state.program.devices[whole.device].target;
    std::vector<kernel::Kernel>& kernels = state.executables[e].kernels;
    // The kernels of one CUDA image are compiled at the same time as it is.
    const bool splits = whole.code.empty() && target.kind != TargetKind::kCuda;
    const size_t parts =
        splits ? (whole.entries.size() + kKernelsPerPart - 1) / kKernelsPerPart : 1;
    const size_t base = executables.size();
    executables.resize(base + parts);
    modules.resize(base + parts);
    new_place.emplace_back();
    for (size_t k = 0; k < whole.entries.size(); ++k) {
      const size_t part = base + k % parts;
      new_place[e].push_back(
          {static_cast<uint32_t>(part), static_cast<uint32_t>(executables[part].entries.size())});
      executables[part].device = whole.device;
      executables[part].format = whole.format;
      executables[part].entries.push_back(std::move(whole.entries[k]));
      if (whole.code.empty()) modules[part].kernels.push_back(std::move(kernels[k]));
    }
    if (!whole.code.empty()) executables[base].code = std::move(whole.code);
  }

  std::atomic<size_t> done = 0;
  HY_TRY(ForEachInParallel(executables.size(), [&](size_t i) -> Status {
    if (!executables[i].code.empty()) return OkStatus();
    if (state.request != nullptr) HY_TRY(state.request->GoesOn());
    const Target& target = state.program.devices[executables[i].device].target;
    HY_ASSIGN(executables[i].code, EmitImage(modules[i], target));
    state.Advance(++done, executables.size());
    return OkStatus();
  }));

  for (program::Entry& entry : state.program.entries) {
    for (program::Block& block : entry.blocks) {
      for (program::Command& command : block.commands) {
        if (command.kind != program::CommandKind::kDispatch) continue;
        const auto [executable, index] = new_place[command.executable][command.entry];
        command.executable = executable;
        command.entry = index;
      }
    }
  }
  state.program.executables = std::move(executables);
  state.executables = std::move(modules);
  return program::Verify(state.program);
}

}  // namespace halyard::pipeline
