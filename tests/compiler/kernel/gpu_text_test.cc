// SPDX-License-Identifier: Apache-2.0
// GPU ops of Kernel IR: exact text, round trip, and what the verifier refuses.
#include <gtest/gtest.h>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/rewrite.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

constexpr Type kA{DType::kF16, 1, FragmentUse::kA, 16, 16};
constexpr Type kB{DType::kF16, 1, FragmentUse::kB, 16, 16};
constexpr Type kC{DType::kF32, 1, FragmentUse::kAccumulator, 16, 16};

Kernel MakeTile() {
  Builder b("tile");
  b.SetWorkgroup(64, 2, 1, 32);
  const BufferId x = b.Parameter("x", DType::kF16, Access::kRead);
  const BufferId out = b.Parameter("out", DType::kF32, Access::kReadWrite);
  const BufferId count = b.Parameter("count", DType::kU32, Access::kReadWrite);
  const BufferId tile = b.Allocate("tile", DType::kF16, 1024, MemorySpace::kWorkgroup);
  const ValueId n = b.Scalar("n");
  const ValueId zero = b.Index(0);
  const ValueId one = b.Index(1);
  const ValueId sixteen = b.Index(16);
  const ValueId eight = b.ConstInt(DType::kI32, 8);
  const ValueId item = b.WorkitemId(0, DType::kI32);
  const ValueId lane = b.SubgroupLane(DType::kI32);
  const ValueId subgroup = b.SubgroupId();
  const ValueId at = b.Mul(item, eight);
  b.AsyncCopy(tile, at, x, at, 8, b.Lt(item, eight));
  b.AsyncCommit();
  b.AsyncWait(0);
  b.Barrier();
  const ValueId first = b.Mul(subgroup, sixteen);
  const ValueId left = b.FragmentLoad(tile, first, sixteen, kA, FragmentLayout::kRowMajor, 8);
  const ValueId right = b.FragmentLoad(tile, first, sixteen, kB, FragmentLayout::kColumnMajor);
  const ValueId fill = b.FragmentFill(b.F32(0), kC);
  const auto sums = b.For(zero, n, one, std::vector<ValueId>{fill},
                          [&](ValueId, std::span<const ValueId> carried) {
                            return std::vector<ValueId>{b.FragmentMma(left, right, carried[0])};
                          });
  const ValueId half = b.Append1(Opcode::kConvert, {DType::kF16, 1, kC.use, 16, 16}, {sums[0]});
  const ValueId back = b.Append1(Opcode::kConvert, kC, {half});
  const ValueId square = b.Mul(sums[0], sums[0]);
  b.FragmentStore(out, first, b.Add(square, back), sixteen);
  const ValueId v = b.SubgroupShuffleXor(b.Load(out, zero, 4, kNone, kNone, 4), 16);
  b.Store(out, sixteen, b.SubgroupShuffle(v, lane), kNone, 4);
  b.AtomicAdd(count, zero, b.ConstInt(DType::kU32, 1));
  return std::move(b).Finish();
}

TEST(GpuKernelText, PrintsBuiltKernel) {
  const Kernel kernel = MakeTile();
  ASSERT_TRUE(VerifyKernel(kernel).ok()) << VerifyKernel(kernel).ToString();
  EXPECT_EQ(FormatKernel(kernel), R"(kernel tile workgroup(64, 2, 1) subgroup(32) {
  buffer x f16 global read
  buffer out f32 global readwrite
  buffer count u32 global readwrite
  buffer tile f16 workgroup readwrite [1024]
  scalar n
  %0 = scalar i64 [0]
  %1 = const i64 0
  %2 = const i64 1
  %3 = const i64 16
  %4 = const i32 8
  %5 = workitem_id i32 [0]
  %6 = subgroup_lane i32
  %7 = subgroup_id i64
  %8 = const f32 0
  %9 = const u32 1
  %10 = mul i32 %5, %4
  %11 = lt bool %5, %4
  async_copy @tile, %10, %10, %11 [0, 8]
  async_commit
  async_wait [0]
  barrier
  %12 = mul i64 %7, %3
  %13 = fragment_load f16.a.16x16 @tile, %12, %3 [0] align=8
  %14 = fragment_load f16.b.16x16 @tile, %12, %3 [1]
  %15 = fragment_fill f32.c.16x16 %8
  %16 = for i64 %17 = %1 to %0 step %2 carry(f32.c.16x16 %18 = %15) unroll 0 {
    %19 = fragment_mma f32.c.16x16 %13, %14, %18
    yield %19
  }
  %20 = convert f16.c.16x16 %16
  %21 = convert f32.c.16x16 %20
  %22 = mul f32.c.16x16 %16, %16
  %23 = add f32.c.16x16 %22, %21
  fragment_store @out, %12, %23, %3 [0]
  %24 = load f32x4 @out, %1 align=4
  %25 = subgroup_shuffle_xor f32x4 %24 [16]
  %26 = subgroup_shuffle f32x4 %25, %6
  store @out, %3, %26 align=4
  atomic_add @count, %1, %9
}
)");
}

