// SPDX-License-Identifier: Apache-2.0
// Arithmetic of results of 16 bits against libm, by all bf16 arguments, and where it must stay.
#include "compiler/kernel/narrow_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/float16.h"
#include "compiler/kernel/builder.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

constexpr int64_t kCount = 1 << 16;
using Body = std::function<ValueId(Builder&, ValueId)>;

// out[i] = body(x[i]), where x is every bf16.
Kernel OfEvery(DType out_dtype, const Body& body) {
  Builder b("every");
  const BufferId x = b.Parameter("x", DType::kBF16, Access::kRead);
  const BufferId out = b.Parameter("out", out_dtype, Access::kReadWrite);
  b.For(b.Index(0), b.Index(kCount), b.Index(2), [&](ValueId at) {
    const ValueId wide = b.Convert(b.Load(x, at, 2), DType::kF32);
    b.Store(out, at, b.Convert(body(b, wide), out_dtype));
  });
  return std::move(b).Finish();
}

ValueId OnePlus(Builder& b, Opcode function, ValueId x) {
  return b.Add(b.Append1(function, Type{DType::kF32, 2}, {x}), b.F32(1, 2));
}

int64_t OpsOf(const Kernel& kernel, Opcode opcode) {
  return std::count_if(kernel.ops.begin(), kernel.ops.end(),
                       [&](const Op& op) { return op.opcode == opcode; });
}

float ArgumentAt(int64_t i) { return F32FromBF16(static_cast<uint16_t>(i)); }

std::vector<uint16_t> ResultsOf(const Kernel& kernel) {
  std::vector<uint16_t> x(kCount), out(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  const BufferArgument arguments[] = {{x.data(), kCount}, {out.data(), kCount}};
  ErrorRecord error{};
  EXPECT_TRUE(VerifyKernel(kernel).ok());
  const Status status = Interpret(kernel, arguments, {}, {1, 1, 1}, &error);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

TEST(NarrowMath, SumsWithOneAreRightToTheRoundingOfF16) {
  struct Case {
    Opcode opcode;
    double (*sum)(double);
  };
  for (const Case& c : {Case{Opcode::kErf, [](double x) { return std::erfc(-x); }},
                        Case{Opcode::kTanh, [](double x) { return 2 / (1 + std::exp(-2 * x)); }}}) {
    const Kernel plain =
        OfEvery(DType::kF16, [&](Builder& b, ValueId x) { return OnePlus(b, c.opcode, x); });
    const Kernel narrow = NarrowMath(plain);
    EXPECT_EQ(OpsOf(narrow, c.opcode), 0);
    EXPECT_EQ(OpsOf(narrow, Opcode::kDiv), 0);
    const std::vector<uint16_t> got = ResultsOf(narrow);
    for (int64_t i = 0; i < kCount; ++i) {
      const double x = ArgumentAt(i), want = c.sum(x);
      const double result = F32FromF16(got[static_cast<size_t>(i)]);
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(result)) << i;
        continue;
      }
      // Half a place of an f16, normal or not, and 2^-17.
      const double limit = std::max(want * (0x1p-11 + 0x1p-17), 0x1p-25 * (1 + 0x1p-6));
      ASSERT_LE(std::fabs(result - want), limit)
          << FormatOpcode(c.opcode) << " of " << x << " gave " << result << ", not " << want;
    }
  }
}

TEST(NarrowMath, QuotientsByConstantsBecomeProducts) {
  const auto divide = [](double by, DType out) {
    return OfEvery(out, [&](Builder& b, ValueId x) { return b.Div(x, b.F32(by, 2)); });
  };
  const Kernel narrow = NarrowMath(divide(3, DType::kBF16));
  EXPECT_EQ(OpsOf(narrow, Opcode::kDiv), 0);
  const std::vector<uint16_t> got = ResultsOf(narrow);
  for (int64_t i = 0; i < kCount; ++i) {
    const double want = static_cast<double>(ArgumentAt(i)) / 3;
    const double result = F32FromBF16(got[static_cast<size_t>(i)]);
    if (std::isnan(want)) continue;
    if (std::isinf(want)) {
      EXPECT_EQ(result, want);
      continue;
    }
    ASSERT_LE(std::fabs(result - want), std::max(std::fabs(want) * 0x1.001p-8, 0x1p-133)) << want;
  }
  EXPECT_EQ(OpsOf(NarrowMath(divide(3, DType::kF32)), Opcode::kDiv), 1);
  EXPECT_EQ(OpsOf(NarrowMath(divide(0, DType::kF16)), Opcode::kDiv), 1);
}

