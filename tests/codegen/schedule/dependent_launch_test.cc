// SPDX-License-Identifier: Apache-2.0
// Kernels that wait for their predecessors themselves: where the wait stands, and what the image
// says.
#include <gtest/gtest.h>

#include "base/gpu_image.h"
#include "base/gpu_kernel_abi.h"
#include "compiler/codegen/cuda/emit.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/pipeline/expand_math.h"
#include "tests/codegen/schedule/check_gpu.h"

namespace halyard::schedule {
namespace {

using kernel::Opcode;

// Rows times a constant vector, summed; the constant is read in the loop and outside of it.
constexpr std::string_view kText = R"(function {
  buffer x: f32[640*64] input
  buffer w: f32[64] constant 0
  buffer y: f32[640] output
  kernel rows {
    parallel i < 640 {
      %5 = load w[0]
      %0 = reduce sum k < 64 {
        %1 = load x[64*i + k]
        %2 = load w[k]
        %3 = mul %1, %2
        yield %3
      }
      %6 = add %0, %5
      store y[i], %6
    }
  }
})";

// Every schedule of the text.
std::vector<ScheduledKernel> BuildAll(const Target& target, ExprArena& exprs) {
  std::vector<ScheduledKernel> all;
  Result<loop::Function> function = loop::ParseFunction(kText, exprs);
  EXPECT_TRUE(function.ok()) << function.status().ToString();
  Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, target);
  EXPECT_TRUE(records.ok()) << records.status().ToString();
  for (const ScheduleRecord& record : *records) {
    Result<ScheduledKernel> built = BuildKernel(*function, 0, record, target);
    EXPECT_TRUE(built.ok()) << built.status().ToString();
    if (built.ok()) all.push_back(std::move(*built));
  }
  return all;
}

int64_t Count(const kernel::Kernel& kernel, Opcode opcode) {
  int64_t count = 0;
  for (const kernel::Op& op : kernel.ops) count += op.opcode == opcode;
  return count;
}

TEST(DependentLaunch, KernelsWaitBeforeWhatMayChange) {
  ExprArena exprs;
  const std::vector<ScheduledKernel> all = BuildAll(GpuTargetOf("cuda-sm90"), exprs);
  ASSERT_FALSE(all.empty());
  for (const ScheduledKernel& built : all) {
    for (const Dispatch& dispatch : built.dispatches) {
      const kernel::Kernel& kernel = built.kernels[dispatch.kernel];
      SCOPED_TRACE(FormatSchedule(built.record));
      ASSERT_TRUE(kernel::VerifyKernel(kernel).ok());
      EXPECT_EQ(Count(kernel, Opcode::kAwaitDispatches), 1);
      const std::vector<kernel::OpId>& body = kernel.blocks[0].ops;
      EXPECT_EQ(Count(kernel, Opcode::kReleaseDispatches), kernel.begins_early ? 1 : 0);
      for (kernel::OpId id : body) {
        if (kernel.ops[id].opcode == Opcode::kAwaitDispatches) break;
        for (size_t b = 0; b < dispatch.bindings.size(); ++b) {
          const bool is_constant = dispatch.bindings[b].kind == Binding::Kind::kBuffer &&
                                   dispatch.bindings[b].index == 1;
          EXPECT_TRUE(is_constant ||
                      !kernel::Touches(kernel, kernel.ops[id], static_cast<kernel::BufferId>(b)));
        }
      }
    }
  }
}

TEST(DependentLaunch, TilesWithoutMatrixUnitsBeginWhenAllBeforeThemHasEnded) {
  ExprArena exprs;
  bool has_tile = false, has_other = false;
  Target target = GpuTargetOf("cuda-sm90");
  for (const ScheduledKernel& built : BuildAll(target, exprs)) {
    SCOPED_TRACE(FormatSchedule(built.record));
    const bool is_tile = built.record.kind == ScheduleKind::kGpuTile;
    (is_tile ? has_tile : has_other) = true;
    for (const kernel::Kernel& scheduled : built.kernels) {
      // As the passes behind schedules leave it.
      const kernel::Kernel kernel = pipeline::ExpandMathFor(scheduled, target);
      EXPECT_EQ(Count(kernel, Opcode::kAwaitDispatches), 1);
      EXPECT_EQ(Count(kernel, Opcode::kReleaseDispatches), is_tile ? 0 : 1);
      EXPECT_EQ(kernel.begins_early, !is_tile);
      const Result<std::string> source = cuda::EmitCudaKernel(kernel, target);
      ASSERT_TRUE(source.ok()) << source.status().ToString();
      EXPECT_EQ(source->find("griddepcontrol") == std::string::npos, is_tile) << *source;
      const std::string text = kernel::FormatModule({{kernel}});
      const auto parsed = kernel::ParseModule(text);
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
      EXPECT_EQ(kernel::FormatModule(*parsed), text);
      EXPECT_EQ(parsed->kernels[0].begins_early, !is_tile);
      target.gpu.features |= static_cast<uint64_t>(GpuFeature::kKernelIr);
      Result<std::vector<uint8_t>> bytes = cuda::EmitCudaImage({{kernel}}, target);
      ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
      Result<GpuImage> image = ReadGpuImage(*bytes);
      ASSERT_TRUE(image.ok()) << image.status().ToString();
      EXPECT_EQ(image->kernels[0].flags, is_tile ? 0 : kGpuEntryWaitsItself);
    }
  }
  EXPECT_TRUE(has_tile);
  EXPECT_TRUE(has_other);
}

