// SPDX-License-Identifier: Apache-2.0
// Every schedule of test kernels of all kinds; see check_schedules.h. Here and not below
// tests/compiler because native code needs LLVM.
#include "compiler/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "tests/codegen/image_runner.h"
#include "tests/codegen/schedule/check_schedules.h"
#include "tests/codegen/schedule/loop_evaluator.h"

namespace halyard::schedule {
namespace {

// On CPUs and GPUs.
void CheckEverywhere(std::string_view text, const Dims& dims, double tolerance,
                     bool compile = true) {
  CheckAll(text, dims, tolerance, 5, nullptr, compile);
  CheckOnGpus(text, dims, tolerance);
}

TEST(RowSchedule, PointwiseAndBroadcast) {
  constexpr std::string_view text = R"(function {
  symbol n in [0, 64]
  buffer x: f32[37*n] input
  buffer b: f32[37] constant 0
  buffer s: f32[n] input
  buffer y: f32[37*n] output
  kernel k {
    parallel i < n {
      parallel j < 37 {
        %0 = load x[37*i + j]
        %1 = load b[j]
        %2 = load s[i]
        %3 = add %0, %1
        %4 = mul %3, %2
        %5 = const.f32 0.0
        %6 = max %4, %5
        store y[37*i + j], %6
      }
    }
  }
})";
  for (int64_t n : {0, 1, 2, 7, 16}) CheckEverywhere(text, {{"n", n}}, kClose);
}

TEST(RowSchedule, FlatSymbolic) {
  constexpr std::string_view text = R"(function {
  symbol n in [0, 1000000]
  buffer x: f32[n] input
  buffer c: bool[n] input
  buffer q: i64[n] input
  buffer y: f32[n] output
  buffer z: i64[n] output
  buffer m: bool[n] output
  kernel k {
    parallel i < n {
      %0 = load x[i]
      %1 = load c[i]
      %2 = neg %0
      %3 = select %1, %0, %2
      store y[i], %3
      %4 = load q[i]
      %5 = index.i64 [i]
      %6 = add %4, %5
      store z[i], %6
      %7 = lt %4, %5
      store m[i], %7
    }
  }
})";
  for (int64_t n : {0, 1, 3, 16, 17, 64, 1000}) CheckEverywhere(text, {{"n", n}}, kClose);
}

TEST(RowSchedule, TransposeAndStrides) {
  constexpr std::string_view text = R"(function {
  buffer x: f32[391] input
  buffer y: f32[391] output
  buffer z: f32[391] output
  kernel transpose {
    parallel i < 17 {
      parallel j < 23 {
        %0 = load x[17*j + i]
        store y[23*i + j], %0
      }
    }
  }
  kernel flip {
    parallel i < 391 {
      %0 = load x[390 - i]
      store z[i], %0
    }
  }
})";
  CheckEverywhere(text, {}, kClose);
}

TEST(RowSchedule, DivisionInIndices) {
  constexpr std::string_view text = R"(function {
  buffer x: f32[640] input
  buffer y: f32[640] output
  buffer z: f32[640] output
  kernel heads {
    parallel i < 640 {
      %0 = load x[32*floordiv(i, 160) + mod(i, 32) + 128*floordiv(mod(i, 160), 32)]
      store y[i], %0
    }
  }
  kernel odd {
    parallel i < 640 {
      %0 = load x[floordiv(i, 5) + 128*mod(i, 5)]
      store z[i], %0
    }
  }
})";
  CheckEverywhere(text, {}, kClose);
}

TEST(RowSchedule, SoftmaxAndNorm) {
  constexpr std::string_view text = R"(function {
  symbol n in [1, 64]
  symbol m in [1, 4096]
  buffer x: f32[m*n] input
  buffer y: f32[m*n] output
  buffer z: f32[m*n] output
  kernel softmax {
    local e: f32[m]
    parallel i < n {
      %0 = reduce max j < m {
        %1 = load x[m*i + j]
        yield %1
      }
      %2 = reduce sum j2 < m {
        %3 = load x[m*i + j2]
        %4 = sub %3, %0
        %5 = mul %4, %4
        store e[j2], %5
        yield %5
      }
      parallel j3 < m {
        %6 = load e[j3]
        %7 = div %6, %2
        store y[m*i + j3], %7
      }
    }
  }
  kernel norm {
    parallel i < n {
      %0, %1 = reduce sum, sum j < m {
        %2 = load x[m*i + j]
        %3 = mul %2, %2
        yield %2, %3
      }
      %4 = index.f32 [m]
      %5 = div %0, %4
      parallel j2 < m {
        %6 = load x[m*i + j2]
        %7 = sub %6, %5
        %8 = sqrt %1
        %9 = div %7, %8
        store z[m*i + j2], %9
      }
    }
  }
})";
  for (int64_t m : {1, 2, 15, 16, 17, 63, 64, 65, 130})
    CheckEverywhere(text, {{"n", 3}, {"m", m}}, 2e-5, m == 130 || m == 2);
}

