// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/refusals.h"

#include <algorithm>
#include <cstdint>

#include "compiler/loop/lowering.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/pipeline/segment.h"

namespace halyard::pipeline {
namespace {

// The clusters that the kernel's nodes belong to do not run on the device.
bool Refuse(CompileState& state, const loop::Kernel& kernel, uint32_t device,
            const std::string& why) {
  bool is_new = false;
  for (const graph::NodeId id : state.module.entry().nodes) {
    const graph::Node& node = state.module.nodes[id];
    if (node.constant != graph::kNone) continue;
    const uint32_t cluster = state.cluster_of[id];
    if (state.device_of[cluster] != device) continue;
    if (std::find(kernel.nodes.begin(), kernel.nodes.end(), node.name) == kernel.nodes.end()) {
      continue;
    }
    is_new |= state.refusals.try_emplace({cluster, device}, why).second;
  }
  return is_new;
}

// Gives the nodes without a name one while it lives, by which kernels list what they compute.
class NamedNodes {
 public:
  explicit NamedNodes(graph::Module& module) : module_(module) {
    for (const graph::NodeId id : module.entry().nodes) {
      graph::Node& node = module.nodes[id];
      if (!node.name.empty() || node.results.empty()) continue;
      node.name = "%" + module.values[node.results[0]].name;
      named_.push_back(id);
    }
  }
  ~NamedNodes() {
    for (const graph::NodeId id : named_) module_.nodes[id].name.clear();
  }
  NamedNodes(const NamedNodes&) = delete;
  NamedNodes& operator=(const NamedNodes&) = delete;

 private:
  graph::Module& module_;
  std::vector<graph::NodeId> named_;
};

Result<bool> RefuseKernels(CompileState& state, const Segment& segment) {
  HY_ASSIGN(loop::Function function, loop::LowerGraph(state.module, segment.graph, {}));
  HY_TRY(loop::FuseKernels(function, {}, nullptr));
  const Target& target = state.program.devices[segment.device].target;
  bool is_new = false;
  for (uint32_t kernel = 0; kernel < function.kernels.size(); ++kernel) {
    const auto records = schedule::EnumerateSchedules(function, kernel, target);
    if (records.ok()) continue;
    if (records.status().code() != StatusCode::kUnimplemented) return records.status();
    is_new |= Refuse(state, function.kernels[kernel], segment.device,
                     std::string(records.status().message()));
  }
  return is_new;
}

}  // namespace

bool EndsLoops(const program::Device& device) {
  return device.target.kind != TargetKind::kCpu &&
         device.target.gpu.max_loop_iterations != INT64_MAX;
}

Result<bool> FindRefusals(CompileState& state) {
  const auto& devices = state.program.devices;
  if (std::none_of(devices.begin(), devices.end(), EndsLoops)) return false;
  const NamedNodes names(state.module);
  const size_t graphs = state.module.graphs.size();
  const size_t records = state.program.records.size();
  HY_TRY(CutSegments(state));
  std::vector<Segment> segments = std::move(state.segments);
  state.segments.clear();
  bool is_new = false;
  for (const Segment& segment : segments) {
    if (segment.is_interpreted || !EndsLoops(devices[segment.device])) continue;
    HY_ASSIGN(const bool more, RefuseKernels(state, segment));
    is_new = is_new || more;
  }
  state.module.graphs.resize(graphs);
  state.program.records.resize(records);
  return is_new;
}

}  // namespace halyard::pipeline
