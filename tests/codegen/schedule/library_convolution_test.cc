// SPDX-License-Identifier: Apache-2.0
// Contractions as convolutions of a vendor's library: which are taken and as what, what is folded
// into them and what is left over, and that the record and the kernels say the same as the loops.
#include "compiler/schedule/gpu/library_convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/loop/text.h"
#include "compiler/schedule/gpu/library_call.h"
#include "tests/codegen/schedule/check_gpu.h"

namespace halyard::schedule {
namespace {

// Loops of a convolution with one group under an epilogue whose last value is %99; "": there is
// none.
struct Windows {
  int64_t images = 2, rows = 8, columns = 6, channels = 5, outputs = 12;
  int64_t window = 3, stride = 1, dilation = 1, pad = 1, pad_after = 1;
  bool is_planar = false, is_masked = true;
  std::string dtype = "f16", output = "f16";
  std::string epilogue = "    %99 = convert.f16 %0\n";

  int64_t Out(int64_t size) const {
    return (size + pad + pad_after - dilation * (window - 1) - 1) / stride + 1;
  }
};

std::string WriteWindows(const Windows& t) {
  const int64_t oh = t.Out(t.rows), ow = t.Out(t.columns);
  const auto at = [&](std::string_view axis, std::string_view tap) {
    return fmt::format("({}*{} + {}*{} - {})", t.stride, axis, t.dilation, tap, t.pad);
  };
  const std::string y = at("p", "r"), x = at("q", "s");
  const auto place = [&](std::string_view image, std::string_view channel, int64_t channels,
                         std::string_view row, int64_t rows, std::string_view column,
                         int64_t columns) {
    return t.is_planar ? fmt::format("(({0}*{1} + {2})*{3} + {4})*{5} + {6}", image, channels,
                                     channel, rows, row, columns, column)
                       : fmt::format("(({0}*{3} + {4})*{5} + {6})*{1} + {2}", image, channels,
                                     channel, rows, row, columns, column);
  };
  const std::string x_at = place("b", "c", t.channels, y, t.rows, x, t.columns);
  const std::string w_at = place("k", "c", t.channels, "r", t.window, "s", t.window);
  const std::string y_at = place("b", "k", t.outputs, "p", oh, "q", ow);
  const int64_t results = t.images * t.outputs * oh * ow;
  std::string text = fmt::format(
      "function {{\n  buffer x: {0}[{1}] input\n  buffer w: {0}[{2}] constant 0\n"
      "  buffer bias: {3}[{4}] constant 1\n  buffer z: {3}[{5}] input\n"
      "  buffer y: {3}[{5}] output\n",
      t.dtype, t.images * t.channels * t.rows * t.columns,
      t.outputs * t.channels * t.window * t.window, t.output, t.outputs, results);
  text += fmt::format(
      "  kernel conv contraction(m: k; n: b, p, q; k: {}; product: %15, %14; sum: %0) {{\n",
      t.is_planar ? "c, r, s" : "r, s, c");
  const std::string pixels = fmt::format(
      "    parallel b < {} {{\n    parallel p < {} {{\n    parallel q < {} {{\n", t.images, oh, ow);
  const std::string outputs = fmt::format("    parallel k < {} {{\n", t.outputs);
  text += t.is_planar ? outputs + pixels : pixels + outputs;
  const std::string taps[3] = {fmt::format("c < {}", t.channels), fmt::format("r < {}", t.window),
                               fmt::format("s < {}", t.window)};
  const int order[2][3] = {{1, 2, 0}, {0, 1, 2}};
  const char* const sums[3] = {"%0", "%20", "%21"};
  for (int i = 0; i < 3; ++i) {
    text += fmt::format("    {} = reduce sum {} {{\n", sums[i], taps[order[t.is_planar][i]]);
  }
  if (t.is_masked) {
    text += fmt::format(
        "      %1 = const.i64 0\n      %2 = const.i64 {}\n      %3 = index.i64 [{}]\n"
        "      %4 = le %1, %3\n      %5 = lt %3, %2\n      %6 = and %4, %5\n"
        "      %13 = const.i64 {}\n      %7 = index.i64 [{}]\n      %8 = le %1, %7\n"
        "      %9 = lt %7, %13\n      %10 = and %8, %9\n      %11 = and %6, %10\n"
        "      %12 = const.{} 0.0\n",
        t.rows, y, t.columns, x, t.dtype);
  }
  const bool converts = t.dtype != "f32";
  text += fmt::format("      %{} = load x[{}]{}\n", converts ? 22 : 14, x_at,
                      t.is_masked ? " mask %11 else %12" : "");
  if (converts) text += "      %14 = convert.f32 %22\n";
  text += fmt::format("      %{} = load w[{}]\n", converts ? 23 : 15, w_at);
  if (converts) text += "      %15 = convert.f32 %23\n";
  text += "      %16 = mul %15, %14\n      yield %16\n    }\n    yield %21\n    }\n";
  text += "    yield %20\n    }\n";
  std::string epilogue = t.epilogue;
  for (size_t found = 0; (found = epilogue.find("HERE")) != std::string::npos;) {
    epilogue.replace(found, 4, y_at);
  }
  text += epilogue + fmt::format("    store y[{}], {}\n", y_at, epilogue.empty() ? "%0" : "%99");
  return text + "    }\n    }\n    }\n    }\n  }\n}";
}

constexpr char kSumOfAll[] =
    "    %30 = convert.f16 %0\n    %31 = convert.f32 %30\n    %32 = load bias[k]\n"
    "    %33 = convert.f32 %32\n    %34 = add %31, %33\n    %35 = load z[HERE]\n"
    "    %36 = convert.f32 %35\n    %37 = add %34, %36\n";

std::optional<LibraryPlan> ConvolutionPlanOf(const std::string& text, std::string* why = nullptr) {
  ExprArena exprs;
  const Result<loop::Function> function = loop::ParseFunction(text, exprs);
  EXPECT_TRUE(function.ok()) << function.status().ToString() << text;
  if (!function.ok()) return std::nullopt;
  return PlanLibraryCall(*function, 0, GpuTargetOf("cuda-sm80-interpreted"), why);
}

// As the record says and as the kernels that stand in do.
void ExpectRightConvolution(const std::string& text, bool is_f32) {
  for (const bool uses_library : {false, true}) {
    GpuCheck check;
    check.targets = {"cuda-sm80-interpreted"};
    check.tolerance = is_f32 ? 1e-4 : 4e-3;
    check.uses_library = uses_library;
    ScheduleRecord record;
    record.kind = ScheduleKind::kGpuLibrary;
    record.tile =
        is_f32 ? GpuTile{32, 32, 16, 4, 4, 2, 1, 1} : GpuTile{32, 32, 32, 16, 16, 2, 1, 1};
    record.library = {91901, 7, 640, {1, 2, 3, 0, 0, 0, 0, UINT64_MAX}};
    check.records = {FormatSchedule(record)};
    SCOPED_TRACE(fmt::format("library {}", uses_library));
    const auto seen = CheckGpu(text, {}, check);
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].built.library_calls.at(0).kind, GpuLibraryKind::kConvolution);
  }
}

