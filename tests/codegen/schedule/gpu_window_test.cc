// SPDX-License-Identifier: Apache-2.0
// Strips of overlapping windows on GPUs: depthwise convolutions and pools of awkward sizes; see
// check_gpu.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/loop/text.h"
#include "tests/codegen/schedule/check_gpu.h"
#include "tests/codegen/schedule/window_text.h"

namespace halyard::schedule {
namespace {

int64_t CountLoads(const kernel::Kernel& kernel, std::string_view buffer) {
  return std::count_if(kernel.ops.begin(), kernel.ops.end(), [&](const kernel::Op& op) {
    return op.opcode == kernel::Opcode::kLoad && kernel.buffers[op.buffer].name == buffer;
  });
}

void CheckGpuWindow(const WindowCase& c, std::string_view kind, bool batched) {
  SCOPED_TRACE(fmt::format("{} size {} channels {} window {} stride {} pad {} batched {}", kind,
                           c.size, c.channels, c.window, c.stride, c.pad, batched));
  GpuCheck check;
  check.targets = {"cuda-sm80", "vulkan-8"};
  check.tolerance = 1e-5;
  const std::vector<GpuSeen> seen =
      CheckGpu(WindowText(c, kind, batched), batched ? Dims{{"n", 2}} : Dims{}, check);
  if (::testing::Test::HasFatalFailure()) return;
  EXPECT_TRUE(
      std::any_of(seen.begin(), seen.end(), [](const GpuSeen& s) { return s.record.mr > 0; }));
}

TEST(GpuWindows, DepthwiseConvolutions) {
  CheckGpuWindow({8, 19, 3, 1, 1}, "depthwise", false);  // lanes left over
  CheckGpuWindow({9, 40, 3, 2, 1}, "depthwise", false);
  CheckGpuWindow({9, 16, 5, 1, 1}, "depthwise", false);
  CheckGpuWindow({6, 16, 3, 1, 0}, "depthwise", false);  // no mask
  CheckGpuWindow({8, 24, 3, 1, 1}, "depthwise", true);   // symbolic batch
}

TEST(GpuWindows, Pools) {
  CheckGpuWindow({8, 24, 3, 2, 1}, "max", false);
  CheckGpuWindow({8, 16, 3, 1, 1}, "sum", true);
}

// A window that stores what it reads, as fusion makes it of a maximum and a map of one value. Its
// stores stand inside the loop that a strip writes out.
TEST(GpuWindows, WindowsThatStoreHaveNoStrips) {
  GpuCheck check;
  check.targets = {"cuda-sm80", "vulkan-8"};
  check.tolerance = 1e-5;
  const std::vector<GpuSeen> seen = CheckGpu(R"(function {
  buffer x: f32[789] input
  buffer each: f32[2112] output
  buffer most: f32[192] output
  kernel both {
    parallel i < 64 {
      parallel j < 3 {
        %0 = reduce max k < 11 {
          %1 = load x[12*i + j + 3*k]
          %2 = neg %1
          store each[33*i + j + 3*k], %2
          yield %1
        }
        store most[3*i + j], %0
      }
    }
  }
}
)",
                                             {}, check);
  ASSERT_FALSE(seen.empty());
  for (const GpuSeen& s : seen) EXPECT_EQ(s.record.mr, 0) << FormatSchedule(s.record);
}

// What two neighbours read alike is read once: 3 x (4 + 2) of the picture and 3 x 3 of the weights.
TEST(GpuWindows, NeighboursShareLoads) {
  ExprArena exprs;
  Result<loop::Function> function =
      loop::ParseFunction(WindowText({8, 32, 3, 1, 1}, "depthwise", false), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  const Target target = GpuTargetOf("cuda-sm80");
  Result<ScheduleRecord> record = ParseSchedule("gpu-map lanes=4 unroll=1 workgroup=64 mr=4");
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  Result<ScheduledKernel> built = BuildKernel(*function, 0, *record, target);
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  EXPECT_EQ(CountLoads(built->kernels[0], "x"), 18);
  // The bias is read from the weights too.
  EXPECT_LE(CountLoads(built->kernels[0], "w"), 10);
}

}  // namespace
}  // namespace halyard::schedule
