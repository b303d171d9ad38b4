// SPDX-License-Identifier: Apache-2.0
// Every GPU schedule of matrix products and convolutions; see check_gpu.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "compiler/loop/text.h"
#include "tests/codegen/schedule/check_gpu.h"
#include "tests/codegen/schedule/run_on_device.h"

namespace halyard::schedule {
namespace {

struct MatMulText {
  std::string rows = "3", cols = "4", depth = "5";  // numbers or symbols
  bool transpose_a = false, transpose_b = false;
  std::string dtype = "f32";  // of the operands
  std::string sum = "f32";    // of the sum
  std::string output = "f32";
  // "bias": bias, residual and relu, and the sum stored as well; "tanh": of that
  std::string epilogue = "none";
  int64_t batches = 0;    // 0: no batch
  bool shares_b = false;  // one B for all batches
  bool scales_a = false;  // a prologue: A times a factor per k
  std::string symbols;    // declarations
};

std::string Write(const MatMulText& t) {
  const std::string batch = t.batches > 0 ? std::to_string(t.batches) : "1";
  const std::string in_a =
      t.transpose_a ? fmt::format("l*({}) + i", t.rows) : fmt::format("i*({}) + l", t.depth);
  const std::string in_b =
      t.transpose_b ? fmt::format("j*({}) + l", t.depth) : fmt::format("l*({}) + j", t.cols);
  const std::string at_a =
      t.batches > 0 ? fmt::format("h*({})*({}) + {}", t.rows, t.depth, in_a) : in_a;
  const std::string at_b =
      t.batches > 0 && !t.shares_b ? fmt::format("h*({})*({}) + {}", t.depth, t.cols, in_b) : in_b;
  const std::string at_c = (t.batches > 0 ? fmt::format("h*({})*({}) + ", t.rows, t.cols) : "") +
                           fmt::format("i*({}) + j", t.cols);
  std::string text = "function {\n" + t.symbols;
  text += fmt::format("  buffer a: {}[{}*({})*({})] input\n", t.dtype, batch, t.rows, t.depth);
  text += fmt::format("  buffer b: {}[{}*({})*({})] constant 0\n", t.dtype,
                      t.shares_b ? "1" : batch, t.depth, t.cols);
  text += fmt::format("  buffer s: {}[{}] input\n", t.sum, t.depth);
  text += fmt::format("  buffer bias: {}[{}] constant 1\n", t.sum, t.cols);
  text += fmt::format("  buffer r: {}[{}*({})*({})] input\n", t.sum, batch, t.rows, t.cols);
  text += fmt::format("  buffer c: {}[{}*({})*({})] output\n", t.output, batch, t.rows, t.cols);
  text += fmt::format("  buffer d: {}[{}*({})*({})] output\n", t.sum, batch, t.rows, t.cols);
  text += fmt::format("  kernel mm contraction({}m: i; n: j; k: l; product: %1, %2; sum: %0) {{\n",
                      t.batches > 0 ? "batch: h; " : "");
  if (t.batches > 0) text += fmt::format("    parallel h < {} {{\n", t.batches);
  text += fmt::format("    parallel i < {} {{\n    parallel j < {} {{\n", t.rows, t.cols);
  text += fmt::format("    %0 = reduce sum l < {} {{\n", t.depth);
  const bool converts = t.dtype != t.sum;
  text += fmt::format("      %{} = load a[{}]\n", converts ? 11 : t.scales_a ? 13 : 1, at_a);
  if (converts) text += fmt::format("      %{} = convert.{} %11\n", t.scales_a ? 13 : 1, t.sum);
  if (t.scales_a) text += "      %14 = load s[l]\n      %1 = mul %13, %14\n";
  text += fmt::format("      %{} = load b[{}]\n", converts ? 12 : 2, at_b);
  if (converts) text += fmt::format("      %2 = convert.{} %12\n", t.sum);
  text += "      %3 = mul %1, %2\n      yield %3\n    }\n";
  std::string result = "%0";
  if (t.epilogue == "bias" || t.epilogue == "tanh") {
    text += fmt::format(
        "    %4 = load bias[j]\n    %5 = add %0, %4\n    %6 = load r[{0}]\n    %7 = add %5, %6\n"
        "    %8 = const.{1} 0{2}\n    %9 = max %7, %8\n    store d[{0}], %0\n",
        at_c, t.sum, t.sum[0] == 'f' ? ".0" : "");
    result = "%9";
    if (t.epilogue == "tanh") {
      text += "    %15 = tanh %9\n";
      result = "%15";
    }
  } else {
    text += fmt::format("    store d[{}], %0\n", at_c);
  }
  if (t.output != t.sum) {
    text += fmt::format("    %10 = convert.{} {}\n", t.output, result);
    result = "%10";
  }
  text += fmt::format("    store c[{}], {}\n    }}\n    }}\n", at_c, result);
  if (t.batches > 0) text += "    }\n";
  return text + "  }\n}";
}

MatMulText Shape(int64_t m, int64_t n, int64_t k) {
  MatMulText t;
  t.rows = std::to_string(m);
  t.cols = std::to_string(n);
  t.depth = std::to_string(k);
  return t;
}

bool Has(const std::vector<GpuSeen>& seen, std::string_view kind) {
  return std::any_of(seen.begin(), seen.end(), [&](const GpuSeen& one) {
    return FormatSchedule(one.record).starts_with(kind);
  });
}

// On a device without asynchronous copies.
bool IsOnVulkan() {
  const testing::DeviceRunner* const device = DeviceUnderTest();
  return device != nullptr && device->target().kind == TargetKind::kVulkan;
}

GpuCheck Contractions(double tolerance = 3e-5) {
  GpuCheck check;
  check.tolerance = tolerance;
  check.kinds = {"gpu-tile", "gpu-matrix", "gpu-vector"};
  return check;
}

TEST(GpuContraction, MatMulShapes) {
  std::vector<GpuSeen> all;
  const std::vector<std::string> targets = GpuCheck().targets;
  int number = 0;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {3, 17, 65},
                                                                   {17, 3, 130},
                                                                   {65, 65, 17},
                                                                   {130, 65, 3},
                                                                   {64, 64, 64},
                                                                   {33, 130, 40},
                                                                   {1, 130, 65},
                                                                   {130, 1, 64},
                                                                   {2, 64, 128}}) {
    for (int layout = 0; layout < 4; ++layout) {
      MatMulText t = Shape(m, n, k);
      t.transpose_a = (layout & 1) != 0;
      t.transpose_b = (layout & 2) != 0;
      if ((layout + number) % 2 == 1) t.epilogue = "bias";
      SCOPED_TRACE(fmt::format("{}x{}x{} layout {}", m, n, k, layout));
      GpuCheck check = Contractions();
      check.targets = {targets[static_cast<size_t>(layout + number) % targets.size()]};
      std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, check);
      if (HasFatalFailure()) return;
      all.insert(all.end(), seen.begin(), seen.end());
    }
    ++number;
  }
  EXPECT_TRUE(Has(all, "gpu-tile") && Has(all, "gpu-vector"));
}