// Short rows run side by side, the last ones of a task alone.
TEST(RowSchedule, ShortRowsTogether) {
  for (const auto& [rows, columns] : std::vector<std::array<int64_t, 2>>{
           {384, 128}, {10, 24}, {7, 5}, {4, 64}, {33, 17}, {400, 300}}) {
    const std::string text = fmt::format(R"(function {{
  buffer x: f32[{0}*{1}] input
  buffer y: f32[{0}*{1}] output
  kernel softmax {{
    local e: f32[{1}]
    parallel i < {0} {{
      %0 = reduce max j < {1} {{
        %1 = load x[{1}*i + j]
        yield %1
      }}
      %2 = reduce sum j2 < {1} {{
        %3 = load x[{1}*i + j2]
        %4 = sub %3, %0
        %5 = mul %4, %4
        store e[j2], %5
        yield %5
      }}
      parallel j3 < {1} {{
        %6 = load e[j3]
        %7 = add %6, %2
        store y[{1}*i + j3], %7
      }}
    }}
  }}
}})",
                                         rows, columns);
    std::vector<std::string> seen;
    CheckAll(text, {}, 2e-5, 5, &seen, rows == 10);
    const bool has_short = std::any_of(seen.begin(), seen.end(), [](const std::string& record) {
      return record.ends_with(" mr=4");
    });
    EXPECT_EQ(has_short, columns <= 256) << rows << " x " << columns;
  }
}

TEST(RowSchedule, ReductionsOfEveryKind) {
  constexpr std::string_view text = R"(function {
  buffer x: f32[255] input
  buffer q: i64[255] input
  buffer c: bool[255] input
  buffer o: f32[20] output
  buffer p: i64[20] output
  buffer d: bool[20] output
  kernel rows {
    parallel i < 5 {
      %0, %1, %2 = reduce max, min, argmax j < 51 {
        %3 = load x[51*i + j]
        %4 = index.i64 [j]
        yield %3, %3, %3, %4
      }
      store o[2*i], %0
      store o[2*i + 1], %1
      store p[2*i], %2
      %5, %6 = reduce argmin, sum j2 < 51 {
        %7 = load q[51*i + j2]
        %8 = index.i64 [j2]
        yield %7, %8, %7
      }
      store p[2*i + 1], %5
      store p[i + 10], %6
      %9, %10 = reduce any, all j3 < 51 {
        %11 = load c[51*i + j3]
        yield %11, %11
      }
      store d[2*i], %9
      store d[2*i + 1], %10
    }
  }
  kernel columns {
    parallel j < 51 {
      %0, %1 = reduce sum, argmin i < 5 {
        %2 = load x[51*i + j]
        %3 = index.i64 [i]
        yield %2, %2, %3
      }
      %4 = index.i64 [j]
      %5 = const.i64 5
      %6 = lt %4, %5
      store o[j + 10], %0 mask %6
      store p[j + 15], %1 mask %6
    }
  }
})";
  CheckEverywhere(text, {}, 1e-5);
}

TEST(RowSchedule, PadConcatMasked) {
  constexpr std::string_view text = R"(function {
  symbol n in [1, 64]
  buffer x: f32[n] input
  buffer w: f32[7] input
  buffer y: f32[n + 12] output
  kernel pad {
    parallel i < n + 12 {
      %0 = index.i64 [i]
      %1 = const.i64 5
      %2 = ge %0, %1
      %3 = index.i64 [n + 5]
      %4 = lt %0, %3
      %5 = and %2, %4
      %6 = const.f32 0.25
      %7 = load x[i - 5] mask %5 else %6
      %8 = ge %0, %3
      %9 = load w[i - n - 5] mask %8 else %7
      store y[i], %9
    }
  }
})";
  for (int64_t n : {1, 4, 19, 50}) CheckEverywhere(text, {{"n", n}}, kClose);
}

