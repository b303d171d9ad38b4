// SPDX-License-Identifier: Apache-2.0
// The count of loop iterations against kernels whose numbers are known by hand, and against the
// device that ends loops.
#include "compiler/schedule/gpu/loop_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/graph/parser.h"
#include "compiler/kernel/builder.h"
#include "compiler/loop/lowering.h"
#include "tests/codegen/device_runner.h"

namespace halyard::schedule {
namespace {

using kernel::Builder;
using kernel::ValueId;

// A kernel of one dispatch, whose body is written by each test.
class LoopLimit : public ::testing::Test {
 protected:
  static constexpr int64_t kWorkitems = 256;

  LoopLimit() : n_(exprs_.Dim("n")) {
    b_.SetWorkgroup(kWorkitems, 1, 1, 8);
    out_ = b_.Parameter("out", DType::kI32, kernel::Access::kReadWrite);
    count_ = b_.Scalar("count");
  }

  ValueId Index(int64_t value) { return b_.Index(value); }
  // A loop in which something happens.
  void Loop(ValueId lo, ValueId hi, ValueId step, const std::function<void(ValueId)>& body = {},
            int copies = 0) {
    b_.For(
        lo, hi, step,
        [&](ValueId iv) {
          b_.AtomicAdd(out_, Index(0), b_.ConstInt(DType::kI32, 1));
          if (body) body(iv);
        },
        copies);
  }
  void Loop(int64_t trips, const std::function<void(ValueId)>& body = {}) {
    Loop(Index(0), Index(trips), Index(1), body);
  }

  // With `n` for the kernel's scalar and that many workgroups.
  std::optional<Expr> Most(Expr workgroups) {
    ScheduledKernel scheduled;
    scheduled.kernels.push_back(std::move(b_).Finish());
    Dispatch& dispatch = scheduled.dispatches.emplace_back();
    dispatch.scalars = {n_};
    dispatch.grid[0] = workgroups;
    dispatch.grid[1] = dispatch.grid[2] = exprs_.Const(1);
    return MostLoopIterations(exprs_, scheduled);
  }
  int64_t Count(int64_t n = 0) {
    const auto most = Most(exprs_.CeilDiv(n_, exprs_.Const(64)));
    if (!most) return -1;
    const Result<int64_t> value = exprs_.Evaluate(
        *most, [&](Expr symbol) { return symbol == n_ ? std::optional(n) : std::nullopt; });
    return value.ok() ? *value : -2;
  }

