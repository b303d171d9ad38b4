// SPDX-License-Identifier: Apache-2.0
// Builder, text form and verifier of Loop IR.
#include <gtest/gtest.h>

#include "compiler/loop/builder.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace halyard::loop {
namespace {

using kernel::Opcode;

constexpr std::string_view kSoftmax = R"(function {
  symbol n in [1, 64]
  buffer x: f32[128*n] input
  buffer `odd name`: f32[128*n] output
  buffer w: f32[128] constant 3
  kernel softmax nodes("scale", "soft\"max") {
    local e: f32[128]
    parallel i < n {
      %0 = reduce max j < 128 {
        %1 = load x[128*i + j]
        yield %1
      }
      %2 = reduce sum j2 < 128 {
        %3 = load x[128*i + j2]
        %4 = sub %3, %0
        %5 = exp %4
        store e[j2], %5
        yield %5
      }
      parallel j3 < 128 {
        %6 = load e[j3]
        %7 = div %6, %2
        %8 = load w[j3]
        %9 = mul %7, %8
        store `odd name`[128*i + j3], %9
      }
    }
  }
}
)";

constexpr std::string_view kRest = R"(function {
  buffer a: f16[80] input
  buffer b: f16[60] input
  buffer ids: i64[5] input
  buffer t: f32[48] temp
  buffer c: f32[48] output
  kernel mm contraction(m: i; n: j; k: k; product: %2, %4; sum: %0) {
    parallel i < 8 {
      parallel j < 6 {
        %0 = reduce sum k < 10 {
          %1 = load a[10*i + k]
          %2 = convert.f32 %1
          %3 = load b[j + 6*k]
          %4 = convert.f32 %3
          %5 = mul %2, %4
          yield %5
        }
        store t[6*i + j], %0
      }
    }
  }
  kernel pick ordered {
    site "gather" "index of gather"
    parallel p < 5 {
      %0 = load ids[p]
      indirect q = %0 < 8 site 0
      %1 = index.i64 [p + q]
      %2 = const.i64 3
      %3 = lt %1, %2
      %4 = const.f32 -1.5
      %5 = load t[p + 6*q] mask %3 else %4
      %6, %7 = sequential s < 3 carry (%8 = %5, %9 = %4) {
        %10 = add %8, %9
        yield %10, %9
      }
      %11, %12 = reduce argmax, max r < 6 {
        %13 = load t[6*q + r]
        %14 = index.i64 [r]
        yield %13, %14, %13
      }
      %15 = convert.f32 %11
      %16 = add %15, %6
      scatter sum c[floordiv(p, 2)], %16 mask %3
      store c[p + 8], %12
    }
  }
}
)";

TEST(LoopTextTest, RoundTrips) {
  constexpr std::string_view kOddSymbol =
      "function {\n  symbol unk$0 in [1, 64]\n  buffer u: f32[unk$0] input\n}\n";
  for (std::string_view text : {kSoftmax, kRest, kOddSymbol}) {
    ExprArena exprs;
    auto function = ParseFunction(text, exprs);
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    Status status = VerifyFunction(*function);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(PrintFunction(*function), text);
  }
}

TEST(LoopBuilderTest, BuildsSoftmax) {
  ExprArena exprs;
  Function function;
  function.exprs = &exprs;
  Expr n = exprs.Dim("n");
  exprs.Constrain(n, {1, 64});
  Expr row = exprs.Const(128);
  BufferId x = AddBuffer(function, "x", DType::kF32, BufferRole::kInput, exprs.Mul(n, row));
  BufferId y = AddBuffer(function, "odd name", DType::kF32, BufferRole::kOutput, exprs.Mul(n, row));
  BufferId w = AddBuffer(function, "w", DType::kF32, BufferRole::kConstant, row);
  function.buffers[w].constant = 3;
  BufferId e = AddBuffer(function, "e", DType::kF32, BufferRole::kLocal, row);
  function.buffers[e].kernel = 0;

  KernelBuilder b(function, "softmax");
  b.kernel().nodes = {"scale", "soft\"max"};
  b.Parallel("i", n, [&](Expr i) {
    auto at = [&](Expr j) { return exprs.Add(exprs.Mul(i, row), j); };
    ValueId max = b.Reduce(ReduceKind::kMax, "j", row, [&](Expr j) { return b.Load(x, at(j)); });
    ValueId sum = b.Reduce(ReduceKind::kSum, "j", row, [&](Expr j) {
      ValueId v = b.Scalar(Opcode::kExp, {b.Scalar(Opcode::kSub, {b.Load(x, at(j)), max})});
      b.Store(e, j, v);
      return v;
    });
    b.Parallel("j", row, [&](Expr j) {
      ValueId q = b.Scalar(Opcode::kDiv, {b.Load(e, j), sum});
      b.Store(y, at(j), b.Scalar(Opcode::kMul, {q, b.Load(w, j)}));
    });
  });
  function.kernels.push_back(b.Finish());
  ASSERT_TRUE(VerifyFunction(function).ok()) << VerifyFunction(function).ToString();
  std::string expected(kSoftmax);
  size_t at = 0;
  auto replace = [&](std::string_view from, std::string_view to) {
    while ((at = expected.find(from)) != std::string::npos) expected.replace(at, from.size(), to);
  };
  replace("j2", "j1");
  replace("j3", "jj");
  replace("jj", "j2");
  EXPECT_EQ(PrintFunction(function), expected);
}

