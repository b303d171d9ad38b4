// SPDX-License-Identifier: Apache-2.0
#include "base/near_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace halyard {
namespace {

TEST(NearNames, FewAreAllToldInTheirOrder) {
  EXPECT_EQ(NamesLike("x", {}), "none");
  const std::vector<std::string> two = {"batch", "sequence"};
  EXPECT_EQ(NamesLike("sequenc", two), "'batch', 'sequence'");
}

TEST(NearNames, OfManyTheNearest) {
  const std::vector<std::string> many = {"conv1", "relu",  "/layer1/Conv", "pool",
                                         "gemm",  "conv2", "flatten"};
  EXPECT_EQ(NamesLike("conv3", many, 2), "'conv1', 'conv2' and 5 more");
  EXPECT_EQ(NamesLike("LAYER1", many, 1), "'/layer1/Conv' and 6 more");
  EXPECT_EQ(NamesLike("flaten", many, 1), "'flatten' and 6 more");
  EXPECT_EQ(NamesLike(std::string(100000, 'x'), many, 1).substr(0, 1), "'");
}

TEST(NearNames, WhatIsNotNearIsNotNamed) {
  const std::vector<std::string> known = {"conv", "relu", "x", "--version", "dispatch_conv_relu"};
  EXPECT_EQ(NamesNear("none", known), "");
  EXPECT_EQ(NamesNear("Conf", known), "'conv'");
  EXPECT_EQ(NamesNear("conv", known), "'conv', 'dispatch_conv_relu'");
  EXPECT_EQ(NamesNear("--versoin", known), "'--version'");
  EXPECT_EQ(NamesNear("img", known), "");
  EXPECT_EQ(NamesNear("", known, 1), "");
}

}  // namespace
}  // namespace halyard