  ExprArena exprs_;
  Expr n_;
  Builder b_{"loops"};
  kernel::BufferId out_ = 0;
  ValueId count_ = 0;
};

TEST_F(LoopLimit, ALoopFindsItsEndInOneMoreIteration) {
  Loop(10);
  EXPECT_EQ(Count(), 11);
}

TEST_F(LoopLimit, LoopsThatFollowAddUp) {
  Loop(10);
  Loop(20);
  EXPECT_EQ(Count(), 11 + 21);
}

TEST_F(LoopLimit, AnInnerLoopCountsInEachIterationAndOnceBehindTheLast) {
  Loop(10, [&](ValueId) { Loop(20); });
  EXPECT_EQ(Count(), 11 + 10 * 21 + 1);
}

TEST_F(LoopLimit, BothSidesOfABranchCount) {
  const ValueId is_first = b_.Lt(b_.WorkitemId(0), Index(1));
  const auto loop_of = [&](int64_t trips) {
    return [this, trips] {
      Loop(trips);
      return std::vector<ValueId>{};
    };
  };
  b_.If(is_first, loop_of(10), loop_of(20));
  EXPECT_EQ(Count(), 11 + 21);
}

TEST_F(LoopLimit, WorkitemsThatShareALoopMakeTheirPart) {
  Loop(b_.WorkitemId(0), count_, Index(kWorkitems));
  EXPECT_EQ(Count(1000), 4 + 1);
}

TEST_F(LoopLimit, AWorkgroupMakesItsPartAndNoMoreThanThereIs) {
  const ValueId lo = b_.Mul(b_.WorkgroupId(0), Index(64));
  Loop(lo, b_.Min(b_.Add(lo, Index(64)), count_), Index(1));
  EXPECT_EQ(Count(1000), 64 + 1);
}

TEST_F(LoopLimit, TheLastPartIsAllThereIsWhenThatIsLess) {
  const ValueId lo = b_.Mul(b_.WorkgroupId(0), Index(64));
  Loop(lo, b_.Min(b_.Add(lo, Index(64)), count_), Index(1));
  EXPECT_EQ(Count(12), 12 + 1);
}

TEST_F(LoopLimit, ATriangleCountsByItsLongestRow) {
  Loop(Index(0), count_, Index(1), [&](ValueId row) { Loop(Index(0), row, Index(1)); });
  EXPECT_EQ(Count(100), 101 + 100 * (99 + 1) + 1);
}

TEST_F(LoopLimit, RepeatedBodiesAreFewerIterations) {
  Loop(Index(0), count_, Index(1), {}, 4);
  EXPECT_EQ(Count(1000), 250 + 4 + 1);
}

TEST_F(LoopLimit, AnEndThatIsDataHasNoCount) {
  const ValueId end = b_.Convert(b_.Load(out_, Index(1)), DType::kI64);
  Loop(Index(0), end, Index(1));
  EXPECT_EQ(Count(), -1);
}

// What llvmpipe makes of kernels at the limit: those that are within by our count end where they
// should; one iteration more than it allows, and it stops. Where it does not stop any more, the
// limit can go.
TEST(LoopLimitOnDevice, TheDeviceEndsWhatIsBeyondTheCount) {
  auto runner = testing::DeviceRunner::Open("vulkan:0");
  if (!runner.ok() || !(*runner)->device_name().starts_with("llvmpipe")) {
    GTEST_SKIP() << "no llvmpipe here";
  }
  ASSERT_EQ((*runner)->target().gpu.max_loop_iterations, kLlvmpipeLoopIterations);
  Builder b("loops");
  b.SetWorkgroup(64, 1, 1);
  const kernel::BufferId out = b.Parameter("out", DType::kI32, kernel::Access::kReadWrite);
  const ValueId before = b.Scalar("before"), outer = b.Scalar("outer"), inner = b.Scalar("inner");
  const ValueId zero = b.ConstInt(DType::kI32, 0), one = b.ConstInt(DType::kI32, 1);
  const auto add_one = [&](ValueId, std::span<const ValueId> sum) {
    return std::vector<ValueId>{b.Add(sum[0], one)};
  };
  const ValueId start[] = {zero};
  const ValueId first = b.For(b.Index(0), before, b.Index(1), start, add_one)[0];
  const ValueId next[] = {first};
  const ValueId sum =
      b.For(b.Index(0), outer, b.Index(1), next, [&](ValueId, std::span<const ValueId> carried) {
        return b.For(b.Index(0), inner, b.Index(1), carried, add_one);
      })[0];
  b.Store(out, b.WorkitemId(0), sum);
  kernel::Module module;
  module.kernels.push_back(std::move(b).Finish());
  ASSERT_TRUE((*runner)->Load(module).ok());

  struct Case {
    int64_t before, outer, inner;
    bool is_whole;
  };
  const auto most = [](const Case& c) {  // of this kernel, by the rules above
    return c.before + 1 + c.outer + 1 + c.outer * (c.inner + 1) + 1;
  };
  const Case cases[] = {{60000, 5, 5, true},      {100, 254, 254, true}, {65531, 0, 0, true},
                        {1, 21842, 2 - 1, true},  {65537, 0, 0, false},  {100, 256, 256, false},
                        {40000, 1, 30000, false}, {70000, 1, 10, false}};
  for (const Case& c : cases) {
    std::vector<int32_t> got(64, -1);
    auto* bytes = reinterpret_cast<uint8_t*>(got.data());
    const std::span<uint8_t> buffers[] = {{bytes, got.size() * sizeof(int32_t)}};
    const int64_t scalars[] = {c.before, c.outer, c.inner};
    ASSERT_TRUE((*runner)->Run(0, buffers, scalars, {1, 1, 1}).ok());
    EXPECT_EQ(most(c) <= kLlvmpipeLoopIterations, c.is_whole) << c.before << " " << c.outer;
    const bool is_right = got[0] == c.before + c.outer * c.inner;
    EXPECT_EQ(is_right, c.is_whole)
        << c.before << " + " << c.outer << " * " << c.inner << " is not " << got[0];
  }
}

// Kernels of graphs ---------------------------------------------------------------------------

Status Enumerate(const std::string& text, const std::string& target_name) {
  HY_ASSIGN(graph::Module module, graph::ParseModule(text));
  HY_ASSIGN(loop::Function function, loop::LowerGraph(module, 0, {}));
  HY_ASSIGN(const Target target, ParseTarget(target_name));
  for (uint32_t kernel = 0; kernel < function.kernels.size(); ++kernel) {
    const auto records = EnumerateSchedules(function, kernel, target);
    HY_TRY(records.status());
  }
  return OkStatus();
}

std::string RunningSum(int64_t length) {
  return fmt::format(
      "graph g(%x: f32[2, {0}]) -> (\"y\" = %y) {{\n"
      "  %y = cumsum %x {{axis = 1}} : f32[2, {0}]\n}}\n",
      length);
}

TEST(LoopLimitSchedules, ALongScanIsRefusedWhereLoopsEndAndNowhereElse) {
  EXPECT_TRUE(Enumerate(RunningSum(60000), "llvmpipe-8").ok());
  const Status refused = Enumerate(RunningSum(70000), "llvmpipe-8");
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(refused.message(),
            "A workitem makes 70001 loop iterations; device 'llvmpipe-8' ends them after 65535.");
  EXPECT_TRUE(Enumerate(RunningSum(70000), "vulkan-8").ok());
}

}  // namespace
}  // namespace halyard::schedule