TEST(LibraryConvolution, ReadsWindowsStridesAndPadding) {
  std::vector<Windows> all(8);
  all[1].stride = 2;
  all[2].dilation = 2, all[2].pad = all[2].pad_after = 2;
  all[3].is_masked = false, all[3].pad = all[3].pad_after = 0;
  all[4].window = 1, all[4].pad = all[4].pad_after = 0, all[4].stride = 2;
  all[4].is_masked = false;
  all[5].pad = 0, all[5].pad_after = 2;
  all[6].images = 1, all[6].window = 5, all[6].pad = all[6].pad_after = 2;
  all[7].is_masked = false, all[7].pad = all[7].pad_after = 0, all[7].stride = 2;
  all[7].rows = 9, all[7].columns = 7, all[7].dilation = 2;
  for (const bool is_planar : {false, true}) {
    for (const bool is_f32 : {false, true}) {
      for (size_t i = 0; i < all.size(); ++i) {
        Windows t = all[i];
        t.is_planar = is_planar;
        if (is_f32) t.dtype = t.output = "f32", t.epilogue = "";
        const std::string text = WriteWindows(t);
        SCOPED_TRACE(fmt::format("case {} planar {} f32 {}", i, is_planar, is_f32));
        std::string why;
        const auto plan = ConvolutionPlanOf(text, &why);
        ASSERT_TRUE(plan) << why;
        ASSERT_EQ(plan->call.kind, GpuLibraryKind::kConvolution);
        EXPECT_FALSE(plan->is_cut);
        const GpuLibraryConvolution& c = plan->call.convolution;
        EXPECT_EQ(c.images, t.images);
        EXPECT_EQ(c.output_channels, t.outputs);
        EXPECT_EQ(c.output[0], t.Out(t.rows));
        EXPECT_EQ(c.output[1], t.Out(t.columns));
        if (i < 7) {  // a stride and a dilation with a common factor are one step
          EXPECT_EQ(c.input_channels, t.channels);
          EXPECT_EQ(c.window[0], t.window);
          EXPECT_EQ(c.window[1], t.window);
          EXPECT_EQ(c.stride[0], t.stride);
          EXPECT_EQ(c.stride[1], t.stride);
        }
        if (t.is_masked) {
          EXPECT_EQ(c.input[0], t.rows);
          EXPECT_EQ(c.input[1], t.columns);
          EXPECT_EQ(c.pad_before[0], t.pad);
          EXPECT_EQ(c.dilation[1], t.dilation);
        }
        ExpectRightConvolution(text, is_f32);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Rows of a window that are one run with their channels, as of a picture whose padding was written
// out.
TEST(LibraryConvolution, ReadsRunsOfTapsAndChannels) {
  const char* const text = R"(function {
  buffer x: f16[2*12*10*4] input
  buffer w: f16[6*3*12] constant 0
  buffer bias: f16[6] constant 1
  buffer y: f16[2*5*4*6] output
  kernel conv contraction(m: k; n: b, p, q; k: r, s; product: %15, %14; sum: %0) {
    parallel b < 2 {
    parallel p < 5 {
    parallel q < 4 {
    parallel k < 6 {
    %0 = reduce sum r < 3 {
    %20 = reduce sum s < 12 {
      %22 = load x[480*b + 80*p + 8*q + 40*r + s]
      %14 = convert.f32 %22
      %23 = load w[36*k + 12*r + s]
      %15 = convert.f32 %23
      %16 = mul %15, %14
      yield %16
    }
    yield %20
    }
    %99 = convert.f16 %0
    store y[120*b + 24*p + 6*q + k], %99
    }
    }
    }
    }
  }
})";
  const auto plan = ConvolutionPlanOf(text);
  ASSERT_TRUE(plan);
  const GpuLibraryConvolution& c = plan->call.convolution;
  EXPECT_EQ(FormatLibraryConvolution(c), "2x4x12x10 by 6x4x3x3 stride 2 pad 0 f16");
  ExpectRightConvolution(text, false);
}

TEST(LibraryConvolution, FoldsBiasAndSum) {
  Windows t;
  t.epilogue = std::string(kSumOfAll) + "    %99 = convert.f16 %37\n";
  const auto plan = ConvolutionPlanOf(WriteWindows(t));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->is_cut);
  EXPECT_EQ(plan->call.convolution.bias.binding, 2u);
  EXPECT_EQ(plan->call.convolution.z.binding, 3u);
  EXPECT_EQ(plan->call.convolution.y.binding, 4u);
  ExpectRightConvolution(WriteWindows(t), false);
  // Not ReLU, since some engines make zeros of NaN.
  t.epilogue = std::string(kSumOfAll) +
               "    %38 = const.f32 0.0\n    %39 = max %37, %38\n    %99 = convert.f16 %39\n";
  const auto rectified = ConvolutionPlanOf(WriteWindows(t));
  ASSERT_TRUE(rectified);
  EXPECT_TRUE(rectified->is_cut);
  ExpectRightConvolution(WriteWindows(t), false);
  Windows wide;
  wide.dtype = wide.output = "f32";
  wide.epilogue = "    %38 = const.f32 0.0\n    %99 = max %0, %38\n";
  const auto apart = ConvolutionPlanOf(WriteWindows(wide));
  ASSERT_TRUE(apart);
  EXPECT_TRUE(apart->is_cut);
  ExpectRightConvolution(WriteWindows(wide), true);
  // Once a bias is two.
  t.epilogue =
      "    %30 = load bias[k]\n    %31 = convert.f32 %30\n    %32 = add %0, %31\n"
      "    %33 = add %32, %31\n    %99 = convert.f16 %33\n";
  const auto cut = ConvolutionPlanOf(WriteWindows(t));
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->is_cut);
  ExpectRightConvolution(WriteWindows(t), false);
}

