// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype and number of lanes, and what only GPUs have, as CUDA C++ that NVRTC compiles
// for each architecture.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/emit.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/kernel/builder.h"
#include "compiler/kernel/opcode.h"
#include "tests/codegen/cuda/nvrtc_place.h"
#include "tests/codegen/gpu_cases.h"
#include "tests/codegen/op_cases.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

// One lane and eight; between them the emitter does nothing new.
bool IsTried(const kernel::Kernel& kernel) {
  int lanes = 1;
  for (const kernel::Value& value : kernel.values) lanes = std::max<int>(lanes, value.type.lanes);
  return lanes == 1 || lanes == 8;
}

std::vector<Opcode> OpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (info.transcendental || info.op_class == kernel::OpClass::kCpu) continue;
    if (!CasesFor(opcode, true).empty()) ops.push_back(opcode);
  }
  return ops;
}

void ExpectCompiles(const std::vector<kernel::Kernel>& kernels, const std::string& target_name) {
  PlaceNvrtc();
  const Result<Target> target = ParseTarget(target_name);
  ASSERT_TRUE(target.ok());
  ASSERT_FALSE(kernels.empty());
  const Result<std::string> source = cuda::EmitCudaSource(kernels, *target);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const auto cubin = cuda::CompileCubin(kernels[0].name, *source, target->gpu.compute_capability);
  ASSERT_TRUE(cubin.ok()) << cubin.status().ToString() << *source;
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(cubin->data()), 4),
            "\x7f"
            "ELF");
}

class CudaOps : public ::testing::TestWithParam<std::tuple<std::string, Opcode>> {};

TEST(CudaMath, Compiles) {
  std::vector<kernel::Kernel> kernels;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (!info.transcendental) continue;
    kernel::Builder b(fmt::format("{}_0", info.name));
    const kernel::BufferId x = b.Parameter("x", DType::kF32, kernel::Access::kReadWrite);
    const kernel::ValueId zero = b.Index(0);
    const kernel::ValueId v = b.Load(x, zero);
    const kernel::Type type{DType::kF32, 1};
    b.Store(x, zero, info.max_operands == 2 ? b.Append1(opcode, type, {v, v}) : b.Unary(opcode, v));
    kernels.push_back(std::move(b).Finish());
  }
  ExpectCompiles(kernels, "cuda-sm80");
}

TEST_P(CudaOps, Compile) {
  const auto& [target, opcode] = GetParam();
  std::vector<kernel::Kernel> kernels;
  for (OpCase& c : CasesFor(opcode, true)) {
    if (IsTried(c.kernel)) kernels.push_back(std::move(c.kernel));
  }
  ExpectCompiles(kernels, target);
}

INSTANTIATE_TEST_SUITE_P(All, CudaOps,
                         ::testing::Combine(::testing::Values("cuda-sm75", "cuda-sm80",
                                                              "cuda-sm90"),
                                            ::testing::ValuesIn(OpsToTest())),
                         [](const auto& info) {
                           return std::get<0>(info.param).substr(5) + "_" +
                                  std::string(kernel::FormatOpcode(std::get<1>(info.param)));
                         });

class CudaGpuOps : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(CudaGpuOps, Compile) {
  const auto& [target_name, family] = GetParam();
  const Result<Target> target = ParseTarget(target_name);
  ASSERT_TRUE(target.ok());
  std::vector<kernel::Kernel> kernels;
  for (GpuCase& c : GpuCasesFor(family, target->gpu)) kernels.push_back(std::move(c.c.kernel));
  if (kernels.empty()) GTEST_SKIP() << target_name << " has no " << family << ".";
  ExpectCompiles(kernels, target_name);
}

INSTANTIATE_TEST_SUITE_P(All, CudaGpuOps,
                         ::testing::Combine(::testing::Values("cuda-sm75", "cuda-sm80",
                                                              "cuda-sm90"),
                                            ::testing::ValuesIn(GpuCaseFamilies())),
                         [](const auto& info) {
                           return std::get<0>(info.param).substr(5) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace halyard::testing
