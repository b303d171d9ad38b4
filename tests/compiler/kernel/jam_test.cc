// SPDX-License-Identifier: Apache-2.0
// Rows side by side give what rows one after the other give, whatever is left over; loops inside
// become one, and what no row changes is read once.
#include "compiler/kernel/jam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

constexpr int64_t kColumns = 8;

// y[i] = (x[i] + w) over the sum of that, by way of memory of the task; odd rows become 0 where
// their sum is below 20.
Kernel Rows() {
  Builder b("rows");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kRead);
  const BufferId w = b.Parameter("w", DType::kF32, Access::kRead);
  const BufferId y = b.Parameter("y", DType::kF32, Access::kReadWrite);
  const BufferId t = b.Allocate("t", DType::kF32, kColumns, MemorySpace::kWorkgroup);
  const ValueId rows = b.Scalar("rows"), columns = b.Index(kColumns), four = b.Index(4);
  b.For(b.Index(0), rows, b.Index(1), [&](ValueId row) {
    const ValueId first = b.Mul(row, columns);
    const ValueId zero = b.F32(0, 4);
    const std::vector<ValueId> sums = b.For(b.Index(0), columns, four, std::span(&zero, 1),
                                            [&](ValueId at, std::span<const ValueId> carried) {
                                              const ValueId weight = b.Load(w, at, 4);
                                              const ValueId value =
                                                  b.Add(b.Load(x, b.Add(first, at), 4), weight);
                                              b.Store(t, at, value);
                                              return std::vector<ValueId>{b.Add(carried[0], value)};
                                            });
    const ValueId sum = b.Reduce(Opcode::kReduceAdd, sums[0]);
    const ValueId is_odd = b.Eq(b.Rem(row, b.Index(2)), b.Index(1));
    const std::vector<ValueId> scale = b.If(
        b.And(is_odd, b.Lt(sum, b.F32(20))), [&] { return std::vector<ValueId>{b.F32(0)}; },
        [&] { return std::vector<ValueId>{b.Div(b.F32(1), sum)}; });
    b.For(b.Index(0), columns, four, [&](ValueId at) {
      b.Store(y, b.Add(first, at), b.Mul(b.Load(t, at, 4), b.Splat(scale[0], 4)));
    });
  });
  return std::move(b).Finish();
}

std::vector<float> ResultOf(const Kernel& kernel, int64_t rows) {
  std::vector<float> x, w, y(static_cast<size_t>((rows + 1) * kColumns), -7);
  for (int64_t i = 0; i < rows * kColumns; ++i) x.push_back(static_cast<float>(i * 5 % 7));
  for (int64_t i = 0; i < kColumns; ++i) w.push_back(static_cast<float>(i % 3));
  x.resize(x.size() + 1);
  ErrorRecord error{};
  const BufferArgument arguments[] = {{x.data(), static_cast<int64_t>(x.size())},
                                      {w.data(), kColumns},
                                      {y.data(), static_cast<int64_t>(y.size())}};
  const int64_t one[3] = {1, 1, 1};
  const Status status = Interpret(kernel, arguments, std::span(&rows, 1), one, &error);
  EXPECT_TRUE(status.ok()) << status.ToString() << FormatKernel(kernel);
  return y;
}

int64_t CountOf(const Kernel& kernel, Opcode opcode) {
  return std::count_if(kernel.ops.begin(), kernel.ops.end(),
                       [&](const Op& op) { return op.opcode == opcode; });
}

TEST(JamOuterLoop, GivesWhatRowsInTurnGive) {
  const Kernel kernel = Rows();
  for (const int count : {2, 3, 4, 8}) {
    const Result<Kernel> jammed = JamOuterLoop(kernel, count, false);
    ASSERT_TRUE(jammed.ok()) << jammed.status().ToString();
    const Status valid = VerifyKernel(*jammed);
    ASSERT_TRUE(valid.ok()) << valid.ToString() << FormatKernel(*jammed);
    for (const int64_t rows : {0, 1, 2, 3, 4, 7, 8, 9, 17}) {
      EXPECT_EQ(ResultOf(*jammed, rows), ResultOf(kernel, rows)) << count << " of " << rows;
    }
  }
}

TEST(JamOuterLoop, WhatNoRowChangesIsReadOnce) {
  const Kernel kernel = Rows();
  const Result<Kernel> jammed = JamOuterLoop(kernel, 4, true);
  ASSERT_TRUE(jammed.ok()) << jammed.status().ToString();
  EXPECT_EQ(ResultOf(*jammed, 8), ResultOf(kernel, 8));
  // Of x and of what a row left in memory of its own four each, of w one.
  EXPECT_EQ(CountOf(kernel, Opcode::kLoad), 3);
  EXPECT_EQ(CountOf(*jammed, Opcode::kLoad), 9);
  EXPECT_EQ(CountOf(*jammed, Opcode::kFor), 3);
  EXPECT_EQ(CountOf(*jammed, Opcode::kIf), 4);
  EXPECT_EQ(jammed->buffers.size(), kernel.buffers.size() + 3);
}

TEST(JamOuterLoop, RefusesOtherBoundsInEveryRow) {
  Builder b("triangle");
  const BufferId y = b.Parameter("y", DType::kI64, Access::kReadWrite);
  b.For(b.Index(0), b.Index(8), b.Index(1), [&](ValueId row) {
    b.For(b.Index(0), row, b.Index(1), [&](ValueId at) { b.Store(y, row, at); });
  });
  const Kernel kernel = std::move(b).Finish();
  const Status status = JamOuterLoop(kernel, 2, true).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("'triangle' cannot run side by side: a loop in "
                                                   "it has other bounds in each"));
}

TEST(JamOuterLoop, RefusesWhatIsNoLoopOfRows) {
  Builder b("sum");
  const BufferId y = b.Parameter("y", DType::kI64, Access::kReadWrite);
  const ValueId zero = b.Index(0);
  const std::vector<ValueId> sum = b.For(zero, b.Index(8), b.Index(1), std::span(&zero, 1),
                                         [&](ValueId at, std::span<const ValueId> carried) {
                                           return std::vector<ValueId>{b.Add(carried[0], at)};
                                         });
  b.Store(y, zero, sum[0]);
  const Kernel kernel = std::move(b).Finish();
  EXPECT_THAT(JamOuterLoop(kernel, 2, true).status().message(), testing::HasSubstr("carries"));
  EXPECT_THAT(JamOuterLoop(kernel, 9, true).status().message(), testing::HasSubstr("2 to 8"));
  EXPECT_THAT(JamOuterLoop(Builder("none").kernel(), 2, true).status().message(),
              testing::HasSubstr("no loop"));
}

}  // namespace
}  // namespace halyard::kernel
