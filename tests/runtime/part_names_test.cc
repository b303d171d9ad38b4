// SPDX-License-Identifier: Apache-2.0
// What names of kernels are called beside the nodes of the model.
#include "runtime/part_names.h"

#include <gtest/gtest.h>

namespace halyard::runtime {
namespace {

TEST(PartNames, SayWhichNodesAKernelIs) {
  program::Program program;
  for (const char* node : {"conv1", "relu", "pool", "layer_2"})
    program.records.push_back({"source", node, "Op\nvalue"});
  program.records.push_back({"node", "conv1", "in dispatch 'conv1'"});
  program.records.push_back({"node", "conv1", "in dispatch 'relu'"});
  program.records.push_back({"node", "relu", "in dispatch 'relu'"});
  program.records.push_back({"node", "pool", "in dispatch 'pool'"});
  program.records.push_back({"node", "dropped", "folded by 'fold-constants'"});
  const PartNames parts(program);
  EXPECT_EQ(parts.Describe("conv1"), " (part of conv1)");
  EXPECT_EQ(parts.Describe("relu"), " (with part of conv1)");
  EXPECT_EQ(parts.Describe("pool"), "") << "it is that node";
  EXPECT_EQ(parts.Describe("conv1_2"), " (part of conv1)") << "before fusion";
  EXPECT_EQ(parts.Describe("layer_2"), "") << "a node's own name";
  EXPECT_EQ(parts.Describe("layer"), "");
  EXPECT_EQ(parts.Describe("other_3"), "");
  EXPECT_EQ(parts.Describe("17"), "");
  EXPECT_EQ(parts.Describe(""), "");
}

TEST(PartNames, OfManyNodesTheFirstAreNamed) {
  program::Program program;
  for (const char node : std::string("abcdefgh"))
    program.records.push_back({"node", std::string(1, node), "in dispatch 'all'"});
  EXPECT_EQ(PartNames(program).Describe("all"), " (a, b, c, d, e, f and 2 more)");
}

}  // namespace
}  // namespace halyard::runtime