TEST(GpuContraction, SymbolicRowsAndColumns) {
  MatMulText t = Shape(0, 0, 24);
  t.symbols = "  symbol m in [0, 4096]\n  symbol n in [1, 512]\n";
  t.rows = "m";
  t.cols = "n";
  t.epilogue = "bias";
  for (const auto& [m, n] :
       std::vector<std::array<int64_t, 2>>{{0, 3}, {1, 1}, {37, 66}, {80, 7}}) {
    CheckGpu(Write(t), {{"m", m}, {"n", n}}, Contractions());
  }
}

TEST(GpuContraction, SymbolicDepth) {
  MatMulText t = Shape(20, 36, 0);
  t.symbols = "  symbol k in [0, 512]\n";
  t.depth = "k";
  for (int64_t k : {0, 1, 45}) EXPECT_FALSE(CheckGpu(Write(t), {{"k", k}}, Contractions()).empty());
  t.dtype = "f16";
  t.symbols = "  symbol k in [0, 512] divisor 8\n";
  for (int64_t k : {0, 40}) {
    EXPECT_TRUE(Has(CheckGpu(Write(t), {{"k", k}}, Contractions()), "gpu-matrix"));
  }
}

TEST(GpuContraction, BatchesAndPrologue) {
  for (bool shares_b : {false, true}) {
    MatMulText t = Shape(18, 36, 20);
    t.batches = 3;
    t.shares_b = shares_b;
    t.scales_a = true;
    t.epilogue = "bias";
    CheckGpu(Write(t), {}, Contractions());
    t.rows = "2";
    t.transpose_b = shares_b;
    CheckGpu(Write(t), {}, Contractions());
  }
}

