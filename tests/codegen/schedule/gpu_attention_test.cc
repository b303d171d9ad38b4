// SPDX-License-Identifier: Apache-2.0
// The GPU schedule of attention with an online softmax; see check_gpu.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/codegen/schedule/check_gpu.h"

namespace halyard::schedule {
namespace {

struct AttentionText {
  std::string queries = "20", keys = "40";  // numbers or symbols
  int64_t depth = 8, width = 8;
  int64_t heads = 4, key_heads = 2;
  bool is_masked = false, is_causal = false;
  std::string dtype = "f32";
  std::string symbols;
};

// As lowering writes it: heads beside each other in memory, scores local where their number is
// known.
std::string Write(const AttentionText& t) {
  const bool is_local = t.symbols.empty();
  const std::string row =
      is_local ? "" : fmt::format("h*({0})*({1}) + i*({1}) + ", t.queries, t.keys);
  const std::string size =
      is_local ? t.keys : fmt::format("{}*({})*({})", t.heads, t.queries, t.keys);
  std::string text = "function {\n" + t.symbols;
  text += fmt::format("  buffer q: {}[{}*({})*{}] input\n", t.dtype, t.heads, t.queries, t.depth);
  text += fmt::format("  buffer k: {}[{}*({})*{}] input\n", t.dtype, t.key_heads, t.keys, t.depth);
  text += fmt::format("  buffer v: {}[{}*({})*{}] input\n", t.dtype, t.key_heads, t.keys, t.width);
  text += fmt::format("  buffer mask: bool[({})*({})] input\n", t.queries, t.keys);
  text += fmt::format("  buffer o: f32[{}*({})*{}] output\n", t.heads, t.queries, t.width);
  for (const char* name : {"scores", "weights"}) {
    if (!is_local) text += fmt::format("  buffer {}: f32[{}] temp\n", name, size);
  }
  text += "  kernel attend attention(batch: h; m: i) {\n";
  for (const char* name : {"scores", "weights"}) {
    if (is_local) text += fmt::format("    local {}: f32[{}]\n", name, size);
  }
  const auto load = [&](int number, int temporary, const std::string& at) {
    if (t.dtype == "f32") return fmt::format("%{} = load {}\n", number, at);
    return fmt::format("%{0} = load {2}\n%{1} = convert.f32 %{0}\n", temporary, number, at);
  };
  const std::string key_head = fmt::format("floordiv(h, {})", t.heads / t.key_heads);
  text += fmt::format("parallel h < {} {{\nparallel i < {} {{\nparallel j < {} {{\n", t.heads,
                      t.queries, t.keys);
  text += fmt::format("%0 = reduce sum c < {} {{\n", t.depth);
  text += load(1, 51, fmt::format("q[{}*h + {}*i + c]", t.depth, t.heads * t.depth));
  text += load(3, 53, fmt::format("k[{}*{} + {}*j + c]", t.depth, key_head, t.key_heads * t.depth));
  text += "%5 = mul %1, %3\nyield %5\n}\n%6 = const.f32 0.25\n%7 = mul %0, %6\n";
  text += "%9 = const.f32 -inf\n";
  std::string score = "%7";
  if (t.is_masked) {
    text += fmt::format("%8 = load mask[i*({}) + j]\n%10 = select %8, {}, %9\n", t.keys, score);
    score = "%10";
  }
  if (t.is_causal) {
    text += fmt::format(
        "%30 = index.i64 [j]\n%31 = index.i64 [i + ({0}) - ({1}) + 1]\n%32 = lt %30, %31\n"
        "%33 = select %32, {2}, %9\n",
        t.keys, t.queries, score);
    score = "%33";
  }
  text += fmt::format("store scores[{}j], {}\n}}\n", row, score);
  text += fmt::format("%11 = reduce max r < {1} {{\n%12 = load scores[{0}r]\nyield %12\n}}\n", row,
                      t.keys);
  text += fmt::format(
      "%13 = reduce sum r2 < {1} {{\n%14 = load scores[{0}r2]\n%15 = sub %14, %11\n%16 = exp %15\n"
      "store weights[{0}r2], %16\nyield %16\n}}\n",
      row, t.keys);
  text += fmt::format("parallel x < {} {{\n%17 = reduce sum r3 < {} {{\n%18 = load weights[{}r3]\n",
                      t.width, t.keys, row);
  text +=
      load(19, 59, fmt::format("v[{}*{} + {}*r3 + x]", t.width, key_head, t.key_heads * t.width));
  text += fmt::format(
      "%20 = mul %18, %19\nyield %20\n}}\n%21 = div %17, %13\n%22 = ne %13, %13\n"
      "%23 = const.f32 0.0\n%24 = select %22, %23, %21\nstore o[{}*h + {}*i + x], %24\n",
      t.width, t.heads * t.width);
  return text + "}\n}\n}\n}\n}";
}

// Sums of up to 150 terms near 1, a softmax of few roundings, and the rescaling of each block.
GpuCheck Online(double tolerance = 3e-5) {
  GpuCheck check;
  check.targets = {"cuda-sm80", "vulkan-8"};
  check.tolerance = tolerance;
  check.kinds = {"gpu-attention"};
  return check;
}

TEST(GpuAttention, ShapesAndMasks) {
  struct Case {
    const char *queries, *keys;
    int64_t depth, width;
    bool is_masked, is_causal;
  };
  for (const Case& c : {Case{"1", "1", 3, 5, false, false},
                        {"3", "65", 17, 33, true, false},
                        {"65", "130", 16, 16, false, true},
                        {"17", "17", 8, 24, true, true},
                        {"40", "20", 8, 8, false, true},  // the first rows see no key
                        {"64", "64", 32, 64, false, false}}) {
    AttentionText t;
    t.queries = c.queries;
    t.keys = c.keys;
    t.depth = c.depth;
    t.width = c.width;
    t.is_masked = c.is_masked;
    t.is_causal = c.is_causal;
    SCOPED_TRACE(fmt::format("{} queries {} keys masked {} causal {}", c.queries, c.keys,
                             c.is_masked, c.is_causal));
    EXPECT_FALSE(CheckGpu(Write(t), {}, Online()).empty());
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, UnknownSizes) {
  AttentionText t;
  t.symbols = "  symbol s in [0, 512]\n  symbol t in [0, 512]\n";
  t.queries = "s";
  t.keys = "t";
  for (const bool is_causal : {false, true}) {
    t.is_causal = is_causal;
    for (const int64_t keys : {0, 70}) {
      EXPECT_FALSE(CheckGpu(Write(t), {{"s", 19}, {"t", keys}}, Online()).empty());
    }
  }
}

TEST(GpuAttention, NarrowOperands) {
  AttentionText t;
  t.dtype = "f16";
  t.depth = t.width = 32;
  EXPECT_FALSE(CheckGpu(Write(t), {}, Online()).empty());
}

}  // namespace
}  // namespace halyard::schedule