// One quotient for two lanes, whatever the divisor: also where one over it is no normal number.
TEST(NarrowMath, QuotientsByWhatLanesShareBecomeProducts) {
  const float kDivisors[] = {3,          -0.0078125f, 0x1p-64f, 0x1.8p-70f, 0x1.4p-127f,
                             0x1p-149f,  0,           0x1p64f,  0x1.8p66f,  0x1.8p100f,
                             0x1.8p127f, INFINITY,    -INFINITY};
  for (const float divisor : kDivisors) {
    const auto divide = [&](DType out) {
      return OfEvery(out, [&](Builder& b, ValueId x) {
        // Not known before it runs: a constant has a rule of its own.
        const ValueId zero = b.Mul(b.Extract(x, 0), b.F32(0, 1));
        const ValueId plain =
            b.Select(b.Eq(zero, b.F32(0, 1)), b.F32(divisor, 1), b.F32(divisor, 1));
        return b.Div(x, b.Splat(plain, 2));
      });
    };
    const Kernel narrow = NarrowMath(divide(DType::kBF16));
    ASSERT_EQ(OpsOf(narrow, Opcode::kDiv), 1);
    EXPECT_TRUE(std::all_of(narrow.ops.begin(), narrow.ops.end(), [](const Op& op) {
      return op.opcode != Opcode::kDiv || op.type.lanes == 1;
    }));
    const std::vector<uint16_t> got = ResultsOf(narrow);
    for (int64_t i = 0; i < kCount; ++i) {
      const double want = static_cast<double>(ArgumentAt(i)) / static_cast<double>(divisor);
      const double result = F32FromBF16(got[static_cast<size_t>(i)]);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(result)) << ArgumentAt(i) << " / " << divisor;
        continue;
      }
      if (std::fabs(want) >= 0x1.ffp127) {  // the largest bf16 and half a unit
        EXPECT_EQ(result, std::copysign(INFINITY, want)) << ArgumentAt(i) << " / " << divisor;
        continue;
      }
      ASSERT_LE(std::fabs(result - want), std::max(std::fabs(want) * 0x1.001p-8, 0x1p-133))
          << ArgumentAt(i) << " / " << divisor;
    }
    EXPECT_EQ(OpsOf(NarrowMath(divide(DType::kF32)), Opcode::kMul),
              OpsOf(divide(DType::kF32), Opcode::kMul));
  }
}

TEST(NarrowMath, NothingIsRoundedTwice) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Kernel narrow = NarrowMath(OfEvery(dtype, [&](Builder& b, ValueId x) {
      return b.Convert(b.Convert(b.Mul(x, b.F32(3, 2)), dtype), DType::kF32);
    }));
    const int64_t roundings = std::count_if(
        narrow.ops.begin(), narrow.ops.end(),
        [&](const Op& op) { return op.opcode == Opcode::kConvert && op.type.dtype == dtype; });
    EXPECT_EQ(roundings, 1);
  }
  const Kernel both = NarrowMath(OfEvery(DType::kBF16, [](Builder& b, ValueId x) {
    return b.Convert(b.Convert(b.Mul(x, b.F32(3, 2)), DType::kF16), DType::kF32);
  }));
  EXPECT_EQ(OpsOf(both, Opcode::kConvert), 4);
}

// What is not rounded, is needed for something else or may be small after a difference stays.
TEST(NarrowMath, FunctionsStayWhereTheyAreSeen) {
  for (const Opcode opcode : {Opcode::kErf, Opcode::kTanh}) {
    const Body sum = [&](Builder& b, ValueId x) { return OnePlus(b, opcode, x); };
    const Body difference = [&](Builder& b, ValueId x) {
      return b.Sub(OnePlus(b, opcode, x), b.F32(1, 2));
    };
    const Body twice = [&](Builder& b, ValueId x) {
      const ValueId function = b.Append1(opcode, Type{DType::kF32, 2}, {x});
      return b.Mul(function, b.Add(function, b.F32(1, 2)));
    };
    EXPECT_EQ(OpsOf(NarrowMath(OfEvery(DType::kF32, sum)), opcode), 1);
    EXPECT_EQ(OpsOf(NarrowMath(OfEvery(DType::kF16, difference)), opcode), 1);
    EXPECT_EQ(OpsOf(NarrowMath(OfEvery(DType::kF16, twice)), opcode), 1);
    EXPECT_EQ(OpsOf(NarrowMath(OfEvery(DType::kF16, sum)), opcode), 0);
  }
}

}  // namespace
}  // namespace halyard::kernel
