// SPDX-License-Identifier: Apache-2.0
// The transcendental functions of f32 that stay on CUDA devices, and those that are made of exp2 on
// Vulkan's, against libm in long double: the errors that compiler/codegen/cuda/emit.h and
// compiler/kernel/expand_math.h state, in units of the last place.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/builder.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"
#include "tests/codegen/device_runner.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

struct GpuFunction {
  Opcode opcode;
  double lo, hi;  // half of the samples lie here, the rest is random bits
  int64_t ulps;
  double ulps_per_x = 0;  // of |x| more
  bool only_normal = false;
};

constexpr GpuFunction kGpuFunctions[] = {
    {Opcode::kExp, -110, 90, 2},  {Opcode::kExp2, -151, 129, 2, 0, true},
    {Opcode::kLog, 0, 4, 1},      {Opcode::kLog2, 0, 4, 1},
    {Opcode::kSin, -100, 100, 2}, {Opcode::kCos, -100, 100, 2},
    {Opcode::kTan, -100, 100, 4}, {Opcode::kTanh, -10, 10, 2},
    {Opcode::kErf, -5, 5, 2},     {Opcode::kPow, -30, 30, 4},
    {Opcode::kAsin, -1, 1, 2},    {Opcode::kAcos, -1, 1, 2},
    {Opcode::kAtan, -10, 10, 2},  {Opcode::kSinh, -90, 90, 3},
    {Opcode::kCosh, -90, 90, 2},  {Opcode::kAsinh, -10, 10, 3},
    {Opcode::kAcosh, 1, 10, 4},   {Opcode::kAtanh, -1, 1, 3},
    {Opcode::kRsqrt, 0, 100, 2},
};

constexpr int64_t kElements = 16384;
constexpr float kGpuSpecial[] = {0.0f,   -0.0f,   1.0f,     -1.0f,     0.5f, 2.0f,
                                 1e-40f, -1e-45f, INFINITY, -INFINITY, NAN,  3e38f};

kernel::Kernel MakeKernel(Opcode opcode) {
  kernel::Builder b(fmt::format("{}_0", kernel::FormatOpcode(opcode)));
  b.SetWorkgroup(128, 1, 1);
  const kernel::BufferId x = b.Parameter("x", DType::kF32, kernel::Access::kRead);
  const kernel::BufferId y = b.Parameter("y", DType::kF32, kernel::Access::kRead);
  const kernel::BufferId out = b.Parameter("out", DType::kF32, kernel::Access::kWrite);
  const kernel::ValueId group = b.WorkgroupId(0, DType::kI32);
  const kernel::ValueId item = b.WorkitemId(0, DType::kI32);
  const kernel::ValueId at = b.Add(b.Mul(group, b.ConstInt(DType::kI32, 128)), item);
  const kernel::ValueId left = b.Load(x, at);
  const kernel::ValueId right = b.Load(y, at);
  const bool binary = kernel::InfoOf(opcode).max_operands == 2;
  const kernel::Type type{DType::kF32, 1};
  b.Store(out, at, binary ? b.Append1(opcode, type, {left, right}) : b.Unary(opcode, left));
  return std::move(b).Finish();
}

// Consecutive floats have consecutive numbers; both zeros have 0.
int64_t Order(float value) {
  const int32_t bits = std::bit_cast<int32_t>(value);
  return bits < 0 ? -int64_t{bits & 0x7fffffff} : bits;
}

