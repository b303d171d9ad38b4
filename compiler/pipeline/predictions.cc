// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/predictions.h"

#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "base/union_find.h"
#include "compiler/pipeline/kernel_nodes.h"
#include "compiler/place/prediction.h"

namespace halyard::pipeline {
void RecordPredictions(CompileState& state) {
  if (state.predictions.empty()) return;
  const auto clusters = static_cast<uint32_t>(state.predictions.size());
  std::set<graph::NodeId> interpreted;
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) interpreted.insert(segment.interpreted_node);
  }
  std::map<std::string_view, std::set<uint32_t>> clusters_of;  // node name
  for (const graph::NodeId id : state.module.entry().nodes) {
    if (id >= state.cluster_of.size() || state.module.nodes[id].constant != graph::kNone) continue;
    if (interpreted.count(id)) continue;  // a kernel may have a node of its name
    clusters_of[state.module.nodes[id].name].insert(state.cluster_of[id]);
  }
  // Clusters, then kernels: joined where they share a node.
  std::vector<uint32_t> parent(clusters);
  std::iota(parent.begin(), parent.end(), 0u);
  std::vector<std::string_view> labels;
  const std::vector<std::vector<std::string_view>> nodes_of =
      NodesOfKernels(state.module, state.segments);
  for (const Segment& segment : state.segments) {
    for (const loop::Kernel& kernel : segment.function.kernels) {
      const auto own = static_cast<uint32_t>(parent.size());
      const size_t index = labels.size();
      parent.push_back(own);
      labels.push_back(kernel.name);
      for (const std::string_view node : nodes_of[index]) {
        for (const uint32_t cluster : clusters_of[node]) {
          parent[FindRoot(parent, cluster)] = FindRoot(parent, own);
        }
      }
    }
  }
  std::map<uint32_t, place::KernelPrediction> joined;
  std::map<uint32_t, double> longest;
  std::map<uint32_t, size_t> counts;  // of clusters
  for (uint32_t i = 0; i < labels.size(); ++i) {
    joined[FindRoot(parent, clusters + i)].labels.emplace_back(labels[i]);
  }
  for (uint32_t cluster = 0; cluster < clusters; ++cluster) {
    const auto found = joined.find(FindRoot(parent, cluster));
    if (found == joined.end()) continue;
    const ClusterPrediction& one = state.predictions[cluster];
    found->second.seconds += one.seconds;
    if (one.seconds > 0) found->second.key = ++counts[found->first] == 1 ? one.key : 0;
    double& most = longest[found->first];
    if (one.seconds < most) continue;
    most = one.seconds;
    found->second.work = one.work;
    found->second.source = one.source;
  }
  for (const auto& [root, prediction] : joined) {
    if (prediction.seconds <= 0) continue;
    state.Record(std::string(place::kPredictedRecord), prediction.labels.front(),
                 place::FormatPrediction(prediction));
  }
}

}  // namespace halyard::pipeline
