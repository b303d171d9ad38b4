// SPDX-License-Identifier: Apache-2.0
// The error of the expanded transcendental functions, in units of the last place, measured on
// generated code against libm in long double; special values exactly.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/image_runner.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;
using LongDouble = long double;

// Accuracy is stated for every argument, infinities too.
constexpr double kAny = std::numeric_limits<double>::infinity();

struct Function {
  Opcode opcode;
  LongDouble (*exact)(LongDouble x, LongDouble y);
  double lo, hi;  // half of the samples lie here, the rest is random bits
  double f32_ulp, f64_ulp;
  double f64_max_argument;  // accuracy of f64 is stated up to here, of f32 everywhere
};

const Function kFunctions[] = {
    {Opcode::kExp, [](LongDouble x, LongDouble) { return std::exp(x); }, -110, 90, 2, 4, kAny},
    {Opcode::kExp2, [](LongDouble x, LongDouble) { return std::exp2(x); }, -151, 129, 2, 4, kAny},
    {Opcode::kLog, [](LongDouble x, LongDouble) { return std::log(x); }, 0, 4, 2, 4, kAny},
    {Opcode::kLog2, [](LongDouble x, LongDouble) { return std::log2(x); }, 0, 4, 2, 4, kAny},
    {Opcode::kSin, [](LongDouble x, LongDouble) { return std::sin(x); }, -100, 100, 1, 4, 1.6e6},
    {Opcode::kCos, [](LongDouble x, LongDouble) { return std::cos(x); }, -100, 100, 1, 4, 1.6e6},
    {Opcode::kTan, [](LongDouble x, LongDouble) { return std::tan(x); }, -100, 100, 1, 4, 1.6e6},
    {Opcode::kTanh, [](LongDouble x, LongDouble) { return std::tanh(x); }, -10, 10, 2, 4, kAny},
    {Opcode::kErf, [](LongDouble x, LongDouble) { return std::erf(x); }, -5, 5, 2, 8, kAny},
    {Opcode::kPow, [](LongDouble x, LongDouble y) { return std::pow(x, y); }, -30, 30, 1, 2048,
     kAny},
    {Opcode::kAsin, [](LongDouble x, LongDouble) { return std::asin(x); }, -1, 1, 1, 5, kAny},
    {Opcode::kAcos, [](LongDouble x, LongDouble) { return std::acos(x); }, -1, 1, 1, 5, kAny},
    {Opcode::kAtan, [](LongDouble x, LongDouble) { return std::atan(x); }, -10, 10, 1, 5, kAny},
    {Opcode::kSinh, [](LongDouble x, LongDouble) { return std::sinh(x); }, -90, 90, 1, 4, kAny},
    {Opcode::kCosh, [](LongDouble x, LongDouble) { return std::cosh(x); }, -90, 90, 1, 4, kAny},
    {Opcode::kAsinh, [](LongDouble x, LongDouble) { return std::asinh(x); }, -10, 10, 1, 4, kAny},
    {Opcode::kAcosh, [](LongDouble x, LongDouble) { return std::acosh(x); }, 1, 10, 1, 4, kAny},
    {Opcode::kAtanh, [](LongDouble x, LongDouble) { return std::atanh(x); }, -1, 1, 1, 4, kAny},
    {Opcode::kRsqrt, [](LongDouble x, LongDouble) { return 1 / std::sqrt(x); }, 0, 100, 2, 4, kAny},
};

constexpr double kSpecial[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               2.0,
                               -2.0,
                               3.0,
                               -3.0,
                               0.5,
                               -0.5,
                               1e-40,
                               -1e-40,
                               1e-45,
                               1e-30,
                               -1e-30,
                               88.7,
                               88.8,
                               -87.4,
                               -103.9,
                               -104.1,
                               0.625,
                               0.55,
                               1.5707963267948966,
                               3.141592653589793,
                               709.7,
                               709.8,
                               -745.1,
                               -745.2,
                               1023.5,
                               1024.0,
                               127.9,
                               128.0,
                               -149.0,
                               -149.5,
                               -150.0,
                               3.4e38,
                               -3.4e38,
                               1e-310,
                               5e-324,
                               1.7e308,
                               6.1,
                               4.0,
                               16777217.0,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};

