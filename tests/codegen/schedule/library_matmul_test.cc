// SPDX-License-Identifier: Apache-2.0
// Contractions as products of a vendor's library: which are taken, what is folded into them and
// what is left over, and that the record and the kernels say the same as the loops.
#include "compiler/schedule/gpu/library_matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/loop/text.h"
#include "compiler/schedule/gpu/library_call.h"
#include "compiler/schedule/gpu/library_epilogue.h"
#include "tests/codegen/schedule/check_gpu.h"

namespace halyard::schedule {
namespace {

// A product of 33 x 40 by 40 x 34 under an epilogue whose last value is %z; "": there is none.
struct Text {
  std::string operand = "f16", output = "f16";
  std::string a_index = "40*i + l", b_index = "j + 34*l", c_index = "34*i + j";
  std::string epilogue = "    %z = convert.f16 %0\n";
  std::string residual = "f16";
};

std::string WriteProduct(const Text& t) {
  std::string text = "function {\n";
  text += fmt::format("  buffer a: {}[2000] input\n", t.operand);
  text += fmt::format("  buffer b: {}[2000] constant 0\n", t.operand);
  text += fmt::format("  buffer bias: {}[40] constant 1\n", t.operand);
  text += "  buffer wide: f32[40] constant 2\n";
  text += fmt::format("  buffer r: {}[33*34] input\n", t.residual);
  text += fmt::format("  buffer c: {}[33*34] output\n", t.output);
  text += "  kernel mm contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {\n";
  text += "    parallel i < 33 {\n    parallel j < 34 {\n";
  text += "    %0 = reduce sum l < 40 {\n";
  const bool converts = t.operand != "f32";
  text += fmt::format("      %{} = load a[{}]\n", converts ? 11 : 1, t.a_index);
  if (converts) text += "      %1 = convert.f32 %11\n";
  text += fmt::format("      %{} = load b[{}]\n", converts ? 12 : 2, t.b_index);
  if (converts) text += "      %2 = convert.f32 %12\n";
  text += "      %3 = mul %1, %2\n      yield %3\n    }\n";
  std::string epilogue = t.epilogue + fmt::format("    store c[{}], {}\n", t.c_index,
                                                  t.epilogue.empty() ? "%0" : "%z");
  // Names of values are numbers.
  for (size_t at = 0; (at = epilogue.find("%z")) != std::string::npos;) {
    epilogue.replace(at, 2, "%99");
  }
  return text + epilogue + "    }\n    }\n  }\n}";
}

constexpr char kBias[] =
    "    %20 = load bias[j]\n    %21 = convert.f32 %20\n    %22 = add %0, %21\n";
constexpr char kRounded[] =
    "    %18 = convert.f16 %0\n    %19 = convert.f32 %18\n    %20 = load bias[j]\n"
    "    %21 = convert.f32 %20\n    %22 = add %19, %21\n";
constexpr char kResidual[] =
    "    %23 = load r[34*i + j]\n    %24 = convert.f32 %23\n    %25 = add %24, %22\n";
constexpr char kGelu[] =
    "    %30 = const.f32 3.0\n    %31 = pow %22, %30\n    %32 = const.f32 0.044714998453855515\n"
    "    %33 = mul %31, %32\n    %34 = add %22, %33\n    %35 = const.f32 0.7978845834732056\n"
    "    %36 = mul %34, %35\n    %37 = tanh %36\n    %38 = const.f32 1.0\n    %39 = add %37, %38\n"
    "    %40 = const.f32 0.5\n    %41 = mul %22, %40\n    %42 = mul %41, %39\n"
    "    %z = convert.f16 %42\n";

// What is planned, and that it is right: as the record says and as the kernels that stand in do.
std::optional<LibraryPlan> ProductPlanOf(const Text& text, std::string* why = nullptr) {
  ExprArena exprs;
  const Result<loop::Function> function = loop::ParseFunction(WriteProduct(text), exprs);
  EXPECT_TRUE(function.ok()) << function.status().ToString() << WriteProduct(text);
  if (!function.ok()) return std::nullopt;
  return PlanLibraryCall(*function, 0, GpuTargetOf("cuda-sm80-interpreted"), why);
}

void ExpectRightProduct(const Text& text, double tolerance = 2e-3) {
  for (const bool uses_library : {false, true}) {
    for (const int64_t workspace : {0, 640}) {
      // The kernels that stand in do not touch it, but pass it on.
      if (!uses_library && workspace == 0) continue;
      GpuCheck check;
      check.targets = {"cuda-sm80-interpreted"};
      check.tolerance = tolerance;
      check.uses_library = uses_library;
      ScheduleRecord record;
      record.kind = ScheduleKind::kGpuLibrary;
      record.tile = text.operand == "f32" ? GpuTile{32, 32, 16, 4, 4, 2, 1, 1}
                                          : GpuTile{32, 32, 32, 16, 16, 2, 1, 1};
      record.library = {130100, 7, workspace, {1, 2, 3, 0, 0, 0, 0, UINT64_MAX}};
      check.records = {FormatSchedule(record)};
      SCOPED_TRACE(fmt::format("library {} workspace {}", uses_library, workspace));
      const auto seen = CheckGpu(WriteProduct(text), {}, check);
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_EQ(seen.size(), 1u);
      EXPECT_EQ(seen[0].built.library_calls.at(0).choice.workspace_bytes, workspace);
    }
  }
}

TEST(LibraryMatmul, TakesPlainProductsOfAnyLayout) {
  for (const char* operand : {"f32", "f16"}) {
    for (int layout = 0; layout < 8; ++layout) {
      Text text;
      text.operand = operand;
      text.output = layout % 2 == 0 ? "f32" : operand;
      if ((layout & 1) != 0) text.a_index = "i + 33*l + 3";
      if ((layout & 2) != 0) text.b_index = "40*j + l";
      // D contiguous along the rows.
      if ((layout & 4) != 0) text.c_index = "i + 33*j";
      if (text.output == "f32") text.epilogue = "";
      SCOPED_TRACE(fmt::format("{} layout {}", operand, layout));
      const auto plan = ProductPlanOf(text);
      ASSERT_TRUE(plan);
      EXPECT_FALSE(plan->is_cut);
      const bool is_swapped = (layout & 4) == 0;
      EXPECT_EQ(plan->call.matmul.m, is_swapped ? 34 : 33);
      EXPECT_EQ(plan->call.matmul.n, is_swapped ? 33 : 34);
      EXPECT_EQ(plan->call.matmul.k, 40);
      ExpectRightProduct(text);
    }
  }
}

TEST(LibraryMatmul, FoldsBiasAndSum) {
  Text text;
  text.epilogue = std::string(kRounded) + kResidual + "    %z = convert.f16 %25\n";
  auto plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->is_cut);
  EXPECT_EQ(plan->call.matmul.bias.binding, 2u);
  EXPECT_EQ(plan->call.matmul.c.binding, 4u);
  EXPECT_EQ(plan->call.matmul.d.binding, 5u);
  ExpectRightProduct(text);
  // Not ReLU.
  text.epilogue = std::string(kRounded) + kResidual +
                  "    %26 = const.f32 0.0\n    %27 = max %25, %26\n    %z = convert.f16 %27\n";
  plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->is_cut);
  ExpectRightProduct(text);
  // A residual of another type is no C of the library.
  text.residual = "f32";
  text.epilogue = std::string(kRounded) +
                  "    %23 = load r[34*i + j]\n    %25 = add %23, %22\n    %z = convert.f16 %25\n";
  plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->is_cut);
  ExpectRightProduct(text);
  // The bias of f32 results is widened, the residual is added in place.
  text.output = "f32";
  text.epilogue = std::string(kRounded) + "    %23 = load c[34*i + j]\n    %z = add %23, %22\n";
  plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->is_cut);
  EXPECT_EQ(plan->call.matmul.c, plan->call.matmul.d);
}

