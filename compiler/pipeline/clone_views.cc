// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/clone_views.h"

#include <map>
#include <set>

#include "compiler/graph/builder.h"
#include "compiler/loop/lowering.h"
#include "compiler/ops/op_def.h"

namespace halyard::pipeline {
namespace {

using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class Cloner {
 public:
  explicit Cloner(graph::Module& module) : module_(module), builder_(module) {}

  Status Run() {
    FindViews();
    const std::vector<NodeId> nodes = module_.entry().nodes;
    size_t position = 0;
    for (const NodeId id : nodes) {
      if (is_compiled_[id] && !is_view_[id]) {
        builder_.InsertBefore(0, position);
        HY_TRY(GiveOwnViews(id));
        position = builder_.position();
      }
      ++position;
    }
    return OkStatus();
  }

 private:
  // Which nodes are views of one constant, maybe through others; and those that memory has to hold.
  void FindViews() {
    is_compiled_.assign(module_.nodes.size(), false);
    is_view_.assign(module_.nodes.size(), false);
    for (const NodeId id : module_.entry().nodes) {
      const Node& node = module_.nodes[id];
      if (node.constant != kNone) continue;
      is_compiled_[id] = loop::CanLower(module_, node).ok();
      if (!is_compiled_[id]) Hold(node.operands);
      if ((node.op->traits & graph::kView) == 0 || node.operands.size() != 1) continue;
      const NodeId producer = module_.values[node.operands[0]].producer;
      is_view_[id] = producer != kNone && is_compiled_[id] &&
                     (is_view_[producer] || module_.nodes[producer].constant != kNone);
    }
    Hold(module_.entry().results);
  }

  // Null where the value is no view of a constant.
  const Node* ViewOf(ValueId value) const {
    const NodeId producer = value == kNone ? kNone : module_.values[value].producer;
    const bool is_view = producer != kNone && producer < is_view_.size() && is_view_[producer];
    return is_view ? &module_.nodes[producer] : nullptr;
  }

  void Hold(const std::vector<ValueId>& values) {
    for (const ValueId value : values) {
      held_.insert(value);
      Take(value);
    }
  }

  // The views down to the constant have a reader.
  void Take(ValueId value) {
    for (const Node* view = ViewOf(value); view != nullptr; view = ViewOf(value)) {
      taken_.insert(value);
      value = view->operands[0];
    }
  }
  bool IsTaken(ValueId value) const {
    for (const Node* view = ViewOf(value); view != nullptr; view = ViewOf(value)) {
      if (taken_.count(value)) return true;
      value = view->operands[0];
    }
    return false;
  }

  Status GiveOwnViews(NodeId id) {
    std::map<ValueId, ValueId> own;  // a node that reads a view twice reads one
    builder_.SetNodeName(module_.nodes[id].name);
    for (size_t i = 0; i < module_.nodes[id].operands.size(); ++i) {
      const ValueId value = module_.nodes[id].operands[i];
      if (ViewOf(value) == nullptr || held_.count(value)) continue;
      const auto [entry, is_new] = own.try_emplace(value, value);
      if (is_new && IsTaken(value)) {
        HY_ASSIGN(entry->second, Clone(value));
      }
      if (is_new) Take(value);
      module_.nodes[id].operands[i] = entry->second;
    }
    return OkStatus();
  }

  Result<ValueId> Clone(ValueId value) {
    if (ViewOf(value) == nullptr) return value;
    const Node view = *ViewOf(value);
    HY_ASSIGN(const ValueId operand, Clone(view.operands[0]));
    return builder_.AddOne(view.op->name, {operand}, view.attributes);
  }

  graph::Module& module_;
  graph::Builder builder_;
  std::vector<bool> is_compiled_, is_view_;  // per node that was there before
  std::set<ValueId> held_;                   // values that memory holds
  std::set<ValueId> taken_;                  // views that have a reader
};

}  // namespace

Status CloneViews(CompileState& state) { return Cloner(state.module).Run(); }

}  // namespace halyard::pipeline
