// SPDX-License-Identifier: Apache-2.0
// What placement counts of a cluster.
#include "compiler/pipeline/cluster_work.h"

#include <gtest/gtest.h>

#include "compiler/pipeline/pipeline.h"

namespace halyard::pipeline {
namespace {

place::Work WorkOf(std::string_view text) {
  CompileState state;
  CompileRequest request;
  request.graph_text = text;
  request.devices.resize(1);
  state.request = &request;
  state.program.devices = request.devices;
  RunOptions run;
  run.stop_after = "verify";
  std::vector<PhaseTime> phases;
  EXPECT_TRUE(RunPasses(state, run, "", &phases).ok());
  std::vector<graph::NodeId> nodes;
  for (const graph::NodeId id : state.module.entry().nodes) {
    if (state.module.nodes[id].constant == graph::kNone) nodes.push_back(id);
  }
  std::vector<bool> leaves(state.module.values.size(), false);
  for (const graph::ValueId result : state.module.entry().results) leaves[result] = true;
  return CountWork(state.module, nodes, leaves);
}

TEST(ClusterWork, CountsFlopsAndBytes) {
  const place::Work product = WorkOf(
      "graph main(%x: f32[3, 5, 7], %w: f32[7, 11]) -> (%b) {\n"
      "  %a = matmul %x, %w : f32[3, 5, 11] \"a\"\n"
      "  %b = tanh %a : f32[3, 5, 11] \"b\"\n}\n");
  EXPECT_EQ(product.flops, 2.0 * 3 * 5 * 11 * 7 + 3 * 5 * 11);
  EXPECT_EQ(product.bytes, 4.0 * (3 * 5 * 7 + 7 * 11 + 3 * 5 * 11));
  EXPECT_EQ(product.op_class, place::OpClass::kContraction);
  EXPECT_EQ(product.results, 3.0 * 5 * 11);
  EXPECT_EQ(product.rows, 3 * 5);  // all of them meet one matrix
  EXPECT_EQ(product.columns, 11);
  const place::Work transposed = WorkOf(
      "graph main(%x: f32[7, 5], %w: f32[7, 11]) -> (%a) {\n"
      "  %a = matmul %x, %w {transpose_a = 1} : f32[5, 11] \"a\"\n}\n");
  EXPECT_EQ(transposed.flops, 2.0 * 5 * 11 * 7);
  EXPECT_EQ(transposed.rows, 5);
  const place::Work heads = WorkOf(
      "graph main(%x: f32[3, 5, 7], %w: f32[3, 7, 11]) -> (%a) {\n"
      "  %a = matmul %x, %w : f32[3, 5, 11] \"a\"\n}\n");
  EXPECT_EQ(heads.rows, 5);
  EXPECT_EQ(heads.results, 3.0 * 5 * 11);
  const place::Work conv = WorkOf(
      "graph main(%x: f32[2, 6, 10, 10], %w: f32[8, 3, 3, 3]) -> (%a) {\n"
      "  %a = conv %x, %w {strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], "
      "dilations = [1, 1], groups = 2} : f32[2, 8, 8, 8] \"a\"\n}\n");
  EXPECT_EQ(conv.flops, 2.0 * (2 * 8 * 8 * 8) * (3 * 3 * 3));
  EXPECT_EQ(conv.op_class, place::OpClass::kConvolution);
  EXPECT_EQ(conv.rows, 0);  // groups of channels are no one product
  const place::Work whole = WorkOf(
      "graph main(%x: f32[2, 6, 10, 10], %w: f32[8, 6, 3, 3]) -> (%a) {\n"
      "  %a = conv %x, %w {strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], "
      "dilations = [1, 1], groups = 1} : f32[2, 8, 8, 8] \"a\"\n}\n");
  EXPECT_EQ(whole.rows, 2 * 8 * 8);
  EXPECT_EQ(whole.columns, 8);
  // Rows of a table: what is read is what comes out, not the table.
  const place::Work rows = WorkOf(
      "graph main(%t: f32[100000, 64], %i: i64[5]) -> (%a) {\n"
      "  %a = gather %t, %i {axis = 0} : f32[5, 64] \"a\"\n}\n");
  EXPECT_EQ(rows.bytes, 4.0 * 5 * 64 * 2 + 8 * 5);
  EXPECT_EQ(rows.op_class, place::OpClass::kIndexing);
  const place::Work sum = WorkOf(
      "graph main(%x: f32[30, 70]) -> (%a) {\n"
      "  %a = reduce_sum %x {axes = [1], keep_dims = 0} : f32[30] \"a\"\n}\n");
  EXPECT_EQ(sum.flops, 30.0 * 70);
  // A row's elements take more to compute than to add; it is a reduction all the same.
  const place::Work pooled = WorkOf(
      "graph main(%x: f32[30, 70], %y: f32[30, 70]) -> (%a) {\n"
      "  %s = add %x, %y : f32[30, 70]\n"
      "  %r = tanh %s : f32[30, 70]\n"
      "  %a = reduce_sum %r {axes = [1], keep_dims = 0} : f32[30] \"a\"\n}\n");
  EXPECT_EQ(pooled.op_class, place::OpClass::kReduction);
  EXPECT_EQ(pooled.results, 30.0);
  // What sorting compares, and what finding the first few does.
  const place::Work sorted = WorkOf(
      "graph main(%x: f32[4, 1024]) -> (%a, %i) {\n"
      "  %a, %i = sort %x {axis = 1} : f32[4, 1024], i64[4, 1024] \"a\"\n}\n");
  EXPECT_EQ(sorted.flops, 4.0 * 1024 * 10);
  const place::Work few = WorkOf(
      "graph main(%x: f32[4, 1024]) -> (%a, %i) {\n"
      "  %a, %i = topk %x {axis = 1, k = [16]} : f32[4, 16], i64[4, 16] \"a\"\n}\n");
  EXPECT_EQ(few.flops, 4.0 * (1024 + 16 * 4));
  EXPECT_EQ(sum.op_class, place::OpClass::kReduction);
}

}  // namespace
}  // namespace halyard::pipeline
