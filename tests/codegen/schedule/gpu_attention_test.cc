// SPDX-License-Identifier: Apache-2.0
// The GPU schedule of attention with an online softmax; see check_gpu.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/gpu_image.h"
#include "compiler/codegen/spirv/emit.h"
#include "compiler/kernel/opcode.h"
#include "compiler/loop/text.h"
#include "compiler/pipeline/expand_math.h"
#include "tests/codegen/schedule/check_gpu.h"
#include "tests/codegen/schedule/run_on_device.h"
#include "tests/codegen/spirv/module_checker.h"

namespace halyard::schedule {
namespace {

struct AttentionText {
  std::string queries = "20", keys = "40";  // numbers or symbols
  int64_t depth = 8, width = 8;
  int64_t heads = 4, key_heads = 2;
  bool is_masked = false, is_causal = false;
  bool adds_mask = false;     // causal as exported models write it
  bool hides_softly = false;  // the same with f16's least number, and keys that are hidden to all
  int64_t nan_row = -1;       // a row with scores that are NaN, which stay so: hidden rows give 0
  std::string dtype = "f32", out = "f32";
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
  text += fmt::format("  buffer o: {}[{}*({})*{}] output\n", t.out, t.heads, t.queries, t.width);
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
  if (t.nan_row >= 0) {
    text += fmt::format(
        "%60 = index.i64 [i - {}]\n%61 = convert.f32 %60\n%62 = div %61, %61\n"
        "%63 = mul %7, %62\n",
        t.nan_row);
    score = "%63";
  }
  if (t.is_masked) {
    text += fmt::format("%8 = load mask[i*({}) + j]\n%10 = select %8, {}, %9\n", t.keys, score);
    score = "%10";
  }
  if (t.adds_mask) {
    text +=
        "%30 = index.i64 [j]\n%31 = index.i64 [i]\n%32 = le %30, %31\n%33 = const.bool 1\n"
        "%34 = and %33, %32\n%35 = const.f32 0\n%36 = select %34, %35, %9\n%37 = eq %36, %9\n"
        "%38 = const.f32 -65504\n%39 = max %36, %38\n%40 = select %37, %36, %39\n"
        "%41 = convert.f16 %40\n%42 = convert.f32 %41\n";
    text += fmt::format("%43 = add {}, %42\n", score);
    score = "%43";
  }
  if (t.hides_softly) {
    text += fmt::format(
        "%30 = index.i64 [j]\n%31 = index.i64 [i]\n%32 = le %30, %31\n%33 = const.bool 1\n"
        "%34 = and %33, %32\n%50 = load mask[j]\n%35 = and %34, %50\n%36 = const.f32 0\n"
        "%37 = const.f32 -3.4028234663852886e+38\n%38 = select %35, %36, %37\n"
        "%39 = eq %38, %9\n%40 = const.f32 -65504\n%41 = max %38, %40\n"
        "%42 = select %39, %38, %41\n%43 = convert.f16 %42\n%44 = convert.f32 %43\n"
        "%45 = add {}, %44\n",
        score);
    score = "%45";
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
  if (t.nan_row >= 0) text += "%26 = const.f32 -inf\n%22 = eq %11, %26\n";
  text += fmt::format("parallel x < {} {{\n%17 = reduce sum r3 < {} {{\n%18 = load weights[{}r3]\n",
                      t.width, t.keys, row);
  text +=
      load(19, 59, fmt::format("v[{}*{} + {}*r3 + x]", t.width, key_head, t.key_heads * t.width));
  text += fmt::format(
      "%20 = mul %18, %19\nyield %20\n}}\n%21 = div %17, %13\n{}"
      "%23 = const.f32 0.0\n%24 = select %22, %23, %21\n{}store o[{}*h + {}*i + x], {}\n",
      t.nan_row >= 0 ? "" : "%22 = ne %13, %13\n",
      t.out == "f32" ? "" : fmt::format("%25 = convert.{} %24\n", t.out), t.width,
      t.heads * t.width, t.out == "f32" ? "%24" : "%25");
  return text + "}\n}\n}\n}\n}";
}

// A device may have none of the schedules.
void ExpectSome(const std::vector<GpuSeen>& seen) {
  EXPECT_TRUE(!seen.empty() || DeviceUnderTest() != nullptr);
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
                        {"16", "16", 8, 8, true, false},  // a block of values beyond the last
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
    ExpectSome(CheckGpu(Write(t), {}, Online()));
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
      ExpectSome(CheckGpu(Write(t), {{"s", 19}, {"t", keys}}, Online()));
    }
  }
}

TEST(GpuAttention, NarrowOperands) {
  AttentionText t;
  t.dtype = "f16";
  t.depth = t.width = 32;
  GpuCheck check = Online();
  check.targets = {"vulkan-8"};
  ExpectSome(CheckGpu(Write(t), {}, check));
}

// Weights are rounded to the dtype of the values before the second product: of values up to 2.5,
// 2.5 * 2^-11 for f16 and 2.5 * 2^-8 for bf16, where all of them round the same way.
GpuCheck OnMatrixUnits(std::string_view dtype) {
  GpuCheck check;
  check.targets = {"cuda-sm80"};
  check.tolerance = dtype == "f16" ? 1.3e-3 : 1e-2;
  check.kinds = {"gpu-matrix-attention"};
  return check;
}

std::string Record(int m, int n, int item_n, int stages, int split = 1, int item_m = 16,
                   int raster = 1) {
  ScheduleRecord record;
  record.kind = ScheduleKind::kGpuMatrixAttention;
  record.tile.m = m, record.tile.n = n, record.tile.item_m = item_m, record.tile.item_n = item_n;
  record.tile.stages = stages, record.tile.split = split, record.tile.raster = raster;
  record.async = stages > 1;
  return FormatSchedule(record);
}

struct MatrixCase {
  const char *queries, *keys;
  int64_t depth, width;
  bool is_masked, is_causal;
  const char* dtype;
};

void CheckMatrix(const MatrixCase& c, GpuCheck check) {
  AttentionText t;
  t.queries = c.queries, t.keys = c.keys;
  t.depth = c.depth, t.width = c.width;
  t.is_masked = c.is_masked, t.is_causal = c.is_causal;
  t.dtype = t.out = c.dtype;
  SCOPED_TRACE(fmt::format("{} queries {} keys masked {} causal {} {}", c.queries, c.keys,
                           c.is_masked, c.is_causal, c.dtype));
  ExpectSome(CheckGpu(Write(t), {}, check));
}

TEST(GpuMatrixAttention, WhatIsEnumerated) {
  for (const MatrixCase& c : {MatrixCase{"1", "1", 16, 16, false, false, "f16"},
                              {"3", "65", 17, 33, true, false, "f16"},  // no whole vectors
                              {"33", "70", 32, 32, false, true, "bf16"},
                              {"40", "20", 16, 8, false, true, "f16"}}) {
    CheckMatrix(c, OnMatrixUnits(c.dtype));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

const MatrixCase kUnevenCases[] = {{"19", "101", 48, 80, true, false, "f16"},
                                   {"35", "67", 32, 32, false, true, "f16"},
                                   {"17", "5", 16, 24, true, true, "f16"}};

// Rows and keys divided in every way, in blocks that do not come out even.
TEST(GpuMatrixAttention, EveryForm) {
  GpuCheck check = OnMatrixUnits("f16");
  check.records = {
      Record(16, 32, 32, 1),           Record(32, 32, 16, 1),          Record(16, 64, 16, 2),
      Record(64, 64, 64, 2),           Record(32, 32, 32, 3),          Record(32, 64, 32, 2, 2),
      Record(16, 32, 16, 1, 4),        Record(32, 32, 32, 2, 1, 32),   Record(64, 32, 16, 2, 2, 32),
      Record(16, 32, 32, 2, 1, 16, 3), Record(32, 64, 32, 1, 1, 32, 4)};
  for (const MatrixCase& c : kUnevenCases) {
    CheckMatrix(c, check);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuMatrixAttention, UnknownSizes) {
  AttentionText t;
  t.symbols = "  symbol s in [0, 512]\n  symbol t in [0, 512]\n";
  t.queries = "s";
  t.keys = "t";
  t.depth = t.width = 16;
  t.dtype = "f16";
  GpuCheck check = OnMatrixUnits("f16");
  check.records = {Record(32, 32, 16, 2), Record(16, 32, 32, 1, 2)};
  for (const bool is_causal : {false, true}) {
    t.is_causal = is_causal;
    for (const int64_t keys : {0, 70}) {
      ExpectSome(CheckGpu(Write(t), {{"s", 19}, {"t", keys}}, check));
      if (HasFatalFailure()) return;
    }
  }
}

// Rows that see no key give 0, rows whose scores are NaN stay NaN.
TEST(GpuMatrixAttention, HiddenRowsAreNotThoseOfNan) {
  GpuCheck check = OnMatrixUnits("f16");
  check.records = {Record(32, 32, 16, 2), Record(16, 32, 32, 1, 2)};
  for (const bool is_f32 : {true, false}) {
    AttentionText t;
    t.queries = "40", t.keys = "20";
    t.depth = t.width = 16;
    t.is_causal = true;
    t.nan_row = 30;
    if (!is_f32) t.dtype = "f16";
    const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, is_f32 ? Online() : check);
    ExpectSome(seen);
    if (HasFatalFailure()) return;
  }
}

// Few rows over many keys: workgroups divide the keys.
TEST(GpuMatrixAttention, AddedMasksHideBlocks) {
  AttentionText t;
  t.queries = t.keys = "70";
  t.depth = t.width = 16;
  t.dtype = "f16";
  t.adds_mask = true;
  GpuCheck check = OnMatrixUnits("f16");
  check.records = {Record(16, 32, 32, 2)};
  const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, check);
  if (DeviceUnderTest() != nullptr && seen.empty()) return;
  ASSERT_EQ(seen.size(), 1u);
  // The loop over blocks ends at a number that depends on the workgroup.
  const kernel::Kernel& kernel = seen[0].built.kernels[0];
  for (const kernel::Op& op : kernel.ops) {
    if (op.opcode != kernel::Opcode::kFor) continue;
    const kernel::OpId end = kernel.values[op.operands[1]].producer;
    EXPECT_NE(kernel.ops[end].opcode, kernel::Opcode::kConst);
  }
}

// Ops of the kernel's loops over blocks, each with its own.
std::vector<std::vector<const kernel::Op*>> OpsOfLoops(const kernel::Kernel& kernel) {
  std::vector<std::vector<const kernel::Op*>> loops;
  for (const kernel::Op& op : kernel.ops) {
    if (op.opcode != kernel::Opcode::kFor) continue;
    std::vector<const kernel::Op*>& own = loops.emplace_back();
    std::vector<kernel::BlockId> blocks(op.blocks.begin(), op.blocks.end());
    while (!blocks.empty()) {
      const kernel::BlockId block = blocks.back();
      blocks.pop_back();
      for (kernel::OpId id : kernel.blocks[block].ops) {
        own.push_back(&kernel.ops[id]);
        blocks.insert(blocks.end(), own.back()->blocks.begin(), own.back()->blocks.end());
      }
    }
  }
  return loops;
}

// Blocks that no mask cuts have a product, an exponential and a maximum for each score, and nothing
// else; a row's results are divided once for each vector.
TEST(GpuMatrixAttention, OnlyBlocksThatAreCutHaveMasks) {
  for (const bool is_added : {false, true}) {
    AttentionText t;
    t.queries = t.keys = "100";
    t.depth = t.width = 16;
    t.dtype = t.out = "f16";
    t.is_causal = !is_added, t.adds_mask = is_added;
    SCOPED_TRACE(is_added ? "added mask" : "causal");
    GpuCheck check = OnMatrixUnits("f16");
    check.records = {Record(32, 32, 32, 2, 1, 32)};
    const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, check);
    if (DeviceUnderTest() != nullptr && seen.empty()) return;
    ASSERT_EQ(seen.size(), 1u);
    const kernel::Kernel& kernel = seen[0].built.kernels[0];
    const auto loops = OpsOfLoops(kernel);
    ASSERT_EQ(loops.size(), 2u);
    const auto count = [](const std::vector<const kernel::Op*>& ops, kernel::Opcode opcode,
                          int lanes) {
      return std::count_if(ops.begin(), ops.end(), [&](const kernel::Op* op) {
        return op->opcode == opcode && op->type.lanes == lanes;
      });
    };
    // 32 rows by 32 keys: 16 pairs of scores a workitem.
    EXPECT_EQ(count(loops[0], kernel::Opcode::kExp2, 2), 16);
    EXPECT_EQ(count(loops[0], kernel::Opcode::kFma, 2), 16);
    for (const kernel::Opcode opcode :
         {kernel::Opcode::kMul, kernel::Opcode::kSelect, kernel::Opcode::kLt, kernel::Opcode::kLe,
          kernel::Opcode::kConvert}) {
      EXPECT_EQ(count(loops[0], opcode, 2), 0) << kernel::FormatOpcode(opcode);
    }
    EXPECT_EQ(count(loops[1], kernel::Opcode::kSelect, 2), 16);
    EXPECT_EQ(count(loops[1], kernel::Opcode::kMul, 2), 0);
    for (const kernel::Op& op : kernel.ops) {
      EXPECT_TRUE(op.opcode != kernel::Opcode::kDiv || op.type.lanes == 1);
    }
  }
}

// Rows that see no key before the end see those behind it, as the mask only adds a number to them:
// beside -65504 scores are rounded to 2^-8, weights to one part in 512, of values up to 2.5.
TEST(GpuMatrixAttention, SoftMasksHideBlocksButOfRowsThatSeeNothing) {
  for (const char* queries : {"70", "37"}) {
    AttentionText t;
    t.queries = queries, t.keys = "70";
    t.depth = t.width = 16;
    t.dtype = "f16";
    t.hides_softly = true;
    SCOPED_TRACE(queries);
    GpuCheck check = OnMatrixUnits("f16");
    check.tolerance += 2.5 / 512;
    check.records = {Record(16, 32, 32, 2), Record(32, 32, 16, 1), Record(32, 32, 32, 2, 1, 32),
                     Record(64, 64, 32, 3, 1, 32, 4), Record(16, 32, 32, 2, 2)};
    const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, check);
    if (DeviceUnderTest() != nullptr) continue;
    ASSERT_EQ(seen.size(), check.records.size());
    // A mask of keys is one choice for each of them, whatever the rows.
    const auto loops = OpsOfLoops(seen[2].built.kernels[0]);
    ASSERT_EQ(loops.size(), 3u);
    EXPECT_EQ(std::count_if(loops[0].begin(), loops[0].end(),
                            [](const kernel::Op* op) {
                              return op->opcode == kernel::Opcode::kSelect && op->type.lanes == 2;
                            }),
              4);
  }
}

