// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/kernel_nodes.h"

#include <algorithm>
#include <map>
#include <set>

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
  std::set<std::string_view> costly;  // names of nodes that are more than elementwise
  for (const graph::NodeId id : module.entry().nodes) {
    const graph::Node& node = module.nodes[id];
    if (node.constant == graph::kNone && ClassOf(node) != place::OpClass::kPointwise) {
      costly.insert(node.name);
    }
  }
  std::vector<bool> has_own(out.size(), false);  // a node that no other kernel has
  for (const auto& [name, kernels] : kernels_of) {
    if (kernels.size() == 1) has_own[*kernels.begin()] = true;
  }
  for (const auto& [name, kernels] : kernels_of) {
    const uint32_t first = *kernels.begin();
    const auto is_apart = [&](uint32_t kernel) {
      return has_own[kernel] && devices[kernel] == devices[first];
    };
    if (costly.contains(name) || !std::all_of(kernels.begin(), kernels.end(), is_apart)) continue;
    for (const uint32_t kernel : kernels) {
      if (kernel != first) std::erase(out[kernel], name);
    }
  }
  return out;
}

}  // namespace halyard::pipeline
