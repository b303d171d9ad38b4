// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/gpu/dependent_launch.h"

#include <algorithm>

#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/opcode.h"

namespace halyard::schedule {

using kernel::Opcode;

namespace {

// No dispatch of the program writes it.
bool IsConstant(const loop::Function& function, const Binding& binding) {
  if (binding.kind == Binding::Kind::kConstant) return true;
  return binding.kind == Binding::Kind::kBuffer &&
         function.buffers[binding.index].role == loop::BufferRole::kConstant;
}

// Products that load the operands of a step into registers before they multiply those of another.
bool LoadsAhead(const ScheduleRecord& record) {
  return record.kind == ScheduleKind::kGpuTile ||
         (record.kind == ScheduleKind::kGpuMatrix && !record.async);
}

kernel::OpId AddOp(kernel::Kernel& kernel, Opcode opcode) {
  kernel::Op op{};
  op.opcode = opcode;
  kernel.ops.push_back(std::move(op));
  return static_cast<kernel::OpId>(kernel.ops.size() - 1);
}

}  // namespace

void PlaceAwaits(const loop::Function& function, const Target& target, ScheduledKernel& scheduled) {
  if (target.kind != TargetKind::kCuda) return;
  const bool has_early =
      (target.gpu.features & static_cast<uint64_t>(GpuFeature::kDependentLaunch)) != 0;
  for (const Dispatch& dispatch : scheduled.dispatches) {
    if (!has_early && !LoadsAhead(scheduled.record)) continue;
    kernel::Kernel& kernel = scheduled.kernels[dispatch.kernel];
    kernel.begins_early = kernel.begins_early && has_early && dispatch.begins_early;
    const int64_t* size = kernel.workgroup_size;
    if (size[0] * size[1] * size[2] == 1 && kernel.subgroup_size == 0) continue;
    if (std::any_of(kernel.ops.begin(), kernel.ops.end(),
                    [](const kernel::Op& op) { return op.opcode == Opcode::kAwaitDispatches; })) {
      continue;
    }
    std::vector<kernel::BufferId> changing;
    for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
      if (!IsConstant(function, dispatch.bindings[i])) {
        changing.push_back(static_cast<kernel::BufferId>(i));
      }
    }
    const kernel::OpId await = AddOp(kernel, Opcode::kAwaitDispatches);
    std::vector<kernel::OpId>& body = kernel.blocks[0].ops;
    // A late one has nothing to do before, and nothing begins before it ends.
    if (!kernel.begins_early) {
      body.insert(body.begin(), await);
      continue;
    }
    const kernel::OpId release = AddOp(kernel, Opcode::kReleaseDispatches);
    const auto touches = [&](kernel::OpId id) {
      return std::any_of(changing.begin(), changing.end(), [&](kernel::BufferId buffer) {
        return kernel::Touches(kernel, kernel.ops[id], buffer);
      });
    };
    // Before the results are stored, and not at the start: workgroups that wait are placed where
    // there is room, not evenly.
    const auto last = std::find_if(body.rbegin(), body.rend(), touches);
    body.insert(last == body.rend() ? body.end() : last.base() - 1, release);
    body.insert(std::find_if(body.begin(), body.end(), touches), await);
  }
}

}  // namespace halyard::schedule