TEST(LibraryConvolution, CutsOffWhatTheLibraryLacks) {
  // The rounded sum passes through the result's own memory.
  Windows t;
  t.epilogue = std::string(kSumOfAll) + "    %40 = erf %37\n    %99 = convert.f16 %40\n";
  auto plan = ConvolutionPlanOf(WriteWindows(t));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->is_cut);
  EXPECT_EQ(plan->between, DType::kF16);
  EXPECT_EQ(plan->call.convolution.y.binding, 4u);
  ExpectRightConvolution(WriteWindows(t), false);
  // An unrounded sum passes in f32, through a workspace.
  for (const bool is_planar : {false, true}) {
    t.is_planar = is_planar;
    t.epilogue = "    %40 = erf %0\n    %99 = convert.f16 %40\n";
    plan = ConvolutionPlanOf(WriteWindows(t));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->between, DType::kF32);
    EXPECT_EQ(plan->call.convolution.y.binding, kNoLibraryBinding);
    ExpectRightConvolution(WriteWindows(t), false);
  }
}

// Few results of long sums: over planes all of our schedules split them, and a kernel in whole sums
// stands in.
TEST(LibraryConvolution, StandsInWhereOursSplitTheirSums) {
  Windows t;
  t.images = 1, t.rows = t.columns = 14, t.channels = t.outputs = 256;
  for (const bool is_planar : {false, true}) {
    t.is_planar = is_planar;
    ExprArena exprs;
    const Result<loop::Function> function = loop::ParseFunction(WriteWindows(t), exprs);
    ASSERT_TRUE(function.ok());
    const Target target = GpuTargetOf("cuda-sm90");
    const auto plan = PlanLibraryCall(*function, 0, target, nullptr);
    ASSERT_TRUE(plan);
    const auto records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok());
    for (const ScheduleRecord& record : *records) {
      if (is_planar &&
          (record.kind == ScheduleKind::kGpuMatrix || record.kind == ScheduleKind::kGpuTile)) {
        EXPECT_GT(record.tile.split, 1) << FormatSchedule(record);
      }
    }
    GpuLibraryCall proposal = plan->call;
    proposal.choice = {91901, 7, 640, {1, 2}};
    const auto made = LibrarySchedules(*records, {&proposal, 1});
    ASSERT_EQ(made.size(), 1u);
    const auto built = BuildKernel(*function, 0, made[0], target);
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    EXPECT_EQ(built->library_calls.size(), 1u);
  }
}

