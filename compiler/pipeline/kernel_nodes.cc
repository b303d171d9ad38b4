// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/kernel_nodes.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ops/op_def.h"
#include "compiler/pipeline/cluster_work.h"

namespace halyard::pipeline {

std::vector<std::vector<std::string_view>> NodesOfKernels(const graph::Module& module,
                                                          std::span<const Segment> segments) {
  std::vector<std::vector<std::string_view>> out;
  std::vector<uint32_t> devices;
  std::map<std::string_view, std::set<uint32_t>> kernels_of;
  for (const Segment& segment : segments) {
    for (const loop::Kernel& kernel : segment.function.kernels) {
      for (const std::string& name : kernel.nodes) {
        kernels_of[name].insert(static_cast<uint32_t>(out.size()));
      }
      devices.push_back(segment.device);
      out.emplace_back(kernel.nodes.begin(), kernel.nodes.end());
    }
  }
  std::map<std::string_view, int> costly;  // names of nodes: how many are more than elementwise
  std::set<std::string_view> viewed;       // names of nodes that take no time, such as slices
  for (const graph::NodeId id : module.entry().nodes) {
    const graph::Node& node = module.nodes[id];
    if (node.constant != graph::kNone) continue;
    if (ClassOf(node) != place::OpClass::kPointwise) ++costly[node.name];
    if (node.op->traits & graph::kView) viewed.insert(node.name);
  }
  std::vector<bool> has_own(out.size(), false);         // a node that no other kernel has
  std::vector<bool> has_own_costly(out.size(), false);  // ... and that is costly
  for (const auto& [name, kernels] : kernels_of) {
    if (kernels.size() != 1) continue;
    has_own[*kernels.begin()] = true;
    if (costly.contains(name)) has_own_costly[*kernels.begin()] = true;
  }
  for (const auto& [name, kernels] : kernels_of) {
    const uint32_t first = *kernels.begin();
    const auto is_here = [&](uint32_t kernel) { return devices[kernel] == devices[first]; };
    if (!std::all_of(kernels.begin(), kernels.end(), is_here)) continue;
    const auto found = costly.find(name);
    // What reads parts of a product that stands for several has no more of it than the views.
    const bool reads_parts = found != costly.end() && found->second == 1 && viewed.contains(name);
    const bool is_cheap =
        found == costly.end() && std::all_of(kernels.begin(), kernels.end(),
                                             [&](uint32_t kernel) { return has_own[kernel]; });
    for (const uint32_t kernel : kernels) {
      if (kernel == first || !(is_cheap || (reads_parts && has_own_costly[kernel]))) continue;
      std::erase(out[kernel], name);
    }
  }
  return out;
}

}  // namespace halyard::pipeline
