// SPDX-License-Identifier: Apache-2.0
// The attention schedule, on kernels as lowering and fusion leave them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/status.h"
#include "tests/codegen/schedule/check_schedules.h"

namespace halyard::schedule {
namespace {

// Attention as lowering writes it: heads of a fused projection, a mask, the scores of a row local
// or, where their number is a symbol, in memory.
std::string Attention(std::string_view queries, std::string_view keys, int64_t depth, int64_t width,
                      bool is_local) {
  const std::string row = is_local ? "" : fmt::format("h*({0})*({1}) + i*({1}) + ", queries, keys);
  const std::string size = is_local ? std::string(keys) : fmt::format("3*({})*({})", queries, keys);
  return fmt::format(
      R"(function {{
{symbols}  buffer q: f32[3*({s})*{d}] input
  buffer k: f32[3*({t})*{d}] input
  buffer v: f32[3*({t})*{e}] input
  buffer bias: f32[{d3}] constant 0
  buffer mask: bool[({s})*({t})] input
  buffer o: f32[3*({s})*{e}] output
{temps}  kernel attend attention(batch: h; m: i) {{
{locals}    parallel h < 3 {{
      parallel i < {s} {{
        parallel j < {t} {{
          %0 = reduce sum c < {d} {{
            %1 = load q[{d}*h + {d3}*i + c]
            %2 = load bias[{d}*h + c]
            %3 = load k[{d}*h + {d3}*j + c]
            %4 = add %3, %2
            %5 = mul %1, %4
            yield %5
          }}
          %6 = const.f32 0.25
          %7 = mul %0, %6
          %8 = load mask[i*({t}) + j]
          %9 = const.f32 -inf
          %10 = select %8, %7, %9
          store scores[{row}j], %10
        }}
        %11 = reduce max r < {t} {{
          %12 = load scores[{row}r]
          yield %12
        }}
        %13 = reduce sum r2 < {t} {{
          %14 = load scores[{row}r2]
          %15 = sub %14, %11
          %16 = exp %15
          store weights[{row}r2], %16
          yield %16
        }}
        parallel x < {e} {{
          %17 = reduce sum r3 < {t} {{
            %18 = load weights[{row}r3]
            %19 = load v[{e}*h + {e3}*r3 + x]
            %20 = mul %18, %19
            yield %20
          }}
          %21 = div %17, %13
          %22 = ne %13, %13
          %23 = const.f32 0.0
          %24 = select %22, %23, %21
          store o[{e}*h + {e3}*i + x], %24
        }}
      }}
    }}
  }}
}})",
      fmt::arg("symbols", is_local ? "" : "  symbol s in [1, 512]\n  symbol t in [1, 512]\n"),
      fmt::arg("s", queries), fmt::arg("t", keys), fmt::arg("d", depth), fmt::arg("d3", 3 * depth),
      fmt::arg("e", width), fmt::arg("e3", 3 * width), fmt::arg("row", row),
      fmt::arg("temps", is_local ? std::string()
                                 : fmt::format("  buffer scores: f32[{0}] temp\n  buffer "
                                               "weights: f32[{0}] temp\n",
                                               size)),
      fmt::arg("locals", is_local ? fmt::format("    local scores: f32[{0}]\n    local "
                                                "weights: f32[{0}]\n",
                                                size)
                                  : std::string()));
}

TEST(AttentionSchedule, RowsOfKnownAndUnknownNumber) {
  std::vector<std::string> seen;
  // Tolerance: sums of 70 terms near 1, then a softmax of few roundings.
  for (const auto& [s, t, d, e] : std::vector<std::array<int64_t, 4>>{
           {2, 3, 4, 5}, {7, 33, 16, 16}, {13, 70, 5, 33}, {64, 64, 8, 64}}) {
    CheckAll(Attention(std::to_string(s), std::to_string(t), d, e, true), {}, 2e-5, 5, &seen);
  }
  for (const auto& [s, t] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 3}, {34, 17}}) {
    CheckAll(Attention("s", "t", 16, 8, false), {{"s", s}, {"t", t}}, 2e-5, 5, &seen);
  }
  EXPECT_TRUE(std::any_of(seen.begin(), seen.end(),
                          [](const std::string& text) { return text.starts_with("attention "); }));
}

}  // namespace
}  // namespace halyard::schedule
