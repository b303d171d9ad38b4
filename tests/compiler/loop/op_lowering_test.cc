// SPDX-License-Identifier: Apache-2.0
// Every op example through lowering, before and after fusion, in the loop interpreter with parallel
// loops in both directions, against the reference evaluation. An op that has no lowering must be in
// the list of those that may have none.
#include <gtest/gtest.h>

#include <set>

#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/loop/interpreter.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/passes/loop_fuse.h"
#include "tests/compiler/ops/op_examples.h"

namespace halyard::loop {
namespace {

using graph::OpExample;
using graph::Tensor;

// Runs the function on the example's inputs and compares its outputs.
void Check(const Function& function, const OpExample& example, std::span<const Tensor> wanted,
           bool backwards) {
  std::vector<Tensor> buffers(function.buffers.size());
  size_t input = 0;
  for (BufferId b = 0; b < buffers.size(); ++b) {
    if (function.buffers[b].role == BufferRole::kInput) {
      const Tensor& given = example.inputs[input++];
      buffers[b] = Tensor{given.dtype, {given.elements()}, given.bytes};
    }
  }
  InterpretOptions options;
  options.reverse_parallel = backwards;
  const Status ran = InterpretFunction(function, options, buffers);
  ASSERT_TRUE(ran.ok()) << ran.ToString() << PrintFunction(function);
  size_t output = 0;
  for (BufferId b = 0; b < buffers.size(); ++b) {
    if (function.buffers[b].role != BufferRole::kOutput) continue;
    ASSERT_LT(output, wanted.size());
    Tensor got = buffers[b];
    got.dims = wanted[output].dims;
    const Status same =
        graph::CompareTensors(wanted[output], got, example.absolute, example.relative);
    EXPECT_TRUE(same.ok()) << same.ToString() << PrintFunction(function);
    ++output;
  }
  EXPECT_EQ(output, wanted.size());
}

TEST(OpLowering, EveryExampleMatchesTheReference) {
  std::set<std::string> refused;
  size_t checked = 0;
  for (const OpExample& example : graph::AllOpExamples(5)) {
    SCOPED_TRACE(example.name);
    Result<graph::Module> module = graph::ParseModule(example.text);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    Result<std::vector<Tensor>> wanted = graph::Interpret(*module, example.inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    Result<Function> function = LowerGraph(*module, 0, {});
    if (!function.ok()) {
      EXPECT_EQ(function.status().code(), StatusCode::kUnimplemented)
          << function.status().ToString();
      refused.insert(example.op + "/" + std::string(FormatDType(example.dtype)));
      continue;
    }
    const Status valid = VerifyFunction(*function);
    ASSERT_TRUE(valid.ok()) << valid.ToString() << PrintFunction(*function);
    Check(*function, example, *wanted, false);
    ASSERT_TRUE(FuseKernels(*function, {}, nullptr).ok());
    ASSERT_TRUE(VerifyFunction(*function).ok());
    Check(*function, example, *wanted, true);
    if (HasFailure()) return;
    ++checked;
  }
  EXPECT_GT(checked, 1500u);
  // The remainder of doubles needs products of 106 bits.
  EXPECT_EQ(refused, (std::set<std::string>{"rem/f64"}));
}

}  // namespace
}  // namespace halyard::loop
