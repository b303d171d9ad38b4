// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/segment.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/union_find.h"
#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"
#include "compiler/pipeline/place_clusters.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool IsConstant(const Node& node) { return node.constant != kNone; }

// Why no device can compile the node; OK when one can.
Status WhyInterpreted(const graph::Module& module, const Node& node) {
  return IsConstant(node) ? OkStatus() : loop::CanLower(module, node);
}
bool IsInterpreted(const graph::Module& module, const Node& node) {
  return !WhyInterpreted(module, node).ok();
}

std::vector<uint32_t> CountUses(const graph::Module& module) {
  std::vector<uint32_t> uses(module.values.size(), 0);
  for (NodeId id : module.entry().nodes) {
    for (ValueId operand : module.nodes[id].operands) {
      if (operand != kNone) ++uses[operand];
    }
  }
  for (ValueId result : module.entry().results) ++uses[result];
  return uses;
}

}  // namespace

std::vector<std::string> WishesOf(const CompileState& state) {
  std::vector<std::string> wishes(state.module.nodes.size());
  if (state.request == nullptr) return wishes;
  const auto& affinities = state.request->options.placement.affinities;
  for (const NodeId id : state.module.entry().nodes) {
    const Node& node = state.module.nodes[id];
    for (size_t i = 0; i < affinities.size(); ++i) {
      if (MatchesNode(state, affinities[i].pattern, node)) {
        wishes[id] += fmt::format("{} ", i);
      }
    }
  }
  return wishes;
}

Status ClusterNodes(CompileState& state) {
  const graph::Module& module = state.module;
  std::vector<uint32_t> parent(module.nodes.size());
  std::iota(parent.begin(), parent.end(), 0u);
  const std::vector<uint32_t> uses = CountUses(module);
  const std::vector<std::string> wishes = WishesOf(state);
  // Views of constants, such as a bias that is broadcast: part of what reads them.
  std::vector<bool> is_view_of_constant(module.nodes.size(), false);
  for (NodeId id : module.entry().nodes) {
    const Node& node = module.nodes[id];
    if (IsConstant(node) || IsInterpreted(module, node)) continue;
    is_view_of_constant[id] = (node.op->traits & graph::kView) != 0;
    for (ValueId operand : node.operands) {
      const NodeId producer = operand == kNone ? kNone : module.values[operand].producer;
      if (producer == kNone) {
        is_view_of_constant[id] = is_view_of_constant[id] && operand == kNone;
        continue;
      }
      if (is_view_of_constant[producer] && uses[operand] == 1 && wishes[id] == wishes[producer]) {
        parent[FindRoot(parent, producer)] = FindRoot(parent, id);
      }
      if (!IsConstant(module.nodes[producer]) && !is_view_of_constant[producer]) {
        is_view_of_constant[id] = false;
      }
    }
    for (ValueId operand : node.operands) {
      if (operand == kNone) continue;
      const NodeId producer = module.values[operand].producer;
      if (producer == kNone || is_view_of_constant[producer]) continue;
      const Node& source = module.nodes[producer];
      if (IsConstant(source) || IsInterpreted(module, source)) continue;
      // A pointwise or view node joins the producer that nothing else reads; so does a reduction of
      // a pointwise value. Two templates never share a cluster.
      const bool joins = node.op->traits & (graph::kElementwise | graph::kView | graph::kReduction);
      if (joins && uses[operand] == 1 && wishes[id] == wishes[producer]) {
        parent[FindRoot(parent, id)] = FindRoot(parent, producer);
        break;
      }
    }
  }
  state.cluster_of.assign(module.nodes.size(), kNone);
  std::map<uint32_t, uint32_t> numbers;  // root -> cluster, in node order
  for (NodeId id : module.entry().nodes) {
    const auto [entry, is_new] =
        numbers.try_emplace(FindRoot(parent, id), static_cast<uint32_t>(numbers.size()));
    state.cluster_of[id] = entry->second;
  }
  state.device_of.assign(numbers.size(), 0);
  return OkStatus();
}

}  // namespace halyard::pipeline