TEST(GpuMatrixAttention, DecodingDividesKeys) {
  AttentionText t;
  t.queries = "1", t.keys = "2048";
  t.depth = t.width = 16;
  t.dtype = "f16";
  const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, OnMatrixUnits("f16"));
  if (DeviceUnderTest() != nullptr) return;
  ASSERT_FALSE(seen.empty());
  EXPECT_GT(seen[0].record.tile.split, 1);
  EXPECT_EQ(seen[0].built.dispatches.size(), 2u);
}

TEST(GpuMatrixAttention, WithOneHeadAndFewRowsUnitsAreUsed) {
  // BERT-base of one sequence: 12 heads of 128 rows on 132 units.
  AttentionText t;
  t.queries = t.keys = "128";
  t.depth = t.width = 64;
  t.heads = t.key_heads = 12;
  t.dtype = "f16";
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(Write(t), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  const Target target = GpuTargetOf("cuda-sm90");
  Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
  ASSERT_TRUE(records.ok()) << records.status().ToString();
  EXPECT_EQ((*records)[0].kind, ScheduleKind::kGpuMatrixAttention);
  EXPECT_GE(12 * 128 / (*records)[0].tile.m, 48);
}

// Where fragments keep the places of their elements to themselves.
GpuCheck OnCooperativeMatrices(std::string_view dtype) {
  GpuCheck check = OnMatrixUnits(dtype);
  check.targets = {"vulkan-32-matrix"};
  return check;
}

TEST(GpuStagedAttention, WhatIsEnumerated) {
  size_t count = 0;
  for (const MatrixCase& c : {MatrixCase{"1", "1", 16, 16, false, false, "f16"},
                              {"3", "65", 17, 33, true, false, "f16"},  // no whole vectors
                              {"33", "70", 32, 32, false, true, "bf16"},
                              {"128", "128", 64, 64, false, false, "f16"}}) {
    AttentionText t;
    t.queries = c.queries, t.keys = c.keys;
    t.depth = c.depth, t.width = c.width;
    t.heads = t.key_heads = 1;
    t.is_masked = c.is_masked, t.is_causal = c.is_causal;
    t.dtype = t.out = c.dtype;
    SCOPED_TRACE(fmt::format("{} queries {} keys {}", c.queries, c.keys, c.dtype));
    const std::vector<GpuSeen> seen = CheckGpu(Write(t), {}, OnCooperativeMatrices(c.dtype));
    ExpectSome(seen);
    if (HasFatalFailure()) return;
    if (DeviceUnderTest() != nullptr) continue;
    const Target target = GpuTargetOf("vulkan-32-matrix");
    for (const GpuSeen& one : seen) {
      kernel::Module module;
      for (const kernel::Kernel& kernel : one.built.kernels) {
        module.kernels.push_back(pipeline::ExpandMathFor(kernel, target));
      }
      const Result<std::vector<uint8_t>> bytes = spirv::EmitSpirvImage(module, target);
      ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
      const Result<GpuImage> image = ReadGpuImage(*bytes);
      ASSERT_TRUE(image.ok()) << image.status().ToString();
      for (const GpuKernel& kernel : image->kernels) {
        std::vector<uint32_t> words(kernel.module.size() / 4);
        std::memcpy(words.data(), kernel.module.data(), kernel.module.size());
        EXPECT_EQ(testing::CheckSpirvModule(words), "") << kernel.name;
        ++count;
      }
    }
  }
  EXPECT_TRUE(count >= 12 || DeviceUnderTest() != nullptr);
}

TEST(GpuStagedAttention, EveryForm) {
  GpuCheck check = OnCooperativeMatrices("f16");
  check.records = {Record(16, 32, 32, 1),        Record(32, 32, 32, 1),
                   Record(64, 16, 16, 1),        Record(32, 64, 64, 1, 2),
                   Record(16, 16, 16, 1, 4),     Record(32, 32, 32, 1, 1, 32),
                   Record(64, 16, 16, 1, 2, 32), Record(16, 32, 32, 1, 1, 16, 3)};
  for (const MatrixCase& c : kUnevenCases) {
    CheckMatrix(c, check);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuStagedAttention, UnknownSizesAndHiddenRows) {
  AttentionText t;
  t.symbols = "  symbol s in [0, 512]\n  symbol t in [0, 512]\n";
  t.queries = "s";
  t.keys = "t";
  t.depth = t.width = 16;
  t.dtype = "f16";
  GpuCheck check = OnCooperativeMatrices("f16");
  check.records = {Record(32, 32, 32, 1), Record(16, 32, 32, 1, 2), Record(32, 32, 32, 1, 1, 32)};
  for (const bool is_causal : {false, true}) {
    t.is_causal = is_causal;
    for (const int64_t keys : {0, 70}) {
      ExpectSome(CheckGpu(Write(t), {{"s", 19}, {"t", keys}}, check));
      if (HasFatalFailure()) return;
    }
  }
  AttentionText hidden;
  hidden.queries = "40", hidden.keys = "20";
  hidden.depth = hidden.width = 16;
  hidden.is_causal = true;
  hidden.nan_row = 30;
  hidden.dtype = "f16";
  ExpectSome(CheckGpu(Write(hidden), {}, check));
}

TEST(GpuStagedAttention, MasksThatAddNumbers) {
  for (const char* queries : {"70", "37"}) {
    for (const bool is_soft : {true, false}) {
      AttentionText t;
      t.queries = queries, t.keys = "70";
      t.depth = t.width = 16;
      t.dtype = "f16";
      t.hides_softly = is_soft, t.adds_mask = !is_soft;
      SCOPED_TRACE(fmt::format("{} {}", queries, is_soft));
      GpuCheck check = OnCooperativeMatrices("f16");
      check.tolerance += 2.5 / 512;
      check.records = {Record(16, 32, 32, 1), Record(32, 32, 32, 1, 1, 32),
                       Record(64, 32, 32, 1, 1, 16, 4), Record(16, 32, 32, 1, 2)};
      ExpectSome(CheckGpu(Write(t), {}, check));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace halyard::schedule
