// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/convex_clusters.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::NodeId;

using Edges = std::map<uint32_t, std::set<uint32_t>>;

// Removes from `left`, again and again, what has no edge to another one that is left.
void RemoveEnds(const Edges& edges, const Edges& reverse, std::set<uint32_t>* left) {
  std::map<uint32_t, size_t> counts;
  std::vector<uint32_t> ends;
  const auto neighbours = [](const Edges& of, uint32_t cluster) {
    static const std::set<uint32_t> kEmpty;
    const auto found = of.find(cluster);
    return found == of.end() ? &kEmpty : &found->second;
  };
  for (const uint32_t cluster : *left) {
    for (const uint32_t other : *neighbours(edges, cluster)) counts[cluster] += left->count(other);
    if (counts[cluster] == 0) ends.push_back(cluster);
  }
  while (!ends.empty()) {
    const uint32_t cluster = ends.back();
    ends.pop_back();
    left->erase(cluster);
    for (const uint32_t other : *neighbours(reverse, cluster)) {
      if (left->count(other) > 0 && --counts[other] == 0) ends.push_back(other);
    }
  }
}

}  // namespace

void SplitMutualClusters(const graph::Module& module, std::span<const uint32_t> parts,
                         std::vector<uint32_t>* clusters) {
  const auto cluster_of = [&](NodeId id) {
    const bool is_constant =
        id == kNone || id >= clusters->size() || module.nodes[id].constant != graph::kNone;
    return is_constant ? kNone : (*clusters)[id];
  };
  Edges reads, readers;
  std::set<uint32_t> left;
  uint32_t next = 0;
  for (const uint32_t cluster : *clusters) {
    if (cluster != kNone) next = std::max(next, cluster + 1);
  }
  for (const NodeId id : module.entry().nodes) {
    const uint32_t cluster = cluster_of(id);
    if (cluster == kNone) continue;
    left.insert(cluster);
    for (const graph::ValueId operand : module.nodes[id].operands) {
      const uint32_t from = operand == kNone ? kNone : cluster_of(module.values[operand].producer);
      if (from == kNone || from == cluster) continue;
      reads[cluster].insert(from);
      readers[from].insert(cluster);
    }
  }
  RemoveEnds(reads, readers, &left);
  RemoveEnds(readers, reads, &left);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers;  // of clusters and parts
  std::set<uint32_t> seen;
  for (const NodeId id : module.entry().nodes) {
    const uint32_t cluster = cluster_of(id);
    if (left.count(cluster) == 0) continue;
    const auto [number, is_new] = numbers.try_emplace({cluster, parts[id]}, cluster);
    // The first part keeps the number.
    if (is_new && !seen.insert(cluster).second) number->second = next++;
    (*clusters)[id] = number->second;
  }
}

}  // namespace halyard::pipeline