// Inputs are exact in 16 bits; sums are f32.
TEST(GpuContraction, NarrowOperands) {
  std::vector<GpuSeen> all;
  const std::vector<std::string> targets = {"cuda-sm80", "vulkan-32-matrix", "cuda-sm75",
                                            "vulkan-8"};
  int number = 0;
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {64, 64, 64}, {130, 72, 40}, {17, 65, 130}, {3, 130, 64}}) {
      for (int layout = 0; layout < 4; ++layout) {
        if (dtype == "bf16" && layout % 3 != 0) continue;
        MatMulText t = Shape(m, n, k);
        t.dtype = dtype;
        t.transpose_a = (layout & 1) != 0;
        t.transpose_b = (layout & 2) != 0;
        if (layout != 0) t.epilogue = "bias";
        if (layout == 2) t.output = dtype;
        SCOPED_TRACE(fmt::format("{} {}x{}x{} layout {}", dtype, m, n, k, layout));
        // The output's own rounding.
        GpuCheck check = Contractions(layout != 2 ? 3e-5 : dtype == "f16" ? 1e-3 : 8e-3);
        check.targets = {targets[static_cast<size_t>(layout + number) % targets.size()]};
        std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, check);
        if (HasFatalFailure()) return;
        all.insert(all.end(), seen.begin(), seen.end());
      }
      ++number;
    }
  }
  EXPECT_TRUE(Has(all, "gpu-matrix"));
  EXPECT_TRUE(IsOnVulkan() ||
              std::any_of(all.begin(), all.end(), [](const GpuSeen& s) { return s.record.async; }));
}

TEST(GpuContraction, IntegersAndDoubles) {
  for (const std::string dtype : {"i32", "f64", "i64"}) {
    MatMulText t = Shape(19, 22, 13);
    t.dtype = t.sum = t.output = dtype;
    t.epilogue = "bias";
    CheckGpu(Write(t), {}, Contractions(1e-12));
  }
  MatMulText t = Shape(40, 48, 64);
  t.dtype = "i8";
  t.sum = t.output = "i32";
  EXPECT_TRUE(Has(CheckGpu(Write(t), {}, Contractions()), "gpu-matrix"));
}

TEST(GpuContraction, SplitDepth) {
  MatMulText t = Shape(20, 24, 2112);
  t.epilogue = "bias";
  // 2112 terms: 30 times as many as in the other tests.
  std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, Contractions(2e-4));
  t.dtype = "f16";
  const std::vector<GpuSeen> more = CheckGpu(Write(t), {}, Contractions(2e-4));
  seen.insert(seen.end(), more.begin(), more.end());
  bool splits_tiles = false, splits_fragments = false;
  std::set<std::string> joined;  // where
  for (const GpuSeen& one : seen) {
    if (one.record.tile.split <= 1) continue;
    EXPECT_EQ(one.built.dispatches.size(), one.record.joins ? 1u : 2u);
    if (one.record.joins) joined.insert(one.target);
    splits_tiles |= one.record.kind == ScheduleKind::kGpuTile;
    splits_fragments |= one.record.kind == ScheduleKind::kGpuMatrix;
  }
  EXPECT_TRUE(splits_tiles && splits_fragments);
  EXPECT_FALSE(joined.empty());
  if (DeviceUnderTest() == nullptr) {
    EXPECT_EQ(joined, (std::set<std::string>{"cuda-sm75", "cuda-sm80", "vulkan-32-matrix"}));
  }
}

// Measured through Vulkan on an H200: of 22 schedules of 4096^3 the one with the largest parts was
// the fastest, half again as fast as the same tile with twice the subgroups.
TEST(GpuContraction, LargeProductsOnCooperativeMatricesHaveLargeParts) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 3072, 768}}) {
    MatMulText t = Shape(m, n, k);
    t.dtype = "f16";
    ExprArena exprs;
    const Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    Target target = GpuTargetOf("vulkan-32-matrix");
    target.gpu.unit_count = 132;
    const Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    EXPECT_EQ((*records)[0].tile.item_m * (*records)[0].tile.item_n, 64 * 64)
        << FormatSchedule((*records)[0]);
  }
}

struct ConvText {
  int64_t images = 2, channels = 4, size = 9, outputs = 8, groups = 1;
  int64_t window = 3, stride = 1, pad = 1, dilation = 1;
  bool channels_innermost = false;
  std::string dtype = "f32";
};

