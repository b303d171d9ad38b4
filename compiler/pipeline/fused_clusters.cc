// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/fused_clusters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/union_find.h"
#include "compiler/loop/lowering.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/pipeline/convex_clusters.h"
#include "compiler/pipeline/kernel_nodes.h"
#include "compiler/pipeline/place_clusters.h"
#include "compiler/pipeline/segment.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::NodeId;

std::vector<uint32_t> JoinClusters(const CompileState& state) {
  std::map<std::string_view, std::set<uint32_t>> kernels_of_name;
  std::set<NodeId> interpreted;
  uint32_t kernels = 0;
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) interpreted.insert(segment.interpreted_node);
    for (const loop::Kernel& kernel : segment.function.kernels) {
      for (const std::string& name : kernel.nodes) kernels_of_name[name].insert(kernels);
      ++kernels;
    }
  }
  // Nodes of one name may be apart; a cluster is whole in the only kernel that has any of its
  // names.
  std::map<uint32_t, std::set<uint32_t>> kernels_of;
  for (const NodeId id : state.module.entry().nodes) {
    if (state.module.nodes[id].constant != kNone || interpreted.count(id)) continue;
    const auto found = kernels_of_name.find(state.module.nodes[id].name);
    if (found == kernels_of_name.end()) continue;
    kernels_of[state.cluster_of[id]].insert(found->second.begin(), found->second.end());
  }
  // Whole clusters of one kernel are convex together, as the kernel is.
  const std::vector<std::string> wishes = WishesOf(state);
  std::map<std::pair<uint32_t, std::string_view>, uint32_t> first_of;  // kernel and wish: a cluster
  std::map<uint32_t, uint32_t> root_of;
  std::map<uint32_t, uint32_t> numbers;  // of roots, in node order
  std::vector<uint32_t> joined(state.cluster_of.size(), kNone);
  for (const NodeId id : state.module.entry().nodes) {
    const uint32_t cluster = state.cluster_of[id];
    const auto [root, is_new] = root_of.try_emplace(cluster, cluster);
    const auto found = kernels_of.find(cluster);
    if (is_new && found != kernels_of.end() && found->second.size() == 1) {
      root->second =
          first_of.try_emplace({*found->second.begin(), wishes[id]}, cluster).first->second;
    }
    joined[id] =
        numbers.try_emplace(root->second, static_cast<uint32_t>(numbers.size())).first->second;
  }
  return joined;
}

// Per node the kernels that have its name, as one number: kernels that share a node are one, such
// as a product and the copy that packs its operand, but for what each computes for itself. Nodes of
// no kernel, or of two devices, keep their clusters.
std::vector<uint32_t> KernelClusters(const CompileState& state) {
  const std::vector<std::vector<std::string_view>> nodes_of =
      NodesOfKernels(state.module, state.segments);
  std::vector<uint32_t> parent, devices;  // of kernels
  std::map<std::string_view, uint32_t> first_of;
  std::set<std::string_view> apart;
  std::set<NodeId> interpreted;
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) interpreted.insert(segment.interpreted_node);
    for (size_t k = 0; k < segment.function.kernels.size(); ++k) {
      const auto own = static_cast<uint32_t>(parent.size());
      parent.push_back(own);
      devices.push_back(segment.device);
      for (const std::string_view name : nodes_of[own]) {
        const uint32_t first = first_of.try_emplace(name, own).first->second;
        if (devices[first] != segment.device) {
          apart.insert(name);
        } else {
          parent[FindRoot(parent, own)] = FindRoot(parent, first);
        }
      }
    }
  }
  std::map<std::pair<bool, uint32_t>, uint32_t> numbers;  // of kernels and of clusters
  std::vector<uint32_t> out(state.cluster_of.size(), kNone);
  for (const NodeId id : state.module.entry().nodes) {
    const graph::Node& node = state.module.nodes[id];
    const auto found = first_of.find(node.name);
    const bool is_kernel = node.constant == kNone && interpreted.count(id) == 0 &&
                           found != first_of.end() && apart.count(node.name) == 0;
    const uint32_t number = is_kernel ? FindRoot(parent, found->second) : state.cluster_of[id];
    out[id] = numbers.try_emplace({is_kernel, number}, static_cast<uint32_t>(numbers.size()))
                  .first->second;
  }
  return out;
}

}  // namespace

Result<std::vector<uint32_t>> FusedClusters(CompileState& state) {
  ++state.trial_fusions;
  const size_t graphs = state.module.graphs.size(), records = state.program.records.size();
  const auto fuse = [&]() -> Status {
    HY_TRY(CutSegments(state));
    for (Segment& segment : state.segments) {
      if (segment.is_interpreted) continue;
      HY_ASSIGN(segment.function, loop::LowerGraph(state.module, segment.graph, {}));
      HY_TRY(loop::JoinKernels(segment.function, {}, nullptr));
    }
    return OkStatus();
  };
  const Status fused = fuse();
  std::vector<uint32_t> joined = fused.ok() ? JoinClusters(state) : std::vector<uint32_t>();
  state.segments.clear();
  state.module.graphs.resize(graphs);
  state.program.records.resize(records);
  HY_TRY(fused);
  SplitMutualClusters(state.module, state.cluster_of, &joined);
  return joined;
}

Status PredictKernels(CompileState& state) {
  const std::vector<NodeId>& order = state.module.entry().nodes;
  const auto is_clustered = [&](NodeId id) { return id < state.cluster_of.size(); };
  if (state.predictions.empty() || !std::all_of(order.begin(), order.end(), is_clustered)) {
    return OkStatus();
  }
  const std::vector<uint32_t> kernels = KernelClusters(state);
  std::map<uint32_t, uint32_t> devices;
  for (const NodeId id : order) {
    if (state.module.nodes[id].constant != kNone) continue;
    devices[kernels[id]] = state.device_of[state.cluster_of[id]];
  }
  state.cluster_of = kernels;
  state.refusals.clear();  // of clusters that are no more
  std::vector<std::string> notes;
  std::vector<uint32_t> cluster_of_item;
  HY_ASSIGN(const place::Problem problem,
            MakeProblem(state, MachineOf(state, &notes), &cluster_of_item));
  state.device_of.assign(state.module.nodes.size(), 0);
  for (const auto& [cluster, device] : devices) state.device_of[cluster] = device;
  state.predictions.assign(state.device_of.size(), {});
  for (size_t i = 0; i < cluster_of_item.size(); ++i) {
    const place::Item& item = problem.items[i];
    const place::Cost& cost = item.costs[devices[cluster_of_item[i]]];
    state.predictions[cluster_of_item[i]] = {item.work, cost.seconds, cost.source, item.key};
  }
  return OkStatus();
}

}  // namespace halyard::pipeline
