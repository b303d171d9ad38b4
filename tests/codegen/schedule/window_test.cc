// SPDX-License-Identifier: Apache-2.0
// The window schedule on depthwise convolutions and pools of awkward sizes; see check_schedules.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/loop/text.h"
#include "compiler/schedule/schedule.h"
#include "tests/codegen/schedule/check_schedules.h"
#include "tests/codegen/schedule/window_text.h"

namespace halyard::schedule {
namespace {

// Every one of these kernels must have a window schedule somewhere.
void CheckWindow(const WindowCase& c, std::string_view kind, bool batched) {
  SCOPED_TRACE(fmt::format("{} size {} channels {} window {} stride {} pad {} batched {}", kind,
                           c.size, c.channels, c.window, c.stride, c.pad, batched));
  std::vector<std::string> seen;
  CheckAll(WindowText(c, kind, batched), batched ? Dims{{"n", 2}} : Dims{}, 1e-5, 5, &seen);
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const std::string& record) {
    return record.substr(0, 7) == "window ";
  }));
}

TEST(WindowSchedule, DepthwiseConvolutions) {
  CheckWindow({7, 19, 3, 1, 1}, "depthwise", false);   // lanes left over
  CheckWindow({12, 32, 3, 1, 1}, "depthwise", false);  // several blocks and a rest
  CheckWindow({9, 40, 3, 2, 1}, "depthwise", false);
  CheckWindow({9, 16, 5, 1, 2}, "depthwise", false);  // all taps that fit
  CheckWindow({6, 16, 3, 1, 0}, "depthwise", false);  // no mask
  CheckWindow({8, 24, 3, 1, 1}, "depthwise", true);   // symbolic batch
}

TEST(WindowSchedule, BordersWithoutInside) {
  CheckWindow({2, 16, 3, 1, 1}, "depthwise", false);  // no position is inside
  CheckWindow({3, 17, 3, 1, 1}, "depthwise", false);  // one is
  CheckWindow({4, 16, 5, 1, 2}, "sum", false);
}

// A padded axis of size 1 leaves no loop, only masks that look at the taps.
TEST(WindowSchedule, TapsThatNoPositionReads) {
  CheckAll(R"(function {
  buffer x: f32[200] input
  buffer y: f32[200] output
  kernel window {
    parallel i < 5 {
      parallel ch < 40 {
        %0 = reduce sum r < 3 {
          %1 = const.i64 0
          %2 = index.i64 [r - 1]
          %3 = le %1, %2
          %4 = const.i64 1
          %5 = lt %2, %4
          %6 = and %3, %5
          %7 = const.f32 0.0
          %8 = load x[40*i + ch + 40*r - 40] mask %6 else %7
          yield %8
        }
        store y[40*i + ch], %0
      }
    }
  }
})",
           Dims{}, 1e-5, 5);
}

TEST(WindowSchedule, Pools) {
  CheckWindow({11, 35, 3, 2, 1}, "max", false);
  CheckWindow({8, 16, 2, 2, 0}, "max", true);
  CheckWindow({9, 33, 3, 1, 1}, "sum", false);
}

TEST(WindowSchedule, TasksSplitRowsAndChannels) {
  Result<Target> target = ParseTarget("cpu-avx512");
  ASSERT_TRUE(target.ok());
  target->worker_count = 16;
  ExprArena exprs;
  Result<loop::Function> function =
      loop::ParseFunction(WindowText({7, 960, 3, 1, 1}, "depthwise", false), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, *target);
  ASSERT_TRUE(records.ok()) << records.status().ToString();
  const ScheduleRecord& record = records->front();
  ASSERT_EQ(record.kind, ScheduleKind::kWindow);
  EXPECT_EQ(record.grain, 1);
  EXPECT_GT(record.chunk, 0);
  EXPECT_LT(record.chunk, 960);
  EXPECT_EQ(record.chunk % record.lanes, 0);
  EXPECT_TRUE(ParseSchedule(FormatSchedule(record)).ok());
}

TEST(WindowSchedule, RefusesRecordsThatDoNotFit) {
  Result<Target> target = ParseTarget("cpu-avx512");
  ASSERT_TRUE(target.ok());
  ExprArena exprs;
  Result<loop::Function> function =
      loop::ParseFunction(WindowText({7, 19, 3, 1, 1}, "depthwise", false), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  for (std::string_view bad :
       {"window lanes=1 unroll=1 grain=1 mr=4", "window lanes=16 unroll=1 grain=1 mr=0",
        "window lanes=16 unroll=1 mr=4", "window lanes=16 unroll=1 grain=1 chunk=8 mr=4"}) {
    Result<ScheduleRecord> record = ParseSchedule(bad);
    ASSERT_TRUE(record.ok()) << bad;
    EXPECT_EQ(BuildKernel(*function, 0, *record, *target).status().code(),
              StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace halyard::schedule