TEST(RowSchedule, GatherScatterScan) {
  constexpr std::string_view text = R"(function {
  symbol n in [0, 64]
  buffer ids: i64[n] input
  buffer table: f32[165] input
  buffer y: f32[33*n] output
  buffer sums: f32[165] output
  buffer run: f32[165] output
  kernel gather {
    site "g" "index"
    parallel i < n {
      %0 = load ids[i]
      indirect r = %0 < 5 site 0
      parallel j < 33 {
        %1 = load table[33*r + j]
        store y[33*i + j], %1
      }
    }
  }
  kernel scatter {
    site "s" "index"
    parallel c < 165 {
      %0 = load table[c]
      store sums[c], %0
    }
    parallel i < n {
      %1 = load ids[i]
      indirect r = %1 < 5 site 0
      parallel j < 33 {
        %2 = load y[33*i + j]
        scatter sum sums[33*r + j], %2
      }
    }
  }
  kernel cumsum {
    parallel j < 33 {
      %0 = const.f32 0.0
      %1 = sequential t < 5 carry (%2 = %0) {
        %3 = load table[33*t + j]
        %4 = add %2, %3
        store run[33*t + j], %4
        yield %4
      }
    }
  }
})";
  for (int64_t n : {0, 1, 9, 40}) CheckEverywhere(text, {{"n", n}}, 1e-5);
}

// An index out of range is reported with its value and reads nothing outside the table, even an
// empty one.
TEST(RowSchedule, GatherReportsOutOfRange) {
  constexpr std::string_view form = R"(function {{
  symbol n in [0, 64]
  buffer ids: i64[20] input
  buffer table: f32[n] input
  buffer y: f32[20] output
  kernel gather {{
    site "g" "index"
    parallel i < 20 {{
      %0 = load ids[i]
      {} r = %0 < n site 0
      %1 = load table[r]
      store y[i], %1
    }}
  }}
}})";
  // What does not wrap refuses the last element as -1, too.
  for (const auto& [word, low] : {std::pair("indirect", -9), std::pair("within", -1)})
    for (int64_t n : {0, 4}) {
      const std::string text = fmt::format(form, word);
      for (const char* name : {"cpu-sse4.2", "cpu-avx2", "cpu-avx512"}) {
        ExprArena exprs;
        Result<loop::Function> function = loop::ParseFunction(text, exprs);
        ASSERT_TRUE(function.ok()) << function.status().ToString();
        Result<Target> target = ParseTarget(name);
        ASSERT_TRUE(target.ok());
        Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, *target);
        ASSERT_TRUE(records.ok()) << records.status().ToString();
        for (const ScheduleRecord& record : *records) {
          SCOPED_TRACE(fmt::format("{} {} n {} '{}'", word, name, n, FormatSchedule(record)));
          Result<ScheduledKernel> built = BuildKernel(*function, 0, record, *target);
          ASSERT_TRUE(built.ok()) << built.status().ToString();
          std::vector<int64_t> ids(20, 1);
          ids[17] = low;
          std::vector<float> table(static_cast<size_t>(n), 2.5f), y(20, -1.0f);
          ErrorRecord error{};
          for (const Dispatch& dispatch : built->dispatches) {
            std::vector<kernel::BufferArgument> arguments;
            for (const Binding& binding : dispatch.bindings) {
              kernel::BufferArgument argument;
              if (binding.index == 0) argument.data = ids.data(), argument.elements = 20;
              if (binding.index == 1) argument.data = table.data(), argument.elements = n;
              if (binding.index == 2) argument.data = y.data(), argument.elements = 20;
              arguments.push_back(argument);
            }
            std::vector<int64_t> scalars(dispatch.scalars.size(), n);
            int64_t grid[3];
            for (int axis = 0; axis < 3; ++axis) grid[axis] = *exprs.AsConst(dispatch.grid[axis]);
            Status status = kernel::Interpret(built->kernels[dispatch.kernel], arguments, scalars,
                                              grid, &error);
            ASSERT_TRUE(status.ok()) << status.ToString();
          }
          EXPECT_EQ(error.state, 1u);
          EXPECT_EQ(error.reason, static_cast<uint32_t>(KernelErrorReason::kIndexOutOfRange));
          EXPECT_EQ(error.limit, n);
          if (n > 0) {
            EXPECT_EQ(error.value, low);
            EXPECT_EQ(y[16], 2.5f);
          }
        }
      }
    }
}