constexpr int kLanes = 16;

kernel::Kernel MakeKernel(Opcode opcode, DType dtype, int64_t n) {
  kernel::Builder b(fmt::format("{}_{}", kernel::FormatOpcode(opcode), FormatDType(dtype)));
  const kernel::BufferId x = b.Parameter("x", dtype, kernel::Access::kRead);
  const kernel::BufferId y = b.Parameter("y", dtype, kernel::Access::kRead);
  const kernel::BufferId out = b.Parameter("out", dtype, kernel::Access::kWrite);
  b.For(b.Index(0), b.Index(n), b.Index(kLanes), [&](kernel::ValueId i) {
    const kernel::ValueId vx = b.Load(x, i, kLanes);
    const kernel::ValueId vy = b.Load(y, i, kLanes);
    b.Store(out, i, opcode == Opcode::kPow ? b.Binary(opcode, vx, vy) : b.Unary(opcode, vx));
  });
  return std::move(b).Finish();
}

template <typename F>
std::vector<std::pair<F, F>> Samples(const Function& function) {
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
  std::vector<std::pair<F, F>> samples;
  for (double a : kSpecial) {
    if (function.opcode != Opcode::kPow) {
      samples.emplace_back(static_cast<F>(a), F(0));
      continue;
    }
    for (double b : kSpecial) samples.emplace_back(static_cast<F>(a), static_cast<F>(b));
  }
  std::mt19937_64 random(7);
  const int count = 100000;
  for (int i = 0; i < count; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    const double v = static_cast<double>(random() >> 11) * 0x1p-53;
    F x = static_cast<F>(function.lo + u * (function.hi - function.lo));
    F y = static_cast<F>(v * 60 - 30);
    if (i % 2) x = std::bit_cast<F>(static_cast<Bits>(random()));
    if (i % 4 == 3) y = std::bit_cast<F>(static_cast<Bits>(random()));
    if (i % 8 == 0) x = std::round(x);
    if (i % 8 == 2) y = std::round(y);
    samples.emplace_back(x, y);
  }
  while (samples.size() % kLanes != 0) samples.emplace_back(F(1), F(1));
  return samples;
}

// Distance in units of the last place of the format at `exact`.
template <typename F>
double Ulp(F got, LongDouble exact) {
  const F rounded = static_cast<F>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : 1e30;
  if (got == rounded && std::isinf(got)) return 0;
  if (std::isinf(exact)) return 1e30;
  using Limits = std::numeric_limits<F>;
  int exponent = Limits::min_exponent - 1;
  if (exact != 0) exponent = std::max(exponent, std::ilogb(exact));
  exponent = std::min(exponent, Limits::max_exponent - 1);
  const LongDouble unit = std::ldexp(LongDouble(1), exponent - Limits::digits + 1);
  // An infinite result stands for the first number that does not fit.
  LongDouble value = got;
  if (std::isinf(got))
    value = std::copysign(std::ldexp(LongDouble(1), Limits::max_exponent), value);
  return static_cast<double>(std::fabs(value - exact) / unit);
}

