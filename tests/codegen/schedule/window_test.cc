// SPDX-License-Identifier: Apache-2.0
// The window schedule on depthwise convolutions and pools of awkward sizes; see check_schedules.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/loop/text.h"
#include "compiler/schedule/schedule.h"
#include "tests/codegen/schedule/check_schedules.h"

namespace halyard::schedule {
namespace {

struct Case {
  int64_t size, channels, window, stride, pad;
};

// Channels innermost; batch n or none. `kind`: "depthwise", "max" or "sum".
std::string Text(const Case& c, std::string_view kind, bool batched) {
  const int64_t out = (c.size + 2 * c.pad - c.window) / c.stride + 1;
  const bool is_depthwise = kind == "depthwise";
  const std::string image = fmt::format("{}", c.size * c.size * c.channels);
  const std::string result = fmt::format("{}", out * out * c.channels);
  auto axis = [&](std::string_view at, std::string_view tap) {
    return fmt::format("{}*{} + {} - {}", c.stride, at, tap, c.pad);
  };
  std::string load = fmt::format("load x[{}{}*oh*{} + {}*kh + {}*ow + {}*kw + ch - {}]",
                                 batched ? image + "*b + " : "", c.size * c.channels, c.stride,
                                 c.size * c.channels, c.stride * c.channels, c.channels,
                                 c.pad * (c.size + 1) * c.channels);
  if (c.pad > 0) load += fmt::format(" mask %12 else {}", kind == "max" ? "%22" : "%13");
  return fmt::format(
      R"(function {{
  {symbol}
  buffer x: f32[{batch}{image}] input
  buffer w: f32[{weights}] constant 0
  buffer y: f32[{batch}{result}] output
  kernel window {{
    {open}
    parallel oh < {out} {{
      parallel ow < {out} {{
        parallel ch < {channels} {{
          %0 = reduce {reduce} kh < {window} {{
            %1 = reduce {reduce} kw < {window} {{
              %2 = const.i64 0
              %5 = const.i64 {size}
              %3 = index.i64 [{row}]
              %4 = ge %3, %2
              %6 = lt %3, %5
              %7 = and %4, %6
              %8 = index.i64 [{column}]
              %9 = ge %8, %2
              %10 = lt %8, %5
              %11 = and %9, %10
              %12 = and %7, %11
              %13 = const.f32 0.0
              %22 = const.f32 -1000.0
              %14 = {load}
              {product}
              yield {term}
            }}
            yield %1
          }}
          %17 = load w[ch]
          %18 = add %0, %17
          store y[{offset}{row_out}*oh + {channels}*ow + ch], %18
        }}
      }}
    }}
    {close}
  }}
}})",
      fmt::arg("symbol", batched ? "symbol n in [1, 8]" : ""), fmt::arg("batch", batched ? "n*" : ""),
      fmt::arg("image", image), fmt::arg("result", result),
      fmt::arg("weights", c.window * c.window * c.channels),
      fmt::arg("open", batched ? "parallel b < n {" : ""), fmt::arg("close", batched ? "}" : ""),
      fmt::arg("out", out), fmt::arg("channels", c.channels),
      fmt::arg("reduce", kind == "max" ? "max" : "sum"), fmt::arg("window", c.window),
      fmt::arg("size", c.size), fmt::arg("row", axis("oh", "kh")),
      fmt::arg("column", axis("ow", "kw")), fmt::arg("load", load),
      fmt::arg("product", is_depthwise ? fmt::format("%15 = load w[{}*kh + {}*kw + ch]\n"
                                                     "              %16 = mul %14, %15",
                                                     c.window * c.channels, c.channels)
                                       : ""),
      fmt::arg("term", is_depthwise ? "%16" : "%14"),
      fmt::arg("offset", batched ? result + "*b + " : ""), fmt::arg("row_out", out * c.channels));
}

// Every one of these kernels must have a window schedule somewhere.
void Check(const Case& c, std::string_view kind, bool batched) {
  SCOPED_TRACE(fmt::format("{} size {} channels {} window {} stride {} pad {} batched {}", kind,
                           c.size, c.channels, c.window, c.stride, c.pad, batched));
  std::vector<std::string> seen;
  CheckAll(Text(c, kind, batched), batched ? Dims{{"n", 2}} : Dims{}, 1e-5, 5, &seen);
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const std::string& record) {
    return record.substr(0, 7) == "window ";
  }));
}

TEST(WindowSchedule, DepthwiseConvolutions) {
  Check({7, 19, 3, 1, 1}, "depthwise", false);   // lanes left over
  Check({12, 32, 3, 1, 1}, "depthwise", false);  // several blocks and a rest
  Check({9, 40, 3, 2, 1}, "depthwise", false);
  Check({9, 16, 5, 1, 2}, "depthwise", false);  // all taps that fit
  Check({6, 16, 3, 1, 0}, "depthwise", false);  // no mask
  Check({8, 24, 3, 1, 1}, "depthwise", true);   // symbolic batch
}

TEST(WindowSchedule, BordersWithoutInside) {
  Check({2, 16, 3, 1, 1}, "depthwise", false);  // no position is inside
  Check({3, 17, 3, 1, 1}, "depthwise", false);  // one is
  Check({4, 16, 5, 1, 2}, "sum", false);
}

TEST(WindowSchedule, Pools) {
  Check({11, 35, 3, 2, 1}, "max", false);
  Check({8, 16, 2, 2, 0}, "max", true);
  Check({9, 33, 3, 1, 1}, "sum", false);
}

TEST(WindowSchedule, TasksSplitRowsAndChannels) {
  Result<Target> target = ParseTarget("cpu-avx512");
  ASSERT_TRUE(target.ok());
  target->worker_count = 16;
  ExprArena exprs;
  Result<loop::Function> function =
      loop::ParseFunction(Text({7, 960, 3, 1, 1}, "depthwise", false), exprs);
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
      loop::ParseFunction(Text({7, 19, 3, 1, 1}, "depthwise", false), exprs);
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