TEST(LibraryMatmul, WidensTheBiasOfWiderResults) {
  Text text;
  text.output = text.residual = "f32";
  text.epilogue = std::string(kBias) + "    %23 = load r[34*i + j]\n    %z = add %22, %23\n";
  const auto plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->is_cut);
  EXPECT_EQ(plan->call.matmul.bias.binding, 2u);
  ExpectRightProduct(text, 1e-4);
}

TEST(LibraryMatmul, KnowsGeluByWhatItComputes) {
  Text text;
  text.epilogue = std::string(kBias) + kGelu;
  const auto plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->is_cut);
  EXPECT_EQ(plan->call.matmul.activation, GpuLibraryActivation::kGeluTanh);
  ExpectRightProduct(text);
  // Any other number in it is another function.
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"0.0447", "0.0446"},
                                                        {"0.79788", "0.79779"},
                                                        {"const.f32 1.0", "const.f32 0.999"},
                                                        {"pow %22, %30", "mul %22, %22"},
                                                        {"tanh", "erf"}}) {
    Text other = text;
    const size_t at = other.epilogue.find(from);
    ASSERT_NE(at, std::string::npos);
    other.epilogue.replace(at, from.size(), to);
    const auto cut = ProductPlanOf(other);
    ASSERT_TRUE(cut) << from;
    EXPECT_TRUE(cut->is_cut) << from;
  }
}

