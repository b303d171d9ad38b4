// SPDX-License-Identifier: Apache-2.0
// Rows and columns that workitems share, on GPUs: what only large sizes and many results show; see
// check_gpu.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "compiler/loop/text.h"
#include "tests/codegen/schedule/check_gpu.h"
#include "tests/codegen/schedule/run_on_device.h"

namespace halyard::schedule {
namespace {

// The grid takes more workgroups than one of its dimensions, so some are beyond the last: they must
// not leave parts anywhere.
TEST(GpuTeams, PartsOfGridsOfTwoDimensions) {
  constexpr std::string_view text = R"(function {
  buffer x: f32[n*m] input
  buffer y: f32[n] output
  kernel rows {
    parallel i < n {
      %0 = reduce max j < m {
        %1 = load x[m*i + j]
        yield %1
      }
      store y[i], %0
    }
  }
}
)";
  if (DeviceUnderTest() != nullptr) GTEST_SKIP() << "The schedule is for workgroups of 8.";
  GpuCheck check;
  check.targets = {"vulkan-8"};
  check.records = {"gpu-team lanes=1 unroll=1 chunk=2 workgroup=8 team=4"};
  EXPECT_FALSE(CheckGpu(text, {{"n", 3}, {"m", 33001}}, check).empty());
}

// Each sum of columns takes 4 KiB of workgroup memory with vectors of four elements.
TEST(GpuTeams, ManySumsOfColumnsFitWorkgroupMemory) {
  // How many sums; lanes of the first schedule, and whether it has parts.
  for (const auto& [count, lanes, has_parts] :
       {std::tuple(8, 4, true), {9, 2, true}, {32, 1, true}, {33, 1, false}}) {
    SCOPED_TRACE(count);
    std::string buffers, results, kinds, yields, stores;
    for (int i = 0; i < count; ++i) {
      const char* const comma = i == 0 ? "" : ", ";
      buffers += fmt::format("  buffer y{}: f32[256] output\n", i);
      results += fmt::format("{}%{}", comma, i);
      kinds += fmt::format("{}sum", comma);
      yields += fmt::format("{}%100", comma);
      stores += fmt::format("      store y{0}[j], %{0}\n", i);
    }
    const std::string text = fmt::format(
        "function {{\n  buffer x: f32[4194304] input\n{}  kernel columns {{\n    parallel j < 256 "
        "{{\n      {} = reduce {} i < 16384 {{\n        %100 = load x[256*i + j]\n        yield "
        "{}\n      }}\n{}    }}\n  }}\n}}\n",
        buffers, results, kinds, yields, stores);
    ExprArena exprs;
    const Result<loop::Function> function = loop::ParseFunction(text, exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    Target target = GpuTargetOf("vulkan-32");
    target.gpu.workgroup_memory_bytes = 32 << 10;
    const auto records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    EXPECT_EQ(records->front().lanes, lanes) << FormatSchedule(records->front());
    EXPECT_EQ(records->front().chunk > 0, has_parts) << FormatSchedule(records->front());
    for (const ScheduleRecord& record : *records) {
      const auto built = BuildKernel(*function, 0, record, target);
      ASSERT_TRUE(built.ok()) << built.status().ToString();
      for (const kernel::Kernel& made : built->kernels)
        EXPECT_LE(WorkgroupBytes(made), target.gpu.workgroup_memory_bytes);
    }
  }
}

}  // namespace
}  // namespace halyard::schedule