// Channels and outputs are of one group.
std::string Write(const ConvText& t) {
  const int64_t out = (t.size + 2 * t.pad - t.dilation * (t.window - 1) - 1) / t.stride + 1;
  const int64_t all_in = t.channels * t.groups, all_out = t.outputs * t.groups;
  const auto place = [&](std::string_view axis, std::string_view tap) {
    return fmt::format("{}*{} + {}*{} - {}", t.stride, axis, t.dilation, tap, t.pad);
  };
  const std::string y = place("oh", "kh"), x = place("ow", "kw");
  const std::string channel = fmt::format("({}*g + ic)", t.channels);
  const std::string output = fmt::format("({}*g + oc)", t.outputs);
  const std::string in_at =
      t.channels_innermost
          ? fmt::format("((b*{0} + {1})*{0} + {2})*{3} + {4}", t.size, y, x, all_in, channel)
          : fmt::format("((b*{3} + {4})*{0} + {1})*{0} + {2}", t.size, y, x, all_in, channel);
  const std::string out_at =
      t.channels_innermost ? fmt::format("((b*{0} + oh)*{0} + ow)*{1} + {2}", out, all_out, output)
                           : fmt::format("((b*{1} + {2})*{0} + oh)*{0} + ow", out, all_out, output);
  const std::string w_at =
      t.channels_innermost
          ? fmt::format("(({0}*{1} + kh)*{1} + kw)*{2} + ic", output, t.window, t.channels)
          : fmt::format("(({0}*{2} + ic)*{1} + kh)*{1} + kw", output, t.window, t.channels);
  std::string text = fmt::format(
      "function {{\n  buffer x: {4}[{0}] input\n  buffer w: {4}[{1}] constant 0\n"
      "  buffer bias: f32[{2}] constant 1\n  buffer y: f32[{3}] output\n",
      t.images * all_in * t.size * t.size, all_out * t.channels * t.window * t.window, all_out,
      t.images * all_out * out * out, t.dtype);
  const std::array<std::pair<std::string, int64_t>, 3> window = {
      {{"kh", t.window}, {"kw", t.window}, {"ic", t.channels}}};
  const std::array<int, 3> order =
      t.channels_innermost ? std::array<int, 3>{0, 1, 2} : std::array<int, 3>{2, 0, 1};
  text += fmt::format(
      "  kernel conv contraction(batch: g; m: oc; n: b, oh, ow; k: {}, {}, {}; product: %15, %14; "
      "sum: %0) {{\n",
      window[order[0]].first, window[order[1]].first, window[order[2]].first);
  text += fmt::format("    parallel g < {} {{\n", t.groups);
  const std::string pixels =
      fmt::format("    parallel b < {} {{\n    parallel oh < {} {{\n    parallel ow < {} {{\n",
                  t.images, out, out);
  const std::string outputs = fmt::format("    parallel oc < {} {{\n", t.outputs);
  text += t.channels_innermost ? pixels + outputs : outputs + pixels;
  text += fmt::format("    %0 = reduce sum {} < {} {{\n", window[order[0]].first,
                      window[order[0]].second);
  text += fmt::format("    %20 = reduce sum {} < {} {{\n", window[order[1]].first,
                      window[order[1]].second);
  text += fmt::format("    %21 = reduce sum {} < {} {{\n", window[order[2]].first,
                      window[order[2]].second);
  const bool converts = t.dtype != "f32";
  text += fmt::format(
      "      %1 = const.i64 0\n      %2 = const.i64 {0}\n      %3 = index.i64 [{1}]\n"
      "      %4 = le %1, %3\n      %5 = lt %3, %2\n      %6 = and %4, %5\n"
      "      %7 = index.i64 [{2}]\n      %8 = le %1, %7\n      %9 = lt %7, %2\n"
      "      %10 = and %8, %9\n      %11 = and %6, %10\n      %12 = const.{3} 0.0\n"
      "      %{4} = load x[{5}] mask %11 else %12\n{6}      %{7} = load w[{8}]\n{9}"
      "      %16 = mul %15, %14\n      yield %16\n    }}\n    yield %21\n    }}\n    yield %20\n"
      "    }}\n    %17 = load bias[{10}]\n    %18 = add %0, %17\n    store y[{11}], %18\n",
      t.size, y, x, t.dtype, converts ? 22 : 14, in_at,
      converts ? "      %14 = convert.f32 %22\n" : "", converts ? 23 : 15, w_at,
      converts ? "      %15 = convert.f32 %23\n" : "", output, out_at);
  return text + "    }\n    }\n    }\n    }\n    }\n  }\n}";
}

TEST(GpuContraction, Convolution) {
  for (const bool channels_innermost : {false, true}) {
    std::vector<ConvText> convs(5);
    convs[1].stride = 2;
    convs[1].channels = 3;
    convs[2].dilation = 2;
    convs[2].groups = 2;
    convs[3].window = 1;
    convs[3].pad = 0;
    convs[4].size = 7;
    convs[4].outputs = 20;
    convs[4].images = 3;
    for (size_t i = 0; i < convs.size(); ++i) {
      convs[i].channels_innermost = channels_innermost;
      SCOPED_TRACE(fmt::format("convolution {} innermost {}", i, channels_innermost));
      const std::vector<GpuSeen> seen = CheckGpu(Write(convs[i]), {}, Contractions());
      if (HasFatalFailure()) return;
      EXPECT_TRUE(Has(seen, "gpu-tile"));
    }
  }
}

