// SPDX-License-Identifier: Apache-2.0
// Every op example, lowered and fused, with every schedule of every kernel for GPUs: verified, and
// run in the Kernel IR interpreter, which finds races, divergence, accesses out of bounds and reads
// of what was never written; against the reference evaluation of the graph. The SPIR-V of each goes
// through its validator.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/gpu_image.h"
#include "base/hash.h"
#include "compiler/codegen/spirv/emit.h"
#include "compiler/graph/interpreter.h"
#include "compiler/graph/parser.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/text.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/pipeline/expand_math.h"
#include "compiler/schedule/schedule.h"
#include "tests/codegen/schedule/check_schedules.h"
#include "tests/codegen/schedule/run_on_device.h"
#include "tests/codegen/spirv/spirv_val.h"
#include "tests/compiler/ops/op_examples.h"
#include "tests/sanitized.h"

namespace halyard::schedule {
namespace {

using graph::OpExample;
using graph::Tensor;

int64_t ElementBytes(DType dtype) { return std::max(1, BitWidth(dtype) / 8); }

// One loop function with the schedules of its kernels.
class Runner {
 public:
  Runner(const loop::Function& function, const Target& target)
      : function_(function), target_(target) {}

  Status Enumerate() {
    for (uint32_t k = 0; k < function_.kernels.size(); ++k) {
      HY_ASSIGN(std::vector<ScheduleRecord> records, EnumerateSchedules(function_, k, target_));
      AddSplitRecords(&records);
      rounds = std::max(rounds, records.size());
      records_.push_back(std::move(records));
    }
    return OkStatus();
  }

  // Runs all kernels, each with the schedule of that rank or its last.
  Status Run(size_t rank, const OpExample& example, std::vector<Tensor>* outputs) {
    std::vector<std::vector<uint8_t>> buffers;
    std::vector<bool> is_written;
    size_t input = 0;
    for (const loop::Buffer& buffer : function_.buffers) {
      HY_ASSIGN(const int64_t count, Size(buffer.elements));
      buffers.emplace_back(static_cast<size_t>(count * ElementBytes(buffer.dtype)),
                           buffer.dtype == DType::kBool ? 1 : 0xa5);
      is_written.push_back(buffer.role == loop::BufferRole::kInput);
      if (buffer.role == loop::BufferRole::kInput) buffers.back() = example.inputs[input++].bytes;
    }
    for (uint32_t k = 0; k < function_.kernels.size(); ++k) {
      const std::vector<ScheduleRecord>& records = records_[k];
      const ScheduleRecord& record = records[std::min(rank, records.size() - 1)];
      HY_TRY_CONTEXT(RunKernel(k, record, buffers, is_written), "running schedule '{}'",
                     FormatSchedule(record));
    }
    for (size_t b = 0; b < buffers.size(); ++b) {
      const loop::Buffer& buffer = function_.buffers[b];
      if (buffer.role != loop::BufferRole::kOutput) continue;
      const auto count = static_cast<int64_t>(buffers[b].size()) / ElementBytes(buffer.dtype);
      outputs->push_back(Tensor{buffer.dtype, {count}, buffers[b]});
    }
    return OkStatus();
  }

  size_t rounds = 0;
  std::set<ScheduleKind> kinds;

 private:
  Result<int64_t> Size(Expr e) const {
    return function_.exprs->Evaluate(e, [](Expr) { return std::nullopt; });
  }

  // What Vulkan devices get is valid SPIR-V.
  Status CheckModules(const ScheduledKernel& built) {
    // The validator is not ours, and the emitter has tests of its own under sanitizers.
    if (HALYARD_SANITIZED || target_.kind != TargetKind::kVulkan) return OkStatus();
    for (const kernel::Kernel& kernel : built.kernels) {
      kernel::Module module;
      module.kernels.push_back(pipeline::ExpandMathFor(kernel, target_));
      // Ranks beyond the last schedule of a kernel repeat it.
      if (!valid_modules_.insert(HashString(kernel::FormatKernel(module.kernels[0]))).second)
        continue;
      HY_ASSIGN(const std::vector<uint8_t> bytes, spirv::EmitSpirvImage(module, target_));
      HY_ASSIGN(const GpuImage image, ReadGpuImage(bytes));
      for (const GpuKernel& emitted : image.kernels) {
        const std::string problems = testing::ValidateSpirv(emitted.module);
        if (!problems.empty()) return Internal("Module of '{}': {}", emitted.name, problems);
      }
    }
    return OkStatus();
  }

