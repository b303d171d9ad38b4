// SPDX-License-Identifier: Apache-2.0
// FusionStory: the decisions of fusion as records for `explain`, in words of the model. Fusion
// itself speaks of loop nests, most of which are gone when it ends; a reader knows the nodes of the
// model and the kernels that are left.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/loop/loop_ir.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/program/program.h"

namespace halyard::pipeline {

class FusionStory {
 public:
  // `function` as it is before fusion. Borrows nothing of it.
  explicit FusionStory(const loop::Function& function);

  // One record for each decision, whose subject is the kernel that holds the consumer at the end:
  // "'relu1' joins 'conv1': REASON." between nodes, "Parts of 'softmax' join: REASON." inside one,
  // "stays apart from 'conv1_2': REASON." between kernels. Equal ones are told once.
  std::vector<program::Record> Tell(const std::vector<loop::FusionRecord>& records) const;

 private:
  // The node that a nest was made for; of one without nodes the name of the nest.
  const std::string& NodeOf(const std::string& nest) const;

  std::map<std::string, std::string> node_of_;  // by name of a nest
};

}  // namespace halyard::pipeline
