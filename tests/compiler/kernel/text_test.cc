// SPDX-License-Identifier: Apache-2.0
// Builder, printer, parser and verifier of Kernel IR on exact text and on broken input.
#include "compiler/kernel/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

Kernel MakeDot() {
  Builder b("dot");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kRead);
  const BufferId y = b.Parameter("onnx::y 1", DType::kF32, Access::kRead);
  const BufferId out = b.Parameter("out", DType::kF32, Access::kWrite, false);
  b.Allocate("tmp", DType::kI32, 64);
  const ValueId n = b.Scalar("n");
  const int64_t site = b.Site("node \"a\"", "index of Gather");
  const ValueId init = b.F32(0, 8);
  const ValueId zero = b.Index(0);
  const ValueId eight = b.Index(8);
  const auto sums = b.For(
      zero, n, eight, std::vector<ValueId>{init},
      [&](ValueId i, std::span<const ValueId> carried) {
        const ValueId mask = b.TailMask(b.Sub(n, i), 8);
        const ValueId left = b.Load(x, i, 8, mask);
        const ValueId right = b.Load(y, i, 8, mask);
        return std::vector<ValueId>{b.Fma(left, right, carried[0])};
      },
      4);
  const ValueId total = b.Reduce(Opcode::kReduceAdd, sums[0]);
  const auto picked = b.If(
      b.Gt(n, b.Index(100)), [&] { return std::vector<ValueId>{b.Mul(total, b.F32(0.1))}; },
      [&] { return std::vector<ValueId>{b.F32(std::numeric_limits<double>::infinity())}; });
  b.Report(b.Lt(n, b.Index(0)), n, b.Index(0), KernelErrorReason::kIndexOutOfRange, site);
  b.Store(out, b.WorkgroupId(0), picked[0]);
  return std::move(b).Finish();
}

TEST(KernelText, PrintsBuiltKernel) {
  const Kernel kernel = MakeDot();
  ASSERT_TRUE(VerifyKernel(kernel).ok()) << VerifyKernel(kernel).ToString();
  EXPECT_EQ(FormatKernel(kernel), R"(kernel dot workgroup(1, 1, 1) {
  buffer x f32 global read
  buffer "onnx::y 1" f32 global read
  buffer out f32 global write may_alias
  buffer tmp i32 private readwrite [64]
  scalar n
  site "node \"a\"" "index of Gather"
  %0 = scalar i64 [0]
  %1 = const f32x8 0
  %2 = const i64 0
  %3 = const i64 8
  %4 = const i64 100
  %5 = const f32 0.1
  %6 = const f32 inf
  %7 = workgroup_id i64 [0]
  %8 = for i64 %9 = %2 to %0 step %3 carry(f32x8 %10 = %1) unroll 4 {
    %11 = sub i64 %0, %9
    %12 = min i64 %3, %11
    %13 = max i64 %2, %12
    %14 = convert i32 %13
    %15 = splat i32x8 %14
    %16 = iota i32x8
    %17 = lt boolx8 %16, %15
    %18 = load f32x8 @x, %9, %17, %1
    %19 = load f32x8 @1, %9, %17, %1
    %20 = fma f32x8 %18, %19, %10
    yield %20
  }
  %21 = reduce_add f32 %8
  %22 = gt bool %0, %4
  %23 = if (f32) %22 {
    %24 = mul f32 %21, %5
    yield %24
  } else {
    yield %6
  }
  %25 = lt bool %0, %2
  report %25, %0, %2 [1, 0]
  store @out, %7, %23
}
)");
}

TEST(KernelText, RoundTrips) {
  Module module;
  module.kernels.push_back(MakeDot());
  Builder b("consts");
  const BufferId out = b.Parameter("out", DType::kF64, Access::kReadWrite);
  for (double v : {0.1, -0.0, 1e300, 5e-324, -std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::quiet_NaN()}) {
    b.Store(out, b.Index(-3), b.ConstFloat(DType::kF64, v));
  }
  b.Prefetch(out, b.Index(INT64_MIN), 2);
  b.Store(out, b.Index(0),
          b.Shuffle(b.Load(out, b.Index(0), 4), b.Load(out, b.Index(4), 4), {7, 0, 3}));
  module.kernels.push_back(std::move(b).Finish());
  ASSERT_TRUE(VerifyModule(module).ok()) << VerifyModule(module).ToString();
  const std::string text = FormatModule(module);
  Result<Module> parsed = ParseModule(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_TRUE(VerifyModule(*parsed).ok()) << VerifyModule(*parsed).ToString();
  EXPECT_EQ(FormatModule(*parsed), text);
  EXPECT_EQ(parsed->kernels[0].sites[0].node, "node \"a\"");
}

TEST(KernelText, RefusesBadText) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"nonsense", "line 1: expected 'kernel'"},
      {"kernel k workgroup(1, 1, 1) {", "the text ends inside a block"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = frob f32\n}", "'frob' is not a Kernel IR op"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = neg f32 %1\n}", "value %1 is used before"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = const f32 1\n  %0 = const f32 2\n}", "defined twice"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = const f32x1 1\n}", "lanes are 2 to 256"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = const i64 1x\n}", "'1x' is not a number"},
      {"kernel k workgroup(1, 1, 1) {\n  %0 = const i64 1\n  store @q, %0, %0\n}",
       "names no buffer"},
  };
  for (const auto& c : cases) {
    Result<Module> parsed = ParseModule(c.text);
    ASSERT_FALSE(parsed.ok()) << c.text;
    EXPECT_NE(parsed.status().message().find(c.message), std::string::npos)
        << parsed.status().message();
  }
}