TEST(GpuContraction, NarrowConvolution) {
  std::vector<GpuSeen> all;
  for (const bool channels_innermost : {false, true}) {
    ConvText conv;
    conv.dtype = "f16";
    conv.size = 6;
    conv.channels = 16;
    conv.outputs = 24;
    conv.channels_innermost = channels_innermost;
    const std::vector<GpuSeen> seen = CheckGpu(Write(conv), {}, Contractions());
    if (HasFatalFailure()) return;
    all.insert(all.end(), seen.begin(), seen.end());
  }
  EXPECT_TRUE(Has(all, "gpu-matrix"));
  // Padding does not stand in the way of copies.
  EXPECT_TRUE(IsOnVulkan() ||
              std::any_of(all.begin(), all.end(), [](const GpuSeen& s) { return s.record.async; }));
}

// Records of asynchronous products: {m, n, item_m, item_n, stages} and what else a case wants.
std::string Wgmma(std::array<int, 5> tile, int split = 1, bool joins = false, bool swap = false) {
  return fmt::format(
      "gpu-wgmma lanes=1 unroll=1 swap={} m={} n={} k=64 itemm={} itemn={} stages={} split={} "
      "raster=1 async=1{}",
      int{swap}, tile[0], tile[1], tile[2], tile[3], tile[4], split, joins ? " joins=1" : "");
}

// What CheckGpu sees of so many records of asynchronous products: nothing on a device without them.
size_t Seen(size_t count) {
  const testing::DeviceRunner* const device = DeviceUnderTest();
  return device == nullptr || device->target().gpu.compute_capability == 90 ? count : 0;
}

GpuCheck Products(std::vector<std::string> records, double tolerance = 3e-5) {
  GpuCheck check = Contractions(tolerance);
  check.targets = {"cuda-sm90"};
  check.kinds = {"gpu-wgmma"};
  check.records = std::move(records);
  return check;
}

// Sizes that are no multiples of the tile, both layouts of both operands, and every epilogue.
TEST(GpuContraction, AsynchronousProducts) {
  struct Sizes {
    int64_t m, n, k;
    std::array<int, 5> tile;
  };
  const Sizes sizes[] = {
      {70, 72, 200, {64, 64, 64, 64, 3}},      {130, 200, 72, {128, 256, 64, 256, 4}},
      {200, 136, 72, {256, 128, 128, 128, 3}}, {72, 66, 330, {64, 128, 64, 64, 5}},
      {64, 64, 8, {64, 64, 64, 64, 4}},        {200, 72, 136, {192, 64, 64, 64, 3}},
      {70, 200, 72, {64, 192, 64, 192, 4}},    {130, 200, 136, {128, 192, 64, 192, 5}},
      {200, 200, 72, {192, 192, 64, 192, 4}},  {200, 264, 72, {192, 256, 64, 256, 3}},
  };
  int number = 0;
  for (const Sizes& s : sizes) {
    for (int layout = 0; layout < 4; ++layout) {
      // The largest tile takes long: two layouts of it.
      if (s.tile[0] * s.tile[1] > 128 * 128 && layout % 2 != number % 2) continue;
      MatMulText t = Shape(s.m, s.n, s.k);
      t.dtype = (layout + number) % 2 == 0 ? "bf16" : "f16";
      t.transpose_a = (layout & 1) != 0;
      t.transpose_b = (layout & 2) != 0;
      if (layout != 1) t.epilogue = "bias";
      if (layout == 2) t.output = t.dtype;
      SCOPED_TRACE(fmt::format("{}x{}x{} layout {} {}", s.m, s.n, s.k, layout, t.dtype));
      const GpuCheck check = Products({Wgmma(s.tile)}, layout != 2        ? 1e-4
                                                       : t.dtype == "f16" ? 1e-3
                                                                          : 8e-3);
      EXPECT_EQ(CheckGpu(Write(t), {}, check).size(), Seen(1));
      if (HasFatalFailure()) return;
    }
    ++number;
  }
}

// Places of a pass over a slice would not add up.
TEST(GpuContraction, AsynchronousProductsOfOddTilesStandAboveEachOther) {
  MatMulText t = Shape(384, 384, 128);
  t.dtype = t.output = "f16";
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  const std::pair<std::array<int, 5>, bool> tiles[] = {
      {{192, 128, 64, 128, 4}, true},  {{128, 192, 64, 192, 4}, true},
      {{128, 192, 64, 96, 4}, false},  {{384, 64, 128, 64, 3}, false},
      {{192, 256, 64, 128, 3}, false}, {{96, 128, 96, 128, 3}, false},
      {{160, 64, 32, 64, 3}, false}};
  for (const auto& [tile, fits] : tiles) {
    const Result<ScheduleRecord> record = ParseSchedule(Wgmma(tile));
    ASSERT_TRUE(record.ok()) << record.status().ToString();
    const auto built = BuildKernel(*function, 0, *record, GpuTargetOf("cuda-sm90"));
    EXPECT_EQ(built.ok(), fits) << FormatSchedule(*record) << built.status().ToString();
  }
}

