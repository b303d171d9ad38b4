// SPDX-License-Identifier: Apache-2.0
// What the interpreter finds beside results: accesses out of bounds, uninitialised reads, endless
// loops; and literal results that do not come from the code under test.
#include "compiler/kernel/interpreter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/lane_math.h"

namespace halyard::kernel {
namespace {

constexpr int64_t kOne[3] = {1, 1, 1};

TEST(Interpreter, FindsAccessOutOfBounds) {
  Builder b("k");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kRead);
  const BufferId y = b.Parameter("y", DType::kF32, Access::kWrite);
  b.Store(y, b.Index(0), b.Load(x, b.Index(1), 4));
  const Kernel kernel = std::move(b).Finish();
  float in[5] = {1, 2, 3, 4, 5}, out[4] = {};
  ErrorRecord error{};
  const BufferArgument enough[] = {{in, 5}, {out, 4}};
  ASSERT_TRUE(Interpret(kernel, enough, {}, kOne, &error).ok());
  EXPECT_EQ(out[3], 5);
  const BufferArgument short_input[] = {{in, 4}, {out, 4}};
  const Status status = Interpret(kernel, short_input, {}, kOne, &error);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_NE(status.message().find("reaches index 4 of buffer 'x', which has 4 elements"),
            std::string::npos)
      << status.message();
}

TEST(Interpreter, MaskedOffLanesTouchNothing) {
  Builder b("k");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kRead);
  const BufferId y = b.Parameter("y", DType::kF32, Access::kWrite);
  const ValueId mask = b.TailMask(b.Scalar("n"), 4);
  b.Store(y, b.Index(0), b.Load(x, b.Index(0), 4, mask, b.F32(9, 4)), mask);
  const Kernel kernel = std::move(b).Finish();
  float in[2] = {1, 2}, out[2] = {7, 7};
  ErrorRecord error{};
  const BufferArgument arguments[] = {{in, 2}, {out, 2}};
  const int64_t two[] = {2};
  ASSERT_TRUE(Interpret(kernel, arguments, two, kOne, &error).ok());
  EXPECT_EQ(out[1], 2);
  const int64_t three[] = {3};
  EXPECT_EQ(Interpret(kernel, arguments, three, kOne, &error).code(), StatusCode::kOutOfRange);
}

TEST(Interpreter, FindsUninitialisedReads) {
  Builder b("k");
  const BufferId y = b.Parameter("y", DType::kI32, Access::kReadWrite);
  const BufferId t = b.Allocate("t", DType::kI32, 4);
  b.Store(t, b.Index(1), b.ConstInt(DType::kI32, 5));
  b.Store(y, b.Index(0), b.Load(t, b.Scalar("at")));
  const Kernel kernel = std::move(b).Finish();
  int32_t out[1] = {0};
  ErrorRecord error{};
  const BufferArgument arguments[] = {{out, 1, false}};
  const int64_t written[] = {1}, unwritten[] = {2};
  ASSERT_TRUE(Interpret(kernel, arguments, written, kOne, &error).ok());
  EXPECT_EQ(out[0], 5);
  const Status status = Interpret(kernel, arguments, unwritten, kOne, &error);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("index 2 of buffer 't'"), std::string::npos) << status.message();
}

TEST(Interpreter, EndsEndlessLoops) {
  Builder b("k");
  const BufferId y = b.Parameter("y", DType::kI64, Access::kWrite);
  b.For(b.Index(0), b.Index(INT64_MAX / 2), b.Index(1),
        [&](ValueId i) { b.Store(y, b.Index(0), i); });
  int64_t out = 0;
  ErrorRecord error{};
  const BufferArgument arguments[] = {{&out, 1}};
  EXPECT_EQ(Interpret(std::move(b).Finish(), arguments, {}, kOne, &error, {1000}).code(),
            StatusCode::kDeadlineExceeded);
}

TEST(Interpreter, FirstReportWins) {
  Builder b("k");
  const BufferId x = b.Parameter("x", DType::kI64, Access::kRead);
  b.Site("other", "");
  const int64_t site = b.Site("gather", "index");
  const ValueId limit = b.Index(10);
  const ValueId v = b.Load(x, b.WorkgroupId(0), 4);
  b.Report(b.Ge(v, limit), v, limit, KernelErrorReason::kIndexOutOfRange, site);
  int64_t in[6] = {1, 2, 30, 40, 50, 60};
  ErrorRecord error{};
  const BufferArgument arguments[] = {{in, 6}};
  const int64_t grid[3] = {3, 1, 1};
  ASSERT_TRUE(Interpret(std::move(b).Finish(), arguments, {}, grid, &error).ok());
  EXPECT_EQ(error.state, 1u);
  EXPECT_EQ(error.reason, 1u);
  EXPECT_EQ(error.site, 1u);
  EXPECT_EQ(error.value, 30);
  EXPECT_EQ(error.limit, 10);
}

TEST(LaneMath, LiteralValues) {
  const auto f32 = [](float v) { return uint64_t{std::bit_cast<uint32_t>(v)}; };
  EXPECT_EQ(ArithmeticLane(Opcode::kDiv, DType::kI8, 0x80, 0xff, 0), 0x80u);  // -128 / -1
  EXPECT_EQ(ArithmeticLane(Opcode::kDiv, DType::kI32, 7, 0, 0), 0u);
  EXPECT_EQ(ArithmeticLane(Opcode::kRem, DType::kI32, 0xfffffff9, 3, 0),
            0xffffffffu);  // -7 % 3 = -1
  EXPECT_EQ(ArithmeticLane(Opcode::kShr, DType::kI16, 0x8000, 200, 0), 0xffffu);
  EXPECT_EQ(ArithmeticLane(Opcode::kShl, DType::kU8, 0xff, 8, 0), 0u);
  EXPECT_EQ(ArithmeticLane(Opcode::kMax, DType::kF32, f32(-0.0f), f32(0.0f), 0), f32(0.0f));
  EXPECT_EQ(ArithmeticLane(Opcode::kRoundEven, DType::kF32, f32(2.5f), 0, 0), f32(2.0f));
  EXPECT_TRUE(std::isnan(
      LaneToDouble(DType::kF32, ArithmeticLane(Opcode::kMin, DType::kF32, f32(NAN), f32(1), 0))));
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kF16, f32(65519.0f)), 0x7bffu);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kF16, f32(65520.0f)), 0x7c00u);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kF16, f32(0x1p-24f)), 1u);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kF16, f32(0x1p-25f)), 0u);           // tie to even
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kBF16, f32(1.00390625f)), 0x3f80u);  // tie to even
  EXPECT_EQ(ConvertLane(DType::kF16, DType::kF32, 0x3c00), f32(1.0f));
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kI32, f32(3e9f)), 0x7fffffffu);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kU8, f32(-3.0f)), 0u);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kI64, f32(NAN)), 0u);
  EXPECT_EQ(ConvertLane(DType::kI8, DType::kI32, 0xff), 0xffffffffu);
  EXPECT_EQ(ConvertLane(DType::kF32, DType::kBool, f32(-0.0f)), 0u);
}

}  // namespace
}  // namespace halyard::kernel