TEST(LibraryMatmul, CutsOffWhatTheLibraryLacks) {
  // GELU by erf: the rounded sum passes through the result's own memory.
  Text text;
  text.epilogue = std::string(kRounded) +
                  "    %30 = erf %22\n    %31 = mul %22, %30\n    %z = convert.f16 %31\n";
  auto plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->is_cut);
  EXPECT_EQ(plan->between, DType::kF16);
  EXPECT_EQ(plan->call.matmul.d.binding, 5u);
  ExpectRightProduct(text);
  // An unrounded sum passes in f32, through a workspace.
  text.epilogue =
      std::string(kBias) + "    %30 = erf %22\n    %31 = mul %22, %30\n    %z = convert.f16 %31\n";
  plan = ProductPlanOf(text);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->between, DType::kF32);
  EXPECT_EQ(plan->call.matmul.d.binding, kNoLibraryBinding);
  ExpectRightProduct(text);
}

TEST(LibraryMatmul, LeavesOutWhatIsNoProductOfMatrices) {
  std::string why;
  Text text;
  text.a_index = "i + l";  // windows that overlap
  EXPECT_FALSE(ProductPlanOf(text, &why));
  EXPECT_THAT(why, ::testing::StartsWith("an operand is no matrix in memory"));
  text.a_index = "40*i + 8*floordiv(l, 8) + 7 - mod(l, 8)";
  EXPECT_FALSE(ProductPlanOf(text, &why));
  text.a_index = "80*i + 2*l";
  EXPECT_FALSE(ProductPlanOf(text, &why));
  text = {};
  text.c_index = "2*j + 68*i";
  EXPECT_FALSE(ProductPlanOf(text, &why));
  EXPECT_THAT(why, ::testing::StartsWith("its result is contiguous along no side"));
  // On a device that does not interpret, small products are ours.
  ExprArena exprs;
  const Result<loop::Function> function = loop::ParseFunction(WriteProduct({}), exprs);
  ASSERT_TRUE(function.ok());
  EXPECT_FALSE(PlanLibraryCall(*function, 0, GpuTargetOf("cuda-sm80"), &why));
  EXPECT_THAT(why, ::testing::StartsWith("it is too small"));
}

TEST(LibraryMatmul, StandInsAreWholeSums) {
  ScheduleRecord split, own, asynchronous;
  split.kind = own.kind = ScheduleKind::kGpuMatrix;
  asynchronous.kind = ScheduleKind::kGpuWgmma;
  split.tile.split = 4;
  split.joins = true;
  own.tile.m = 64;
  GpuLibraryCall proposal;
  proposal.choice.version = 130100;
  const std::vector<ScheduleRecord> records = {split, own};
  const auto made = LibrarySchedules(records, {&proposal, 1});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].kind, ScheduleKind::kGpuLibrary);
  EXPECT_EQ(made[0].tile, own.tile);
  EXPECT_EQ(made[0].library, proposal.choice);
  // Where all are split, the best of them without its split.
  const std::vector<ScheduleRecord> all_split = {asynchronous, split};
  const auto whole = LibrarySchedules(all_split, {&proposal, 1});
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].tile.split, 1);
  EXPECT_FALSE(whole[0].joins);
  EXPECT_TRUE(LibrarySchedules({&asynchronous, 1}, {&proposal, 1}).empty());
}

}  // namespace
}  // namespace halyard::schedule