TEST(RowSchedule, DepthwiseAndPool) {
  constexpr std::string_view text = R"(function {
  buffer x: f32[1014] input
  buffer w: f32[54] constant 0
  buffer y: f32[1014] output
  kernel depthwise {
    parallel c < 6 {
      parallel oh < 13 {
        parallel ow < 13 {
          %0 = reduce sum kh < 3 {
            %1 = reduce sum kw < 3 {
              %2 = const.i64 0
              %3 = index.i64 [kh + oh - 1]
              %4 = ge %3, %2
              %5 = const.i64 13
              %6 = lt %3, %5
              %7 = and %4, %6
              %8 = index.i64 [kw + ow - 1]
              %9 = ge %8, %2
              %10 = lt %8, %5
              %11 = and %9, %10
              %12 = and %7, %11
              %13 = const.f32 0.0
              %14 = load x[169*c + 13*kh + kw + 13*oh + ow - 14] mask %12 else %13
              %15 = load w[9*c + 3*kh + kw]
              %16 = mul %14, %15
              yield %16
            }
            yield %1
          }
          store y[169*c + 13*oh + ow], %0
        }
      }
    }
  }
})";
  CheckEverywhere(text, {}, 1e-5);
}

std::string MatMul(int64_t m, int64_t n, int64_t k, bool constant, bool transposed, bool heavy) {
  return fmt::format(
      R"(function {{
  buffer a: f32[{mk}] input
  buffer b: f32[{nk}] {role}
  buffer bias: f32[{n}] constant 1
  buffer c: f32[{mn}] output
  kernel mm contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {{
    parallel i < {m} {{
      parallel j < {n} {{
        %0 = reduce sum l < {k} {{
          %1 = load a[{k}*i + l]
          %2 = load b[{index}]
          %3 = mul %1, %2
          yield %3
        }}
        %4 = load bias[j]
        %5 = add %0, %4
        {more}
        store c[{n}*i + j], {last}
      }}
    }}
  }}
}})",
      fmt::arg("mk", m * k), fmt::arg("nk", n * k), fmt::arg("mn", m * n), fmt::arg("m", m),
      fmt::arg("n", n), fmt::arg("k", k), fmt::arg("role", constant ? "constant 0" : "input"),
      fmt::arg("index", transposed ? fmt::format("{}*j + l", k) : fmt::format("{}*l + j", n)),
      fmt::arg("more", heavy ? "%6 = erf %5\n%7 = abs %6\n%8 = sqrt %7" : ""),
      fmt::arg("last", heavy ? "%8" : "%5"));
}

TEST(ContractionSchedule, MatMulShapes) {
  struct Shape {
    int64_t m, n, k;
  };
  bool contraction = false, constant = false, in_place = false, packed = false;
  for (Shape s : {Shape{1, 1, 1},
                  {1, 40, 9},
                  {3, 2, 5},
                  {7, 33, 17},
                  {13, 64, 8},
                  {16, 16, 16},
                  {29, 100, 31},
                  {2, 130, 70},
                  {40, 1, 12},
                  {5, 7, 0},
                  {0, 4, 4}}) {
    for (bool is_constant : {false, true}) {
      for (bool transposed : {false, true}) {
        bool heavy = s.m % 2 == 1 && transposed;
        SCOPED_TRACE(fmt::format("{}x{}x{} constant {} transposed {}", s.m, s.n, s.k, is_constant,
                                 transposed));
        std::vector<std::string> seen;
        CheckAll(MatMul(s.m, s.n, s.k, is_constant, transposed, heavy), {}, 3e-5, 5, &seen,
                 /*compile=*/s.m == 29 || s.m == 7 || s.n == 130);
        for (const std::string& text : seen) {
          contraction |= text.find("contraction") == 0;
          constant |= text.find("b=constant") != std::string::npos;
          in_place |= text.find("b=inplace") != std::string::npos;
          packed |= text.find("b=packed") != std::string::npos;
        }
      }
    }
  }
  EXPECT_TRUE(contraction && constant && in_place && packed);
}

