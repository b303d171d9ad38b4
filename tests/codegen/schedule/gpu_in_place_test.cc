// SPDX-License-Identifier: Apache-2.0
// Rows that are written where they stood while they are reduced, on GPUs: no workitem may read what
// another one writes, whatever the row's length; see check_gpu.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/codegen/schedule/check_gpu.h"

namespace halyard::schedule {
namespace {

void CheckInPlace(int64_t rows, int64_t row) {
  SCOPED_TRACE(fmt::format("{} rows of {}", rows, row));
  const std::string text = fmt::format(R"(function {{
  buffer x: f32[{0}] input
  buffer least: f32[{1}] output
  buffer z: f32[{0}] output
  buffer t: f32[{0}] temp
  kernel first {{
    parallel i < {0} {{
      %0 = load x[i]
      %1 = neg %0
      store t[i], %1
    }}
  }}
  kernel rows {{
    parallel i < {1} {{
      %0 = reduce min j < {2} {{
        %1 = load t[{2}*i + j]
        %2 = mul %1, %1
        store t[{2}*i + j], %2
        yield %2
      }}
      store least[i], %0
    }}
  }}
  kernel last {{
    parallel i < {0} {{
      %0 = load t[i]
      store z[i], %0
    }}
  }}
}}
)",
                                       rows * row, rows, row);
  GpuCheck check;
  const std::vector<GpuSeen> seen = CheckGpu(text, {}, check);
  if (::testing::Test::HasFatalFailure()) return;
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(), [](const GpuSeen& s) {
    return s.record.kind == ScheduleKind::kGpuTeam;
  }));
}

TEST(GpuInPlace, RowsAreReducedAndReplaced) {
  CheckInPlace(4, 64);    // fewer elements than lanes of the team
  CheckInPlace(4, 1024);  // whole steps
  CheckInPlace(3, 1000);  // a step of some workitems
  CheckInPlace(5, 77);    // lanes left over
}

}  // namespace
}  // namespace halyard::schedule