TEST(LoopBuilderTest, SharesEqualValuesWithinAScopeAndForgetsLoadsAfterStores) {
  ExprArena exprs;
  Function function;
  function.exprs = &exprs;
  BufferId x = AddBuffer(function, "x", DType::kF32, BufferRole::kTemp, exprs.Const(8));
  KernelBuilder b(function, "k");
  b.Parallel("i", exprs.Const(8), [&](Expr i) {
    ValueId v = b.Load(x, i);
    EXPECT_EQ(b.Load(x, i), v);
    EXPECT_EQ(b.Float(DType::kF32, 1), b.Float(DType::kF32, 1));
    ValueId sum = b.Scalar(Opcode::kAdd, {v, b.Float(DType::kF32, 1)});
    EXPECT_EQ(b.Scalar(Opcode::kAdd, {v, b.Float(DType::kF32, 1)}), sum);
    b.Store(x, i, sum);
    EXPECT_NE(b.Load(x, i), v);
    EXPECT_EQ(b.Convert(sum, DType::kF32), sum);
    EXPECT_EQ(b.IndexLess(i, exprs.Const(8)), kNone);
    EXPECT_NE(b.IndexLess(i, exprs.Const(7)), kNone);
  });
  function.kernels.push_back(b.Finish());
  EXPECT_TRUE(VerifyFunction(function).ok());
}

TEST(LoopTextTest, ErrorsNameTheLine) {
  struct Case {
    std::string_view from, to, message;
  };
  const Case cases[] = {
      {"%4 = sub %3, %0", "%4 = sub %3, %99",
       "Line 16 of the loop IR text needs a value defined before (%99 is not), not '%5 = exp %4'."},
      {"yield %1", "yield %1 %1", "Line 12 of the loop IR text needs '=', not '}'."},
      {"%5 = exp %4", "%5 = foo %4", "'foo' is not a Kernel IR opcode."},
      {"load w[j3]", "load v[j3]", "No buffer has the name 'v'."},
      {"x: f32", "x: f33", "'f33' is not a dtype."},
      {"in [1, 64]", "in [64, 1]",
       "Line 3 of the loop IR text needs a range with lo <= hi and a divisor of at least 1, not "
       "'buffer x: "
       "f32[128*n] input'."},
      {"load x[128*i + j]", "load x[128*i +]",
       "Line 10 of the loop IR text needs an expression (The expression '128*i +' needs a number, "
       "a "
       "name or '(' at "
       "character 7.), not '128*i +]'."},
  };
  for (const Case& c : cases) {
    std::string text(kSoftmax);
    text.replace(text.find(c.from), c.from.size(), c.to);
    ExprArena exprs;
    auto function = ParseFunction(text, exprs);
    ASSERT_FALSE(function.ok()) << c.to;
    EXPECT_EQ(function.status().code(), StatusCode::kInvalidArgument);
    if (c.message.find("opcode") == std::string_view::npos &&
        c.message.find("dtype") == std::string_view::npos) {
      EXPECT_EQ(function.status().message(), c.message);
    }
  }
}

TEST(LoopTextTest, EveryTruncationFailsCleanly) {
  for (size_t size = 0; size + 2 < kRest.size(); ++size) {
    ExprArena exprs;
    EXPECT_FALSE(ParseFunction(kRest.substr(0, size), exprs).ok()) << size;
  }
}

// Texts that parse but are not well formed.
TEST(LoopVerifierTest, RejectsMalformedKernels) {
  struct Case {
    std::string_view from, to, message;
  };
  const Case cases[] = {
      {"store `odd name`[128*i + j3], %9", "store x[j3], %9", "it stores to the input buffer 'x'"},
      {"parallel j3 < 128", "parallel i < 128", "two variables in scope are named 'i'"},
      {"%5 = exp %4", "%5 = convert.f64 %4", "a value of f64 is stored to 'e' of f32"},
      {"%5 = exp %4", "%5 = not %4", "'not' is not defined on f32"},
      {"%8 = load w[j3]", "%8 = const.f64 1", "'mul' has operands of f32 and f64"},
      {"%6 = load e[j3]", "%6 = load e[j3] mask %2 else %2", "a mask has dtype f32"},
      {"reduce max j < 128", "reduce argmax j < 128", "a yield has 1 values, its loop needs 2"},
  };
  for (const Case& c : cases) {
    std::string text(kSoftmax);
    text.replace(text.find(c.from), c.from.size(), c.to);
    ExprArena exprs;
    auto function = ParseFunction(text, exprs);
    if (!function.ok()) continue;
    EXPECT_EQ(VerifyFunction(*function).message(),
              fmt::format("Loop kernel 'softmax' is malformed: {}.", c.message));
  }
}

}  // namespace
}  // namespace halyard::loop
