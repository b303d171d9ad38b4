// SPDX-License-Identifier: Apache-2.0
// What names of kernels are called beside the nodes of the model.
#include "runtime/part_names.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace halyard::runtime {
namespace {

TEST(PartNames, SayWhichNodesAKernelIs) {
  program::Program program;
  for (const char* node : {"conv1", "relu", "pool", "layer_2"})
    program.records.push_back({"source", node, std::string(node) + "\nvalue"});
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

TEST(PartNames, NodesStandInTheOrderOfTheModelWithOpsThatTheirNamesDoNotTell) {
  program::Program program;
  program.records.push_back({"source", "/norm/LayerNorm_1", "LayerNorm\nn"});
  program.records.push_back({"source", "t3", "Conv\nt3"});
  program.records.push_back({"source", "t4", "Relu\nt4"});
  for (const char* node : {"t4", "/norm/LayerNorm_1", "t3"})
    program.records.push_back({"node", node, "in dispatch '_t4'"});
  program.records.push_back({"node", "t3", "in dispatch 't3_2'"});
  const PartNames parts(program);
  EXPECT_EQ(parts.Describe("_t4"), " (/norm/LayerNorm_1, part of t3 (Conv), t4 (Relu))");
  EXPECT_EQ(parts.Describe("t3_2"), " (part of t3 (Conv))");
}

TEST(PartNames, OfManyNodesTheFirstAreNamed) {
  program::Program program;
  for (const char node : std::string("abcdefgh"))
    program.records.push_back({"node", std::string(1, node), "in dispatch 'all'"});
  EXPECT_EQ(PartNames(program).Describe("all"), " (a, b, c, d, e, f and 2 more)");
  EXPECT_EQ(PartNames(program).Describe("all", SIZE_MAX), " (a, b, c, d, e, f, g, h)");
}

}  // namespace
}  // namespace halyard::runtime