TEST(GpuKernelText, RoundTripsAlsoThroughRewrite) {
  const Kernel kernel = MakeTile();
  const std::string text = FormatKernel(kernel);
  Result<Module> parsed = ParseModule(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  ASSERT_TRUE(VerifyModule(*parsed).ok()) << VerifyModule(*parsed).ToString();
  EXPECT_EQ(FormatModule(*parsed), text);
  const Kernel same = RewriteOps(
      kernel, [](Builder*, const Op&, std::span<const ValueId>) { return std::nullopt; });
  EXPECT_EQ(FormatKernel(same), text);
}

TEST(GpuKernelText, ParsesTypes) {
  for (const char* text : {"f16.a.16x8", "bf16.b.8x32", "i32.c.16x16", "f32x4", "bool"}) {
    Result<Type> type = ParseType(text);
    ASSERT_TRUE(type.ok()) << type.status().ToString();
    EXPECT_EQ(FormatType(*type), text);
  }
  for (const char* text : {"f16.d.16x16", "f16.a.16", "f16.a.", "f16.a.16x16x", "f16.a.x16",
                           "f16.a.99999x1", "q.a.16x16"}) {
    EXPECT_FALSE(ParseType(text).ok()) << text;
  }
}

TEST(GpuKernelVerifier, NamesTheBrokenRule) {
  const struct {
    const char* head;
    const char* body;
    const char* message;
  } cases[] = {
      {"workgroup(1, 1, 1)", "async_commit", "stands in a CPU kernel"},
      {"workgroup(1, 1, 1)", "%0 = const f32 0\n%1 = fragment_fill f32.c.8x8 %0",
       "stands in a CPU kernel"},
      {"workgroup(1, 1, 1)", "%0 = const f32 0\n%1 = subgroup_shuffle_xor f32 %0 [1]",
       "stands in a CPU kernel"},
      {"workgroup(1024, 2, 1)", "", "more than 1024 workitems"},
      {"workgroup(32, 1, 1) subgroup(24)", "", "has a subgroup size of 24"},
      {"workgroup(48, 1, 1) subgroup(32)", "", "no multiple of its subgroup size 32"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\n%1 = load f32 @b, %0 align=3", "an align of 3"},
      {"workgroup(32, 1, 1)", "%0 = const i8 0\n%1 = subgroup_shuffle_xor i8 %0 [1]",
       "does not work on i8"},
      {"workgroup(32, 1, 1)", "%0 = const f32 0\n%1 = subgroup_shuffle_xor f32 %0 [128]",
       "has the mask 128"},
      {"workgroup(32, 1, 1)",
       "%0 = const f32 0\n%1 = const i64 0\n%2 = subgroup_shuffle f32 %0, %1",
       "needs a lane of i32"},
      {"workgroup(32, 1, 1)", "%0 = const f16 0\n%1 = fragment_fill f32.c.8x8 %0",
       "with a scalar of its dtype"},
      {"workgroup(32, 1, 1)", "%0 = const f32 0\n%1 = fragment_fill f32.a.8x8 %0",
       "f32.a.8x8, which Kernel IR does not have"},
      {"workgroup(32, 1, 1)",
       "%0 = const f32 0\n%1 = fragment_fill f32.c.8x8 %0\n%2 = sub f32.c.8x8 %1, %1",
       "does not work on fragments"},
      {"workgroup(32, 1, 1)",
       "%0 = const f32 0\n%1 = fragment_fill f32.c.8x8 %0\n%2 = fragment_fill f32.c.16x8 %0\n"
       "%3 = add f32.c.8x8 %1, %2",
       "mixes types"},
      {"workgroup(32, 1, 1)",
       "%0 = const f16 0\n%1 = fragment_fill f16.a.8x8 %0\n%2 = fragment_fill f16.b.16x8 %0\n"
       "%3 = const f32 0\n%4 = fragment_fill f32.c.8x8 %3\n"
       "%5 = fragment_mma f32.c.8x8 %1, %2, %4",
       "takes fragments of m x k"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\n%1 = fragment_load f16.a.8x8 @b, %0, %0 [0]",
       "moves f16.a.8x8 to or from 'b' of f32"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\n%1 = fragment_load f32.c.8x8 @b, %0, %0 [2]",
       "has the layout 2"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\nasync_copy @s, %0, %0 [0, 3]",
       "copies 3 elements of f32"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\nasync_copy @b, %0, %0 [0, 4]",
       "not from global to workgroup memory"},
      {"workgroup(32, 1, 1)", "%0 = const i64 0\nasync_copy @h, %0, %0 [0, 4]",
       "copies f32 to f16"},
      {"workgroup(32, 1, 1)", "%0 = const i32 0\n%1 = last_arrival bool @b, %0, %0",
       "counts in 'b', which is no 32-bit integer in global memory"},
      {"workgroup(32, 1, 1)", "%0 = const i32 0\natomic_add @p, %0, %0", "names the private 'p'"},
      {"workgroup(32, 1, 1)", "%0 = workitem_id f32 [0]", "must be i32 or i64"},
      {"workgroup(32, 1, 1)",
       "%0 = const f32 0\n%1 = fragment_fill f32.c.16x16 %0\n%2 = fragment_elements f32x8 %1",
       "needs a subgroup size of 32"},
      {"workgroup(32, 1, 1) subgroup(32)",
       "%0 = const f32 0\n%1 = fragment_fill f32.c.16x16 %0\n%2 = fragment_elements f32x4 %1",
       "has f32x4 as elements of f32.c.16x16"},
      {"workgroup(32, 1, 1) subgroup(32)",
       "%0 = const f16 0\n%1 = splat f16x8 %0\n%2 = fragment_of f16.b.16x16 %1",
       "does not work on f16.b.16x16"},
      {"workgroup(1, 1, 1)", "await_dispatches", "stands in a CPU kernel"},
      {"workgroup(32, 1, 1)", "await_dispatches\nawait_dispatches", "stands a second time"},
      {"workgroup(32, 1, 1)",
       "%0 = const i32 0\n%1 = const i32 1\nfor i32 %2 = %0 to %1 step %1 carry() unroll 0 {\n"
       "await_dispatches\nyield\n}",
       "stands inside of a loop or branch"},
  };
  for (const auto& c : cases) {
    const std::string text = fmt::format(
        "kernel k {} {{\nbuffer b f32 global readwrite\nbuffer s f32 workgroup readwrite [64]\n"
        "buffer h f16 workgroup readwrite [64]\nbuffer p i32 private readwrite [4]\n{}\n}}\n",
        c.head, c.body);
    Result<Module> parsed = ParseModule(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << text;
    const Status status = VerifyModule(*parsed);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << status.message();
  }
}

TEST(GpuKernelBuilder, FoldsNarrowIndices) {
  Builder b("k");
  const ValueId big = b.ConstInt(DType::kI32, INT32_MAX);
  int64_t value = 0;
  ASSERT_TRUE(b.IsConstInt(b.Add(big, b.ConstInt(DType::kI32, 1)), &value));
  EXPECT_EQ(value, INT32_MIN);
  const ValueId item = b.WorkitemId(0, DType::kI32);
  EXPECT_EQ(b.Mul(item, b.ConstInt(DType::kI32, 1)), item);
  EXPECT_EQ(b.WorkitemId(0, DType::kI32), item);
  EXPECT_NE(b.WorkitemId(0, DType::kI64), item);
}

}  // namespace
}  // namespace halyard::kernel
