// SPDX-License-Identifier: Apache-2.0
// PartNames: what the compiler's names of kernels have to do with the nodes of the model, in words.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"

namespace halyard::runtime {

// A kernel is called by one of its nodes; where a node became several, the others have a number
// behind its name. Borrows nothing of the program.
class PartNames {
 public:
  explicit PartNames(const program::Program& program);

  // Behind the name of a kernel or dispatch: " (part of conv1, relu1)", or " (with relu1)" where
  // the name is that of one of its nodes; `part of` means that the node's other parts are other
  // kernels; empty where the name is that of its one node. Nodes stand in the order of the model,
  // each with its op where its name does not hold that: "t3 (Conv)". At most `most` of them.
  std::string Describe(std::string_view name, size_t most = 6) const;

  // A node as Describe names it: "t3 (Conv)".
  std::string WithOp(const std::string& node) const;

 private:
  std::string PartOf(const std::string& node) const;

  struct Source {
    size_t number;  // in the order of the model
    std::string op;
  };
  std::map<std::string, Source, std::less<>> nodes_;                       // of the model
  std::map<std::string, std::vector<std::string>, std::less<>> nodes_of_;  // by dispatch
  std::map<std::string, size_t> parts_;                                    // of a node: dispatches
};

}  // namespace halyard::runtime
