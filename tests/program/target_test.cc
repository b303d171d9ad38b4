// SPDX-License-Identifier: Apache-2.0
// Named targets and the hash that cache keys are made of.
#include "compiler/target/target.h"

#include <gtest/gtest.h>

#include "base/cpu_kernel_abi.h"

namespace halyard {
namespace {

TEST(TargetTest, NamedTargetsGrowInFeatures) {
  const auto sse = ParseTarget("cpu-sse4.2"), avx2 = ParseTarget("cpu-avx2"),
             avx512 = ParseTarget("cpu-avx512");
  ASSERT_TRUE(sse.ok() && avx2.ok() && avx512.ok());
  EXPECT_EQ(sse->vector_bytes, 16);
  EXPECT_EQ(avx2->vector_bytes, 32);
  EXPECT_EQ(avx512->vector_bytes, 64);
  EXPECT_EQ(avx512->vector_registers, 32);
  EXPECT_EQ(avx2->cpu_features & sse->cpu_features, sse->cpu_features);
  EXPECT_EQ(avx512->cpu_features & avx2->cpu_features, avx2->cpu_features);
  EXPECT_NE(avx512->cpu_features & static_cast<uint64_t>(CpuFeature::kAvx512), 0u);
}

TEST(TargetTest, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(ParseTarget("cpu-mmx").status().message(),
            "There is no target 'cpu-mmx'; known are 'cpu-sse4.2', 'cpu-avx2', 'cpu-avx512', "
            "'cuda-sm75', 'cuda-sm80', 'cuda-sm90', 'vulkan-4', 'vulkan-8', "
            "'vulkan-16', 'vulkan-32', 'llvmpipe-8'.");
}

TEST(TargetTest, HashDependsOnCodeNumbersAndNotOnTheName) {
  Target a, b;
  b.name = "another";
  EXPECT_EQ(a.CodeHash(), b.CodeHash());
  b.worker_count = 2;
  EXPECT_NE(a.CodeHash(), b.CodeHash());
  b = a;
  b.gpu.features = 1;
  EXPECT_EQ(a.CodeHash(), b.CodeHash());  // a CPU
  a.kind = b.kind = TargetKind::kCuda;
  EXPECT_NE(a.CodeHash(), b.CodeHash());
  b = a;
  b.gpu.matrix_shapes.push_back({DType::kF16, DType::kF32, 16, 16, 16});
  EXPECT_NE(a.CodeHash(), b.CodeHash());
  b = a;
  b.cpu_features = 1;
  EXPECT_NE(a.CodeHash(), b.CodeHash());
}

}  // namespace
}  // namespace halyard
