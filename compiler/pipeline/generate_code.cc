// SPDX-License-Identifier: Apache-2.0
// The last pass: compiles the kernels of every executable for its target.
#include <atomic>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/pipeline/assemble.h"

namespace halyard::pipeline {
namespace {

// Below this many kernels the threads cost more than they save.
constexpr size_t kKernelsPerPart = 4;

}  // namespace

Status GenerateCode(CompileState& state) {
  // One executable becomes several images, compiled at the same time; each is self-contained.
  std::vector<program::Executable> executables;
  std::vector<kernel::Module> modules;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> new_place;  // [executable][entry] -> new place
  for (size_t e = 0; e < state.program.executables.size(); ++e) {
    program::Executable& whole = state.program.executables[e];
    const Target& target = state.program.devices[whole.device].target;
    if (target.kind != TargetKind::kCpu) {
      return Unimplemented("Device '{}' is no CPU; code is generated for CPUs only.",
                           state.program.devices[whole.device].name);
    }
    std::vector<kernel::Kernel>& kernels = state.executables[e].kernels;
    const size_t threads = std::max<size_t>(1, std::min<size_t>(target.worker_count, 64));
    const size_t parts = std::min(threads * 4, (kernels.size() + kKernelsPerPart - 1) / kKernelsPerPart);
    const size_t base = executables.size();
    executables.resize(base + parts);
    modules.resize(base + parts);
    new_place.emplace_back();
    for (size_t k = 0; k < kernels.size(); ++k) {
      const size_t part = base + k % parts;
      executables[part].device = whole.device;
      executables[part].format = "cpu-image";
      new_place[e].push_back({static_cast<uint32_t>(part),
                              static_cast<uint32_t>(executables[part].entries.size())});
      executables[part].entries.push_back(std::move(whole.entries[k]));
      modules[part].kernels.push_back(std::move(kernels[k]));
    }
  }

  std::vector<Status> failures(executables.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < executables.size(); i = next++) {
      failures[i] = CatchAll([&]() -> Status {
        const Target& target = state.program.devices[executables[i].device].target;
        HY_ASSIGN(cpu::CpuImage image, cpu::EmitCpuImage(modules[i], target));
        executables[i].code = std::move(image.bytes);
        return OkStatus();
      });
    }
  };
  const size_t helpers = std::min<size_t>(executables.size(), std::thread::hardware_concurrency());
  {
    std::vector<std::jthread> threads;  // joined on every way out
    for (size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
    work();
  }
  for (const Status& failure : failures) HY_TRY(failure);

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
