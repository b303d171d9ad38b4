// SPDX-License-Identifier: Apache-2.0
// NodeFates: what became of every node of the model, for `halyard explain --node`. A node's source
// name vanishes from the graph when a pass folds, merges or drops it; the ones that stay end in a
// dispatch or in the interpreter, which assembly records.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/pipeline/state.h"

namespace halyard::pipeline {

// The nodes of the regions of `node` and of those inside them, but for constants.
std::vector<graph::NodeId> NodesInside(const graph::Module& module, const graph::Node& node);

// Used by the runner around the graph passes. Not thread-safe.
class NodeFates {
 public:
  // After each pass that leaves Graph IR: which names are gone, and since which pass.
  void AfterPass(std::string_view pass, const CompileState& state);
  // One `node` record for each name that is gone: the pass, or that no result ever needed it. None
  // for parts of other nodes (`part_of`, which keeps those alone that are gone by themselves):
  // assembly records them with those nodes.
  void Record(CompileState& state) const;

 private:
  std::set<std::string> all_;
  std::map<std::string, std::string, std::less<>> gone_;  // name -> pass; empty: never needed
};

// One `node` record for each place that computes a node: a dispatch or the interpreter. With a node
// those that became parts of it are recorded, with a merged product all that went into it, and with
// an interpreted node those of its regions.
void RecordHomes(CompileState& state);

}  // namespace halyard::pipeline