// Rows of C that begin anywhere: elements, not vectors, so that a slice takes many rounds, some of
// them written out and the rest a loop.
TEST(GpuContraction, AsynchronousProductsOfOddRows) {
  for (const char* epilogue : {"none", "bias", "tanh"}) {
    for (const bool has_wide_tiles : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", epilogue, has_wide_tiles));
      MatMulText t = Shape(has_wide_tiles ? 70 : 135, 131, 72);
      t.dtype = has_wide_tiles ? "f16" : "bf16";
      t.transpose_b = true;
      t.epilogue = epilogue;
      const std::string record =
          has_wide_tiles ? Wgmma({64, 128, 64, 64, 3}) : Wgmma({128, 64, 64, 64, 3});
      EXPECT_EQ(CheckGpu(Write(t), {}, Products({record}, 1e-4)).size(), Seen(1));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(GpuContraction, AsynchronousProductsInBatchesAndParts) {
  MatMulText t = Shape(40, 72, 24);
  t.dtype = "bf16";
  t.batches = 3;
  t.epilogue = "bias";
  EXPECT_EQ(CheckGpu(Write(t), {}, Products({Wgmma({64, 64, 64, 64, 3})})).size(), Seen(1));
  t = Shape(70, 72, 600);
  t.dtype = "f16";
  t.epilogue = "bias";
  // The last part has no tile of its own; swapped: rows run along n.
  EXPECT_EQ(CheckGpu(Write(t), {},
                     Products({Wgmma({64, 64, 64, 64, 3}, 4, true), Wgmma({64, 64, 64, 64, 3}, 4),
                               Wgmma({64, 128, 64, 64, 3}, 9, true),
                               Wgmma({128, 64, 64, 64, 3}, 1, false, true)},
                              2e-4))
                .size(),
            Seen(4));
  t = Shape(0, 72, 0);
  t.dtype = "f16";
  t.symbols = "  symbol m in [0, 512]\n  symbol k in [0, 512] divisor 8\n";
  t.rows = "m", t.depth = "k";
  for (const auto& [m, k] : std::vector<std::array<int64_t, 2>>{{0, 8}, {3, 0}, {66, 136}}) {
    CheckGpu(Write(t), {{"m", m}, {"k", k}}, Products({Wgmma({64, 64, 64, 64, 3})}));
  }
}

TEST(GpuContraction, AsynchronousConvolution) {
  for (const bool channels_innermost : {true, false}) {
    ConvText conv;
    conv.dtype = "f16";
    conv.size = 6;
    conv.channels = 24;
    conv.outputs = 72;
    conv.stride = 2;
    conv.channels_innermost = channels_innermost;
    GpuCheck check = Products({Wgmma({64, 64, 64, 64, 3})}, 1e-4);
    if (!channels_innermost) check.records.clear();  // pixels are no runs: nothing is offered
    const size_t seen = CheckGpu(Write(conv), {}, check).size();
    if (HasFatalFailure()) return;
    EXPECT_EQ(seen, Seen(channels_innermost ? 1 : 0));
  }
}

// What the interpreter must notice in a schedule whose parts are changed one by one.
TEST(GpuContraction, BrokenAsynchronousProductsAreFound) {
  if (DeviceUnderTest() != nullptr) GTEST_SKIP() << "A device need not notice.";
  MatMulText t = Shape(64, 64, 264);
  t.dtype = "f16";
  t.transpose_b = true;
  const auto change = [](kernel::Opcode opcode, const std::function<void(kernel::Op&)>& how) {
    return [opcode, how](kernel::Kernel& kernel) {
      for (kernel::Op& op : kernel.ops) {
        if (op.opcode == opcode) how(op);
      }
    };
  };
  const auto drop = [](kernel::Opcode opcode) {
    return [opcode](kernel::Kernel& kernel) {
      for (kernel::Block& block : kernel.blocks) {
        std::erase_if(block.ops, [&](kernel::OpId id) { return kernel.ops[id].opcode == opcode; });
      }
    };
  };
  using kernel::Opcode;
  const std::pair<const char*, std::function<void(kernel::Kernel&)>> cases[] = {
      {"other swizzle", change(Opcode::kXor, [](kernel::Op& op) { op.opcode = Opcode::kAdd; })},
      {"no fence", drop(Opcode::kAsyncFence)},
      {"no wait for products", drop(Opcode::kMmaWait)},
      {"products left pending",
       change(Opcode::kMmaWait, [](kernel::Op& op) { ++op.immediates[0]; })},
      {"copies left pending",
       change(Opcode::kAsyncWait, [](kernel::Op& op) { ++op.immediates[0]; })},
      {"no barrier", drop(Opcode::kBarrier)},
      {"the other layout",
       change(Opcode::kMmaAsync,
              [](kernel::Op& op) { op.immediates[2] = 1, op.immediates[4] = 4096; })},
  };
  for (const auto& [what, breaks] : cases) {
    SCOPED_TRACE(what);
    GpuCheck check = Products({Wgmma({64, 64, 64, 64, 3})});
    check.breaks = breaks;
    CheckGpu(Write(t), {}, check);
    if (HasFatalFailure()) return;
  }
}

// Only one architecture has them, and other schedules race beside them there.
TEST(GpuContraction, AsynchronousProductsAreOffered) {
  MatMulText t = Shape(1024, 1024, 1024);
  t.dtype = t.output = "bf16";
  for (const char* name : {"cuda-sm80", "cuda-sm90"}) {
    ExprArena exprs;
    Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    Result<std::vector<ScheduleRecord>> records =
        EnumerateSchedules(*function, 0, GpuTargetOf(name));
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    const auto count = std::count_if(records->begin(), records->end(), [](const ScheduleRecord& r) {
      return r.kind == ScheduleKind::kGpuWgmma;
    });
    const bool has_them = std::string_view(name) == "cuda-sm90";
    EXPECT_EQ(count > 0, has_them);
    EXPECT_LE(count, std::ssize(*records) - 2);
    EXPECT_EQ(records->front().kind, has_them ? ScheduleKind::kGpuWgmma : ScheduleKind::kGpuMatrix);
  }
}

// With three stages a single one is on its way while the unit multiplies. Where a workgroup has its
// unit for itself nothing hides that: on an H200 such tiles took twice as long as these.
TEST(GpuContraction, FewAsynchronousProductsHaveStagesOnTheirWay) {
  for (const auto& [rows, cols, depth] :
       {std::array{197, 3072, 768}, std::array{197, 2304, 768}, std::array{512, 1568, 2048}}) {
    MatMulText t = Shape(rows, cols, depth);
    t.dtype = t.output = "f16";
    ExprArena exprs;
    Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    Target target = GpuTargetOf("cuda-sm90");
    target.gpu.unit_count = 132;
    Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    EXPECT_EQ(records->front().kind, ScheduleKind::kGpuWgmma);
    EXPECT_GE(records->front().tile.stages, 4) << FormatSchedule(records->front());
  }
}

int64_t CountOps(const kernel::Kernel& kernel, kernel::Opcode opcode) {
  return std::count_if(kernel.ops.begin(), kernel.ops.end(),
                       [&](const kernel::Op& op) { return op.opcode == opcode; });
}

// What the text of a kernel promises about its speed.
TEST(GpuContraction, LargeProductsCopyWideAndOverlap) {
  for (const char* name : {"cuda-sm80", "cuda-sm90"}) {
    SCOPED_TRACE(name);
    MatMulText t = Shape(8192, 8192, 8192);
    t.dtype = t.output = "bf16";
    ExprArena exprs;
    Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    const Target target = GpuTargetOf(name);
    Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    ASSERT_GE(records->size(), 3u);
    const ScheduleRecord& best = (*records)[0];
    const bool is_quads = best.kind == ScheduleKind::kGpuWgmma;
    EXPECT_EQ(is_quads, target.gpu.compute_capability == 90);
    EXPECT_TRUE(best.async);
    EXPECT_GE(best.tile.stages, is_quads ? 3 : 2);
    Result<ScheduledKernel> built = BuildKernel(*function, 0, best, target);
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    ASSERT_EQ(built->dispatches.size(), 1u);
    const kernel::Kernel& kernel = built->kernels[0];
    // Every copy moves 16 bytes: 8 elements.
    int64_t copies = 0;
    for (const kernel::Op& op : kernel.ops) {
      if (op.opcode != kernel::Opcode::kAsyncCopy) continue;
      EXPECT_EQ(op.immediates[1], 8);
      ++copies;
    }
    const GpuTile& tile = best.tile;
    const int64_t stages = tile.stages - is_quads;  // that the text fills
    // By all workitems, or by three of four where lines of 192 columns cannot be shared evenly.
    const int64_t rows = tile.m * tile.k / 8 / kernel.workgroup_size[0];
    const int64_t cols = tile.n * tile.k / 8 / kernel.workgroup_size[0];
    EXPECT_EQ(copies, stages * (rows + (tile.n == 192 && tile.m == 128 ? cols * 4 / 3 : cols)));
    EXPECT_EQ(CountOps(kernel, kernel::Opcode::kFragmentMma),
              is_quads ? 0 : tile.item_m / 16 * tile.item_n / 16 * tile.k / 16);
    EXPECT_EQ(CountOps(kernel, kernel::Opcode::kMmaAsync),
              is_quads ? tile.item_m / 64 * tile.k / 16 : 0);
    EXPECT_LE(WorkgroupBytes(kernel), target.gpu.workgroup_memory_bytes);
  }
}

// llvmpipe takes the longer to compile a kernel the more sums a workitem has, far out of
// proportion.
TEST(GpuContraction, WorkitemsOfAProcessorHaveFewSums) {
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(Write(Shape(128, 768, 3072)), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  for (const char* name : {"vulkan-8", "vulkan-32"}) {
    SCOPED_TRACE(name);
    Result<std::vector<ScheduleRecord>> records =
        EnumerateSchedules(*function, 0, GpuTargetOf(name));
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    int32_t most = 0;
    for (const ScheduleRecord& record : *records) {
      if (record.kind != ScheduleKind::kGpuTile) continue;
      most = std::max(most, record.tile.item_m * record.tile.item_n);
    }
    if (name == std::string("vulkan-8")) {
      EXPECT_EQ(most, 16);
    } else {
      EXPECT_GT(most, 16);
    }
  }
}

// Few rows and a long sum, in f32: parts of it fill the device, and the next tile is asked for
// before the barrier that the products wait for, under no condition, so that no compiler delays it.
TEST(GpuContraction, ProductsOfWorkitemsFillTheDeviceAndLoadAhead) {
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(Write(Shape(128, 768, 3072)), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  for (const char* name : {"cuda-sm90", "vulkan-32"}) {
    SCOPED_TRACE(name);
    Target target = GpuTargetOf(name);
    target.gpu.unit_count = 132;
    Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    const ScheduleRecord& best = (*records)[0];
    ASSERT_EQ(best.kind, ScheduleKind::kGpuTile);
    const GpuTile& tile = best.tile;
    EXPECT_GE((128 / tile.m) * (768 / tile.n) * tile.split, 132);
    Result<ScheduledKernel> built = BuildKernel(*function, 0, best, target);
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    const kernel::Kernel& kernel = built->kernels[0];
    size_t loops = 0;
    for (const kernel::Op& op : kernel.ops) {
      if (op.opcode != kernel::Opcode::kFor) continue;
      ++loops;
      bool has_barrier = false;
      int64_t loads = 0;
      for (const kernel::OpId id : kernel.blocks[op.blocks[0]].ops) {
        const kernel::Op& inner = kernel.ops[id];
        has_barrier |= inner.opcode == kernel::Opcode::kBarrier;
        if (inner.opcode != kernel::Opcode::kLoad ||
            kernel.buffers[inner.buffer].space != kernel::MemorySpace::kGlobal) {
          continue;
        }
        EXPECT_FALSE(has_barrier);
        loads += kernel.values[inner.results[0]].type.lanes;
      }
      EXPECT_TRUE(has_barrier);
      EXPECT_EQ(loads, (tile.m + tile.n) * tile.k / kernel.workgroup_size[0]);
    }
    EXPECT_EQ(loops, 1u);
  }
}

// A residual is read once, in vectors of 16 bytes, and several of them are on their way before the
// last products are waited for.
TEST(GpuContraction, AsynchronousProductsReadTheirResidualAhead) {
  MatMulText t = Shape(1024, 1024, 1024);
  t.dtype = "f16";
  t.epilogue = "bias";
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  const Result<ScheduleRecord> record = ParseSchedule(Wgmma({128, 256, 64, 256, 4}));
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  Result<ScheduledKernel> built = BuildKernel(*function, 0, *record, GpuTargetOf("cuda-sm90"));
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  const kernel::Kernel& kernel = built->kernels[0];
  int64_t all = 0, ahead = 0;
  bool has_waited = false;
  for (const kernel::OpId id : kernel.blocks[0].ops) {
    const kernel::Op& op = kernel.ops[id];
    has_waited |= op.opcode == kernel::Opcode::kMmaWait && op.immediates[0] == 0;
    if (op.opcode != kernel::Opcode::kLoad || kernel.buffers[op.buffer].name != "r") continue;
    EXPECT_EQ(kernel.values[op.results[0]].type.lanes, 4);
    ++all;
    ahead += !has_waited;
  }
  EXPECT_TRUE(has_waited);
  EXPECT_EQ(all, 128 * 256 / 4 / 256);
  EXPECT_EQ(ahead, 192 / 16);  // three slices of 32 columns
}

}  // namespace
}  // namespace halyard::schedule