  Status RunKernel(uint32_t k, const ScheduleRecord& record,
                   std::vector<std::vector<uint8_t>>& buffers, std::vector<bool>& is_written) {
    kinds.insert(record.kind);
    HY_ASSIGN(const ScheduleRecord again, ParseSchedule(FormatSchedule(record)));
    if (!(again == record)) return Internal("The text of the record reads as another one.");
    HY_ASSIGN(const ScheduledKernel built, BuildKernel(function_, k, record, target_));
    if (testing::DeviceRunner* const device = DeviceUnderTest()) {
      return RunOnDevice(
          *device, built, [&](Expr e) { return Size(e); }, buffers);
    }
    HY_TRY(CheckModules(built));
    std::vector<std::vector<uint8_t>> workspaces;
    for (const Workspace& workspace : built.workspaces) {
      HY_ASSIGN(const int64_t bytes, Size(workspace.bytes));
      workspaces.emplace_back(static_cast<size_t>(bytes), 0xfe);
    }
    std::vector<bool> workspace_is_written(workspaces.size());
    for (const Dispatch& dispatch : built.dispatches) {
      const kernel::Kernel& kernel = built.kernels[dispatch.kernel];
      HY_TRY_CONTEXT(kernel::VerifyKernel(kernel), "verifying {}", kernel::FormatKernel(kernel));
      std::vector<kernel::BufferArgument> arguments;
      for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
        const auto [kind, index] = dispatch.bindings[i];
        if (kind == Binding::Kind::kConstant)
          return Internal("Examples have no constants to pack.");
        const bool is_buffer = kind == Binding::Kind::kBuffer;
        std::vector<uint8_t>& bytes = is_buffer ? buffers[index] : workspaces[index];
        arguments.push_back(
            {bytes.data(),
             static_cast<int64_t>(bytes.size()) / ElementBytes(kernel.buffers[i].dtype),
             is_buffer ? is_written[index] : workspace_is_written[index]});
      }
      std::vector<int64_t> scalars;
      for (Expr e : dispatch.scalars) {
        HY_ASSIGN(const int64_t value, Size(e));
        scalars.push_back(value);
      }
      int64_t grid[3];
      for (int axis = 0; axis < 3; ++axis) {
        HY_ASSIGN(grid[axis], Size(dispatch.grid[axis]));
        if (grid[axis] > target_.gpu.max_grid[axis]) return Internal("The grid is too large.");
      }
      ErrorRecord error{};
      HY_TRY_CONTEXT(kernel::Interpret(kernel, arguments, scalars, grid, &error,
                                       {.subgroup_size = target_.gpu.subgroup_size}),
                     "interpreting {}", kernel::FormatKernel(kernel));
      if (error.state != 0) return Internal("The kernel reports an error.");
      for (const auto& [kind, index] : dispatch.bindings)
        (kind == Binding::Kind::kBuffer ? is_written : workspace_is_written)[index] = true;
    }
    return OkStatus();
  }

  const loop::Function& function_;
  const Target& target_;
  std::vector<std::vector<ScheduleRecord>> records_;
  std::set<uint64_t> valid_modules_;
};

// Of a Vulkan device: its div and sqrt differ by up to 4.5 units in the last place of f32, after
// which a narrow result may be its neighbour. llvmpipe's exp is 6.4e-7 off.
double LeastTolerance(DType dtype) {
  testing::DeviceRunner* const device = DeviceUnderTest();
  if (device == nullptr || device->target().kind != TargetKind::kVulkan) return 0;
  const bool is_llvmpipe = device->device_name().starts_with("llvmpipe");
  if (is_llvmpipe && dtype == DType::kF32) return 7e-7;
  return dtype == DType::kF32 ? 6e-7 : dtype == DType::kBF16 ? 0x1p-7 : 0x1p-10;
}

const std::string kTargets[] = {"cuda-sm90", "vulkan-8", "vulkan-32"};

class GpuScheduleOps : public ::testing::TestWithParam<std::string> {};

// Where there is a device, for that: its kernels in place of the interpreter.
TEST_P(GpuScheduleOps, EveryScheduleOfEveryExample) {
  Result<Target> target = ParseTarget(GetParam());
  ASSERT_TRUE(target.ok());
  if (testing::DeviceRunner* const device = DeviceUnderTest()) {
    if (GetParam() != kTargets[0]) GTEST_SKIP() << "A device is one target.";
    *target = device->target();
  }
  std::set<ScheduleKind> kinds;
  size_t checked = 0, number = 0;
  for (const OpExample& example : graph::AllOpExamples(5)) {
    ++checked;
    if (!IsInPart(number++)) continue;
    SCOPED_TRACE(example.name);
    Result<graph::Module> module = graph::ParseModule(example.text);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    Result<std::vector<Tensor>> wanted = graph::Interpret(*module, example.inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status().ToString();
    Result<loop::Function> function = loop::LowerGraph(*module, 0, {});
    if (!function.ok()) --checked;
    if (!function.ok()) continue;  // tests/compiler/loop/op_lowering_test.cc says which may
    ASSERT_TRUE(loop::FuseKernels(*function, {}, nullptr).ok());
    Runner runner(*function, *target);
    Status status = runner.Enumerate();
    ASSERT_TRUE(status.ok()) << status.ToString() << loop::PrintFunction(*function);
    for (size_t rank = 0; rank < runner.rounds; ++rank) {
      std::vector<Tensor> got;
      status = runner.Run(rank, example, &got);
      ASSERT_TRUE(status.ok()) << status.ToString() << loop::PrintFunction(*function);
      ASSERT_EQ(got.size(), wanted->size());
      for (size_t i = 0; i < got.size(); ++i) {
        got[i].dims = (*wanted)[i].dims;
        status = graph::CompareTensors((*wanted)[i], got[i], example.absolute,
                                       std::max(example.relative, LeastTolerance(got[i].dtype)));
        ASSERT_TRUE(status.ok()) << "rank " << rank << ": " << status.ToString()
                                 << loop::PrintFunction(*function);
      }
    }
    kinds.insert(runner.kinds.begin(), runner.kinds.end());
  }
  EXPECT_GT(checked, 1500u);
  if (!IsAllParts()) return;
  EXPECT_TRUE(kinds.count(ScheduleKind::kGpuMap) > 0 && kinds.count(ScheduleKind::kGpuTeam) > 0);
}

INSTANTIATE_TEST_SUITE_P(All, GpuScheduleOps, ::testing::ValuesIn(kTargets), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace halyard::schedule