template <typename F>
void Measure(const std::string& target_name, DType dtype) {
  Result<Target> target = ParseTarget(target_name);
  ASSERT_TRUE(target.ok());
  kernel::ExpandMathOptions options;
  options.has_fma = target_name != "cpu-sse4.2";
  options.has_scale = target_name == "cpu-avx512";
  for (const Function& function : kFunctions) {
    const auto samples = Samples<F>(function);
    const int64_t n = static_cast<int64_t>(samples.size());
    kernel::Module module;
    module.kernels.push_back(kernel::ExpandMath(MakeKernel(function.opcode, dtype, n), options));
    const Status verified = kernel::VerifyModule(module);
    ASSERT_TRUE(verified.ok()) << verified.ToString();
    Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, *target);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    AlignedBytes x(samples.size() * sizeof(F)), y(x), out(x);
    for (size_t i = 0; i < samples.size(); ++i) {
      std::memcpy(x.data() + i * sizeof(F), &samples[i].first, sizeof(F));
      std::memcpy(y.data() + i * sizeof(F), &samples[i].second, sizeof(F));
    }
    std::memset(out.data(), 0xa5, out.size());
    void* const pointers[] = {x.data(), y.data(), out.data()};
    ErrorRecord error{};
    const int64_t grid[3] = {1, 1, 1};
    ImageRunner(*image).Run(module.kernels[0].name, pointers, {}, grid, &error);

    // Generated code and interpreter agree bit by bit on the expansion.
    const int64_t checked = 64 * kLanes;
    kernel::Kernel few = kernel::ExpandMath(MakeKernel(function.opcode, dtype, checked), options);
    AlignedBytes expected(out);
    const kernel::BufferArgument arguments[] = {{x.data(), n}, {y.data(), n}, {expected.data(), n}};
    const Status status = kernel::Interpret(few, arguments, {}, grid, &error);
    ASSERT_TRUE(status.ok()) << status.ToString();

    double worst = 0;
    F worst_x = 0, worst_y = 0, worst_got = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      F got, want;
      std::memcpy(&got, out.data() + i * sizeof(F), sizeof(F));
      std::memcpy(&want, expected.data() + i * sizeof(F), sizeof(F));
      ASSERT_TRUE(std::memcmp(&got, &want, sizeof(F)) == 0 || (std::isnan(got) && std::isnan(want)))
          << module.kernels[0].name << "(" << samples[i].first << "): interpreter " << want
          << ", code " << got;
      const LongDouble exact = function.exact(samples[i].first, samples[i].second);
      if (sizeof(F) == 8 && std::fabs(samples[i].first) > function.f64_max_argument &&
          !std::isnan(exact)) {
        if (function.opcode != Opcode::kTan) {
          EXPECT_LE(std::fabs(got), F(1.0001));
        }
        continue;
      }
      if (got == 0 && exact == 0) {
        EXPECT_EQ(std::signbit(got), std::signbit(exact))
            << module.kernels[0].name << " of " << samples[i].first;
      }
      const double ulp = Ulp(got, exact);
      if (ulp > worst) {
        worst = ulp;
        worst_x = samples[i].first;
        worst_y = samples[i].second;
        worst_got = got;
      }
    }
    const double limit = sizeof(F) == 4 ? function.f32_ulp : function.f64_ulp;
    EXPECT_LE(worst, limit) << target_name << " " << module.kernels[0].name << " at " << worst_x
                            << ", " << worst_y << " gives " << worst_got;
    // The figures, for the header of expand_math.h.
    fmt::print("{} {} {:.3f} at {}, {}\n", target_name, module.kernels[0].name, worst, worst_x,
               worst_y);
  }
}

class MathOnTarget : public ::testing::TestWithParam<std::string> {};
TEST_P(MathOnTarget, F32) { Measure<float>(GetParam(), DType::kF32); }
TEST_P(MathOnTarget, F64) { Measure<double>(GetParam(), DType::kF64); }

INSTANTIATE_TEST_SUITE_P(All, MathOnTarget, ::testing::ValuesIn(RunnableTargets()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '-' || c == '.') c = '_';
                           }
                           return name;
                         });

TEST(ExpandMath, CoversEveryTranscendentalOp) {
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const Opcode opcode = static_cast<Opcode>(i);
    if (!kernel::InfoOf(opcode).transcendental) continue;
    bool found = false;
    for (const Function& function : kFunctions) found |= function.opcode == opcode;
    EXPECT_TRUE(found) << kernel::FormatOpcode(opcode);
  }
}

}  // namespace
}  // namespace halyard::testing
