// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/node_fates.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/ops/op_def.h"

namespace halyard::pipeline {
namespace {

using graph::NodeId;

bool IsNamed(const graph::Node& node) {
  return !node.name.empty() && node.constant == graph::kNone;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
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

std::vector<NodeId> NodesInside(const graph::Module& module, const graph::Node& node) {
  std::vector<NodeId> inside;
  std::vector<uint32_t> open = node.regions;
  while (!open.empty()) {
    const uint32_t region = open.back();
    open.pop_back();
    for (const NodeId id : module.graphs[region].nodes) {
      const graph::Node& one = module.nodes[id];
      if (one.is_dead || one.constant != graph::kNone) continue;
      inside.push_back(id);
      open.insert(open.end(), one.regions.begin(), one.regions.end());
    }
  }
  return inside;
}

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
  std::erase_if(state.merged_products, [&](const auto& one) { return gone_.contains(one.first); });
  std::set<std::string> merged;
  for (const auto& [product, parts] : state.merged_products) {
    merged.insert(parts.begin(), parts.end());
  }
  for (const auto& [name, pass] : gone_) {
    if (state.part_of.contains(name) || merged.contains(name)) continue;
    state.Record(
        "node", name,
        pass.empty() ? "gone: no result needs it" : fmt::format("gone after pass '{}'", pass));
  }
}

void RecordHomes(CompileState& state) {
  struct Home {
    std::vector<std::string> names;
    std::string text;
    bool is_product = false;
  };
  std::vector<Home> homes;  // in execution order
  for (const Segment& segment : state.segments) {
    if (segment.is_interpreted) {
      const graph::Node& node = state.module.nodes[segment.interpreted_node];
      homes.push_back({{node.name}, "in the interpreter", node.op->name == "matmul"});
      Home inside{{}, fmt::format("in the interpreter, inside '{}'", node.name)};
      for (const NodeId id : NodesInside(state.module, node)) {
        const std::string& name = state.module.nodes[id].name;
        if (!name.empty() && !Contains(inside.names, name)) inside.names.push_back(name);
      }
      homes.push_back(std::move(inside));
      continue;
    }
    for (const loop::Kernel& kernel : segment.function.kernels) {
      homes.push_back({kernel.nodes, fmt::format("in dispatch '{}'", kernel.name),
                       kernel.template_kind == loop::TemplateKind::kContraction});
    }
  }
  for (const auto& one : state.merged_products) {
    const auto& product = one.first;  // Clang 14 captures no structured binding
    const auto& parts = one.second;
    // Slices of the product have its name, too, and kernels that read them; they come behind it.
    const auto computes = [&product](const Home& home) {
      return home.is_product && Contains(home.names, product);
    };
    auto home = std::find_if(homes.begin(), homes.end(), [&](const Home& other) {
      return computes(other) && other.names.front() == product;
    });
    if (home == homes.end()) home = std::find_if(homes.begin(), homes.end(), computes);
    if (home == homes.end()) continue;
    for (const std::string& part : parts) {
      if (!part.empty() && !Contains(home->names, part)) home->names.push_back(part);
    }
  }
  for (const Home& home : homes) {
    for (const std::string& name : home.names) {
      state.Record("node", name, home.text);
      for (const auto& [part, whole] : state.part_of) {
        if (whole == name) state.Record("node", part, home.text);
      }
    }
  }
}

}  // namespace halyard::pipeline
