// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/node_fates.h"

#include <vector>

namespace halyard::pipeline {
namespace {

using graph::NodeId;

bool IsNamed(const graph::Node& node) {
  return !node.name.empty() && node.constant == graph::kNone;
}

// The names of the nodes that the results need, those inside regions included.
std::set<std::string> NeededNames(const graph::Module& module) {
  std::set<std::string> names;
  std::vector<bool> is_seen(module.nodes.size(), false);
  std::vector<NodeId> open;
  const auto need = [&](graph::ValueId value) {
    const NodeId producer = value == graph::kNone ? graph::kNone : module.values[value].producer;
    if (producer == graph::kNone || is_seen[producer]) return;
    is_seen[producer] = true;
    open.push_back(producer);
  };
  for (const graph::ValueId result : module.entry().results) need(result);
  while (!open.empty()) {
    const graph::Node& node = module.nodes[open.back()];
    open.pop_back();
    if (IsNamed(node)) names.insert(node.name);
    for (const graph::ValueId operand : node.operands) need(operand);
    for (const uint32_t region : node.regions) {
      for (const graph::ValueId result : module.graphs[region].results) need(result);
    }
  }
  return names;
}

}  // namespace

void NodeFates::AfterPass(std::string_view pass, const CompileState& state) {
  const std::set<std::string> needed = NeededNames(state.module);
  if (all_.empty()) {
    for (const graph::Node& node : state.module.nodes) {
      if (IsNamed(node)) all_.insert(node.name);
    }
    pass = "";
  }
  for (const std::string& name : needed) {
    all_.insert(name);
    gone_.erase(name);
  }
  for (const std::string& name : all_) {
    if (!needed.contains(name)) gone_.try_emplace(name, pass);
  }
}

void NodeFates::Record(CompileState& state) const {
  // What is part of another node is where that one is, as long as that is not gone itself.
  std::erase_if(state.part_of, [&](const auto& part) {
    return !gone_.contains(part.first) || gone_.contains(part.second);
  });
  for (const auto& [name, pass] : gone_) {
    if (state.part_of.contains(name)) continue;
    state.Record(
        "node", name,
        pass.empty() ? "gone: no result needs it" : fmt::format("gone after pass '{}'", pass));
  }
}

}  // namespace halyard::pipeline
