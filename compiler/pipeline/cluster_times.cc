// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/cluster_times.h"

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/pipeline/cluster_work.h"
#include "compiler/pipeline/kernel_nodes.h"

namespace halyard::pipeline {

std::vector<std::optional<uint64_t>> ClusterKeysOf(const CompileState& state,
                                                   const Segment& segment) {
  std::vector<std::optional<uint64_t>> keys(segment.function.kernels.size());
  if (state.cluster_of.empty() || state.module.graphs.empty()) return keys;
  const graph::Module& module = state.module;
  std::map<uint32_t, std::vector<graph::NodeId>> nodes_of;  // cluster -> its nodes
  std::map<std::string_view, uint32_t> cluster_of;          // node name -> cluster
  for (const graph::NodeId id : module.entry().nodes) {
    if (id >= state.cluster_of.size() || module.nodes[id].constant != graph::kNone) continue;
    const uint32_t cluster = state.cluster_of[id];
    nodes_of[cluster].push_back(id);
    // A name in two clusters says nothing.
    const auto [entry, is_new] = cluster_of.try_emplace(module.nodes[id].name, cluster);
    if (!is_new && entry->second != cluster) entry->second = graph::kNone;
  }
  const std::vector<std::vector<std::string_view>> nodes_of_kernels =
      NodesOfKernels(module, {&segment, 1});
  std::map<uint32_t, uint32_t> kernels_of;  // cluster -> how many kernels have a part of it
  std::vector<std::set<uint32_t>> clusters(keys.size());
  for (size_t k = 0; k < keys.size(); ++k) {
    for (const std::string_view name : nodes_of_kernels[k]) {
      const auto found = cluster_of.find(name);
      clusters[k].insert(found == cluster_of.end() ? graph::kNone : found->second);
    }
    for (const uint32_t cluster : clusters[k]) ++kernels_of[cluster];
  }
  for (size_t k = 0; k < keys.size(); ++k) {
    if (clusters[k].size() != 1) continue;
    const uint32_t cluster = *clusters[k].begin();
    if (cluster == graph::kNone || kernels_of[cluster] != 1) continue;
    keys[k] = WorkKey(module, nodes_of[cluster]);
  }
  return keys;
}

}  // namespace halyard::pipeline