TEST(DependentLaunch, OnlyWhereTheDeviceHasIt) {
  ExprArena exprs;
  for (const char* name : {"cuda-sm80", "vulkan-8"}) {
    for (const ScheduledKernel& built : BuildAll(GpuTargetOf(name), exprs)) {
      if (built.record.kind == ScheduleKind::kGpuTile) continue;
      for (const kernel::Kernel& kernel : built.kernels) {
        EXPECT_EQ(Count(kernel, Opcode::kAwaitDispatches), 0) << name;
      }
    }
  }
}

// Compilers move loads of what never changes behind the products that were to hide them.
TEST(DependentLaunch, ProductsReadMemoryThatMayChangeOnOldDevicesToo) {
  ExprArena exprs;
  for (const char* name : {"cuda-sm75", "cuda-sm80", "vulkan-8"}) {
    const Target target = GpuTargetOf(name);
    const bool is_cuda = target.kind == TargetKind::kCuda;
    bool has_tile = false;
    for (const ScheduledKernel& built : BuildAll(target, exprs)) {
      if (built.record.kind != ScheduleKind::kGpuTile) continue;
      has_tile = true;
      const kernel::Kernel& kernel = built.kernels[0];
      EXPECT_EQ(Count(kernel, Opcode::kAwaitDispatches), is_cuda ? 1 : 0) << name;
      if (!is_cuda) continue;
      EXPECT_FALSE(kernel.begins_early);
      const Result<std::string> text = cuda::EmitCudaKernel(kernel, target);
      ASSERT_TRUE(text.ok()) << text.status().ToString();
      EXPECT_NE(text->find("asm volatile(\"\" : \"+l\"(a0), \"+l\"(a1), \"+l\"(a2)"),
                std::string::npos)
          << *text;
      EXPECT_EQ(text->find("griddepcontrol"), std::string::npos) << *text;
    }
    EXPECT_TRUE(has_tile) << name;
  }
}

TEST(DependentLaunch, ImageAndTextSayIt) {
  ExprArena exprs;
  Target target = GpuTargetOf("cuda-sm90");
  const std::vector<ScheduledKernel> all = BuildAll(target, exprs);
  ASSERT_FALSE(all.empty());
  Result<std::string> text = cuda::EmitCudaKernel(all[0].kernels[0], target);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_NE(text->find("griddepcontrol.wait"), std::string::npos) << *text;
  EXPECT_NE(text->find("griddepcontrol.launch_dependents"), std::string::npos) << *text;
  // The text of an older architecture has neither.
  Result<std::string> older = cuda::EmitCudaKernel(all[0].kernels[0], GpuTargetOf("cuda-sm80"));
  ASSERT_TRUE(older.ok()) << older.status().ToString();
  EXPECT_EQ(older->find("griddepcontrol"), std::string::npos);
  target.gpu.features |= static_cast<uint64_t>(GpuFeature::kKernelIr);
  for (const bool has_it : {true, false}) {
    if (!has_it) target.gpu.features &= ~static_cast<uint64_t>(GpuFeature::kDependentLaunch);
    Result<std::vector<uint8_t>> bytes = cuda::EmitCudaImage({{all[0].kernels[0]}}, target);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    Result<GpuImage> image = ReadGpuImage(*bytes);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    EXPECT_EQ(image->kernels[0].flags, has_it ? kGpuEntryWaitsItself : 0);
  }
}

}  // namespace
}  // namespace halyard::schedule