TEST(LibraryConvolution, LeavesOutWhatIsNone) {
  std::string why;
  // A plain product is one of the other library's.
  Windows t;
  t.window = 1, t.pad = t.pad_after = 0, t.is_masked = false;
  auto plan = ConvolutionPlanOf(WriteWindows(t));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->call.kind, GpuLibraryKind::kMatmul);
  // Padding with another number than 0.
  std::string text = WriteWindows({});
  text.replace(text.find("const.f16 0.0"), 13, "const.f16 1.0");
  EXPECT_FALSE(ConvolutionPlanOf(text, &why));
  EXPECT_THAT(why, ::testing::HasSubstr("its padding is not 0"));
  // A mask that bounds something else than the picture.
  text = WriteWindows({});
  text.replace(text.find("lt %3, %2"), 9, "lt %2, %3");
  EXPECT_FALSE(ConvolutionPlanOf(text, &why));
  EXPECT_THAT(why, ::testing::HasSubstr("its mask is not the edge of a picture"));
  // On a device that does not interpret, small convolutions are ours.
  ExprArena exprs;
  const Result<loop::Function> function = loop::ParseFunction(WriteWindows({}), exprs);
  ASSERT_TRUE(function.ok());
  EXPECT_FALSE(PlanLibraryCall(*function, 0, GpuTargetOf("cuda-sm80"), &why));
  EXPECT_THAT(why, ::testing::HasSubstr("it is too small"));
}

}  // namespace
}  // namespace halyard::schedule