TEST(ContractionSchedule, BlocksOfK) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{29, 40, 96}, {1, 40, 48}}) {
    for (bool is_constant : {false, true}) {
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}x{}x{} constant {} transposed {}", m, n, k, is_constant, transposed));
        std::vector<std::string> seen;
        CheckAll(MatMul(m, n, k, is_constant, transposed, transposed && m == 29), {}, 3e-5, 5,
                 &seen, /*compile=*/m == 29);
        size_t blocked = 0;
        for (const std::string& text : seen) blocked += text.find("(added)") != std::string::npos;
        EXPECT_GE(blocked, 3u);
      }
    }
  }
}

TEST(ContractionSchedule, LongSumsAreTriedInBlocks) {
  for (int64_t k : {1536, 768, 100}) {
    ExprArena exprs;
    Result<loop::Function> function =
        loop::ParseFunction(MatMul(384, 384, k, true, false, false), exprs);
    ASSERT_TRUE(function.ok());
    Result<Target> target = ParseTarget("cpu-avx512");
    Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, *target);
    ASSERT_TRUE(records.ok());
    bool is_blocked = false, is_whole = false;
    for (const ScheduleRecord& record : *records) {
      if (record.kind != ScheduleKind::kContraction) continue;
      is_blocked |= record.kc < k;
      is_whole |= record.kc == k;
    }
    EXPECT_EQ(is_blocked, k > 384) << k;
    EXPECT_TRUE(is_whole) << k;
  }
}

TEST(ContractionSchedule, SymbolicRows) {
  constexpr std::string_view text = R"(function {
  symbol m in [0, 4096]
  buffer a: f32[20*m] input
  buffer b: f32[740] constant 0
  buffer r: f32[37*m] input
  buffer c: f32[37*m] output
  kernel mm contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {
    parallel i < m {
      parallel j < 37 {
        %0 = reduce sum l < 20 {
          %1 = load a[20*i + l]
          %2 = load b[20*j + l]
          %3 = mul %1, %2
          yield %3
        }
        %4 = load r[37*i + j]
        %5 = add %0, %4
        store c[37*i + j], %5
      }
    }
  }
})";
  for (int64_t m : {0, 1, 2, 5, 13, 14, 15, 43}) CheckAll(text, {{"m", m}}, 3e-5);
}

TEST(ContractionSchedule, AttentionScoresSymbolic) {
  constexpr std::string_view text = R"(function {
  symbol s in [1, 512]
  buffer q: f32[48*s] input
  buffer k: f32[48*s] input
  buffer v: f32[48*s] input
  buffer p: f32[3*s*s] output
  buffer o: f32[48*s] output
  kernel scores contraction(batch: h; m: i; n: j; k: d; product: %1, %2; sum: %0) {
    parallel h < 3 {
      parallel i < s {
        parallel j < s {
          %0 = reduce sum d < 16 {
            %1 = load q[16*h + 48*i + d]
            %2 = load k[16*h + 48*j + d]
            %3 = mul %1, %2
            yield %3
          }
          store p[h*s*s + i*s + j], %0
        }
      }
    }
  }
  kernel values contraction(batch: h; m: i; n: d; k: j; product: %1, %2; sum: %0) {
    parallel h < 3 {
      parallel i < s {
        parallel d < 16 {
          %0 = reduce sum j < s {
            %1 = load p[h*s*s + i*s + j]
            %2 = load v[16*h + 48*j + d]
            %3 = mul %1, %2
            yield %3
          }
          store o[16*h + 48*i + d], %0
        }
      }
    }
  }
})";
  for (int64_t s : {1, 2, 7, 17, 33}) CheckAll(text, {{"s", s}}, 1e-4);
}