TEST(KernelVerifier, NamesTheBrokenRule) {
  const struct {
    const char* body;
    const char* message;
  } cases[] = {
      {"%0 = const f16 1\n %1 = add f16 %0, %0", "does not work on f16"},
      {"%0 = const f32 1\n %1 = const f64 1\n %2 = add f32 %0, %1", "mixes types"},
      {"%0 = const i64 0\n %1 = load f32x4 @b, %0\n store @r, %0, %1", "writes the read-only 'r'"},
      {"%0 = const i64 0\n %1 = load f32x4 @w, %0", "reads the write-only 'w'"},
      {"%0 = const i64 0\n %1 = load i32 @b, %0", "moves i32"},
      {"%0 = const f32 0\n %1 = load f32 @b, %0", "has an index of f32"},
      {"%0 = const f32x4 0\n %1 = extract f32 %0 [4]", "names lane 4"},
      {"%0 = const f32x4 0\n %1 = bitcast i32 %0", "changes the number of bits"},
      {"%0 = scalar i64 [0]", "reads scalar 0 of 0"},
      {"%0 = const bool 2", "has the bool value 2"},
      {"%0 = const i4 2", "does not have"},
      {"barrier", "stands in a CPU kernel"},
      {"%0 = const bool 1\n if () %0 {\n %1 = const f32 0\n yield\n } else {\n yield\n }\n "
       "%2 = const i64 0\n yield",
       "must not"},
  };
  for (const auto& c : cases) {
    const std::string text = fmt::format(
        "kernel k workgroup(1, 1, 1) {{\n buffer b f32 global readwrite\n buffer r f32 "
        "global read\n buffer w f32 global write\n {}\n}}\n",
        c.body);
    Result<Module> parsed = ParseModule(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    const Status status = VerifyModule(*parsed);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << status.message();
  }
}

TEST(KernelVerifier, ScopesEndWithTheirBlock) {
  Builder b("k");
  const BufferId out = b.Parameter("out", DType::kF32, Access::kWrite);
  ValueId inner = kNone;
  b.For(b.Index(0), b.Index(4), b.Index(1), [&](ValueId i) { inner = b.Convert(i, DType::kF32); });
  b.Store(out, b.Index(0), inner);
  const Status status = VerifyKernel(std::move(b).Finish());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("not defined before it"), std::string::npos) << status.message();
}

TEST(SplitFma, WritesMulAndAddAndKeepsTheRest) {
  const Kernel kernel = MakeDot();
  std::string expected = FormatKernel(kernel);
  const std::string fma = "%20 = fma f32x8 %18, %19, %10\n    yield %20";
  const size_t at = expected.find(fma);
  ASSERT_NE(at, std::string::npos);
  const Kernel split = SplitFma(kernel);
  ASSERT_TRUE(VerifyKernel(split).ok()) << VerifyKernel(split).ToString();
  const std::string text = FormatKernel(split);
  EXPECT_NE(text.find("%20 = mul f32x8 %18, %19\n    %21 = add f32x8 %20, %10\n    yield %21"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.substr(0, at), expected.substr(0, at));
}

TEST(ExpandMath, MultipliesSmallPowers) {
  const auto expand = [](double exponent, bool has_functions) {
    Builder b("k");
    const BufferId x = b.Parameter("x", DType::kF32, Access::kReadWrite);
    const ValueId value = b.Load(x, b.Index(0), 4);
    const ValueId power = b.F32(exponent, 4);
    b.Store(x, b.Index(0), b.Append1(Opcode::kPow, {DType::kF32, 4}, {value, power}));
    const Kernel expanded = ExpandMath(std::move(b).Finish(), {true, false, has_functions});
    std::string ops;
    for (OpId id : expanded.blocks[0].ops) {
      const OpcodeInfo& info = InfoOf(expanded.ops[id].opcode);
      if (info.op_class == OpClass::kArithmetic) ops += std::string(info.name) + " ";
    }
    return ops;
  };
  EXPECT_EQ(expand(2, false), "mul ");
  EXPECT_EQ(expand(3, true), "mul mul ");
  EXPECT_EQ(expand(2.5, true), "pow ");
  EXPECT_GT(expand(-2, false).size(), 100u);
}

TEST(ExpandMath, LeavesNoTranscendentalOp) {
  Builder b("k");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kReadWrite);
  const ValueId zero = b.Index(0);
  b.If(b.Gt(b.Scalar("n"), zero), [&] {
    b.For(zero, b.Index(16), b.Index(8), [&](ValueId i) {
      b.Store(x, i, b.Unary(Opcode::kSin, b.Unary(Opcode::kExp, b.Load(x, i, 8))));
    });
  });
  const Kernel expanded = ExpandMath(std::move(b).Finish(), {});
  ASSERT_TRUE(VerifyKernel(expanded).ok()) << VerifyKernel(expanded).ToString();
  for (const Op& op : expanded.ops) EXPECT_FALSE(InfoOf(op.opcode).transcendental);
}

}  // namespace
}  // namespace halyard::kernel