// Runs kernel k of the loaded module on samples of function k.
void CheckGpuFunctions(DeviceRunner& device, std::span<const GpuFunction> functions) {
  std::mt19937_64 random(5);
  for (uint32_t k = 0; k < functions.size(); ++k) {
    const GpuFunction& f = functions[k];
    std::vector<float> x(kElements), y(kElements), out(kElements, -7.5f);
    std::uniform_real_distribution<double> near(f.lo, f.hi);
    for (size_t i = 0; i < x.size(); ++i) {
      for (std::vector<float>* values : {&x, &y}) {
        const uint64_t bits = random();
        (*values)[i] = i % 2 ? static_cast<float>(near(random))
                             : std::bit_cast<float>(static_cast<uint32_t>(bits));
      }
    }
    constexpr size_t kCount = std::size(kGpuSpecial);
    for (size_t i = 0; i < kCount * kCount; ++i) {
      x[i] = kGpuSpecial[i % kCount];
      y[i] = kGpuSpecial[i / kCount];
    }
    const auto bytes = [](std::vector<float>& values) {
      return std::span<uint8_t>(reinterpret_cast<uint8_t*>(values.data()), values.size() * 4);
    };
    const std::span<uint8_t> buffers[] = {bytes(x), bytes(y), bytes(out)};
    const Status ran = device.Run(k, buffers, {}, {kElements / 128, 1, 1});
    ASSERT_TRUE(ran.ok()) << ran.ToString();
    int64_t worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = std::bit_cast<float>(static_cast<uint32_t>(kernel::ArithmeticLane(
          f.opcode, DType::kF32, std::bit_cast<uint32_t>(x[i]), std::bit_cast<uint32_t>(y[i]), 0)));
      if (std::isnan(want) && std::isnan(out[i])) continue;
      const bool one_nan = std::isnan(want) != std::isnan(out[i]);
      const auto is_subnormal = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL; };
      if (f.only_normal && (is_subnormal(want) || is_subnormal(x[i]))) continue;
      // What an argument adds to the bound is taken off the distance.
      const double extra = std::isfinite(x[i]) ? f.ulps_per_x * std::abs(double{x[i]}) : 0;
      const int64_t distance = one_nan ? INT32_MAX
                                       : std::abs(Order(want) - Order(out[i])) -
                                             static_cast<int64_t>(std::min(extra, 1e9));
      if (distance <= worst) continue;
      worst = distance;
      at = i;
    }
    // The expectation is rounded too: half a unit, which may look like one more.
    EXPECT_LE(worst, f.ulps + 1) << kernel::FormatOpcode(f.opcode) << "(" << x[at] << ", " << y[at]
                                 << ") gives " << out[at];
    std::printf("%s %s: %lld\n", device.device_name().c_str(),
                std::string(kernel::FormatOpcode(f.opcode)).c_str(), static_cast<long long>(worst));
  }
}

TEST(GpuMath, CudaFunctionsKeepTheirErrors) {
  Result<std::unique_ptr<DeviceRunner>> opened = DeviceRunner::Open("cuda:0");
  if (!opened.ok()) GTEST_SKIP() << opened.status().ToString();
  kernel::Module module;
  for (const GpuFunction& f : kGpuFunctions) module.kernels.push_back(MakeKernel(f.opcode));
  const Status loaded = (*opened)->Load(module);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  CheckGpuFunctions(**opened, kGpuFunctions);
}

// Those made of the device's exp2.
TEST(GpuMath, VulkanFunctionsKeepTheirErrors) {
  Result<std::unique_ptr<DeviceRunner>> opened = DeviceRunner::Open("vulkan:0");
  if (!opened.ok()) GTEST_SKIP() << opened.status().ToString();
  constexpr GpuFunction kOfExp2[] = {{Opcode::kExp, -87, 88, 4, 4, true},
                                     {Opcode::kExp2, -126, 127, 3, 2, true},
                                     {Opcode::kTanh, -10, 10, 7, 0, true},
                                     {Opcode::kErf, -5, 5, 5, 0, true}};
  kernel::ExpandMathOptions options;
  options.has_exp2 = true;
  options.has_fma =
      ((*opened)->target().gpu.features & static_cast<uint64_t>(GpuFeature::kFma)) != 0;
  kernel::Module module;
  for (const GpuFunction& f : kOfExp2) {
    module.kernels.push_back(kernel::ExpandMath(MakeKernel(f.opcode), options));
  }
  const Status loaded = (*opened)->Load(module);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  CheckGpuFunctions(**opened, kOfExp2);
}

}  // namespace
}  // namespace halyard::testing