// NCHW and NHWC, 3x3, padded, stride 1 and 2.
std::string Conv(int64_t c, int64_t h, int64_t o, int64_t stride, bool nhwc, bool constant) {
  int64_t oh = (h + 2 - 3) / stride + 1;
  std::string x =
      nhwc ? fmt::format("{0}*{1}*({2}*oh + kh - 1) + {1}*({2}*ow + kw - 1) + ic + {3}*b", h, c,
                         stride, c * h * h)
           : fmt::format("{0}*ic + {1}*({2}*oh + kh - 1) + {2}*ow + kw - 1 + {3}*b", h * h, h,
                         stride, c * h * h);
  std::string y = nhwc ? fmt::format("{0}*{1}*oh + {1}*ow + oc + {2}*b", oh, o, o * oh * oh)
                       : fmt::format("{0}*oc + {1}*oh + ow + {2}*b", oh * oh, oh, o * oh * oh);
  return fmt::format(R"(function {{
  buffer x: f32[{xs}] input
  buffer w: f32[{ws}] {role}
  buffer bias: f32[{o}] constant 1
  buffer y: f32[{ys}] output
  kernel conv contraction(m: b, oh, ow; n: oc; k: ic, kh, kw; product: %14, %15; sum: %0) {{
    parallel b < 2 {{
      parallel oc < {o} {{
        parallel oh < {oh} {{
          parallel ow < {oh} {{
            %0 = reduce sum ic < {c} {{
              %17 = reduce sum kh < 3 {{
                %1 = reduce sum kw < 3 {{
                  %2 = const.i64 0
                  %3 = index.i64 [kh + {stride}*oh - 1]
                  %4 = ge %3, %2
                  %5 = const.i64 {h}
                  %6 = lt %3, %5
                  %7 = and %4, %6
                  %8 = index.i64 [kw + {stride}*ow - 1]
                  %9 = ge %8, %2
                  %10 = lt %8, %5
                  %11 = and %9, %10
                  %12 = and %7, %11
                  %13 = const.f32 0.0
                  %14 = load x[{x}] mask %12 else %13
                  %15 = load w[{c9}*oc + 9*ic + 3*kh + kw]
                  %16 = mul %14, %15
                  yield %16
                }}
                yield %1
              }}
              yield %17
            }}
            %18 = load bias[oc]
            %19 = add %0, %18
            store y[{y}], %19
          }}
        }}
      }}
    }}
  }}
}})",
                     fmt::arg("xs", 2 * c * h * h), fmt::arg("ws", o * c * 9),
                     fmt::arg("role", constant ? "constant 0" : "input"), fmt::arg("o", o),
                     fmt::arg("ys", 2 * o * oh * oh), fmt::arg("oh", oh), fmt::arg("c", c),
                     fmt::arg("stride", stride), fmt::arg("h", h), fmt::arg("x", x),
                     fmt::arg("y", y), fmt::arg("c9", c * 9));
}

TEST(ContractionSchedule, ImplicitGemmConvolution) {
  for (bool nhwc : {false, true})
    for (int64_t stride : {1, 2}) {
      SCOPED_TRACE(fmt::format("nhwc {} stride {}", nhwc, stride));
      CheckAll(Conv(3, 7, 20, stride, nhwc, true), {}, 5e-5);
      CheckAll(Conv(4, 6, 5, stride, nhwc, false), {}, 5e-5);
    }
}

TEST(ContractionSchedule, IntegersAndDoubles) {
  for (std::string dtype : {"i32", "f64", "i64"}) {
    std::string text = MatMul(9, 21, 13, true, true, false);
    size_t at = 0;
    while ((at = text.find("f32", at)) != std::string::npos) text.replace(at, 3, dtype);
    CheckAll(text, {}, 1e-12);
  }
}

TEST(ScheduleRecord, ParseRefusesWhatFormatDoesNotWrite) {
  for (std::string_view bad :
       {"", "rows", "row lanes", "row lanes=x", "row vector=[1,]x", "row b=none", "row grain=-1",
        "contraction swap=2", "row lanes=5000"})
    EXPECT_FALSE(ParseSchedule(bad).ok()) << bad;
}

TEST(PackConstant, RefusesReadsBeyondTheSource) {
  std::vector<uint8_t> source(40);
  EXPECT_TRUE(PackConstant("panels dtype=f32 width=4 offset=0 b=[] v=[2:5] k=[5:1]", source).ok());
  EXPECT_FALSE(PackConstant("panels dtype=f32 width=4 offset=1 b=[] v=[2:5] k=[5:1]", source).ok());
  EXPECT_FALSE(
      PackConstant("panels dtype=f32 width=4 offset=0 b=[] v=[2:-5] k=[5:1]", source).ok());
  EXPECT_FALSE(PackConstant("panels dtype=f32 width=4", source).ok());
  EXPECT_FALSE(PackConstant("tiles", source).ok());
}

}  // namespace
}  // namespace halyard::schedule
