// SPDX-License-Identifier: Apache-2.0
// Memory-bound ops on GPUs, by counts instead of timings: how many dispatches, how often each
// element crosses global memory, and that all of it goes in 16-byte accesses.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/graph/parser.h"
#include "compiler/kernel/text.h"
#include "compiler/loop/lowering.h"
#include "compiler/passes/loop_fuse.h"
#include "compiler/schedule/schedule.h"

namespace halyard::schedule {
namespace {

struct Traffic {
  int64_t elements = 0;  // of all workitems together
  bool is_whole = true;  // every access is one aligned vector of 16 bytes
};

struct Counts {
  ScheduleRecord record;
  size_t dispatches = 0;
  bool has_loops = false;
  int64_t widened = 0;                           // elements that become f32, of one workitem
  int64_t last_unroll = 0;                       // of the last dispatch's loop
  std::map<std::string, Traffic> loads, stores;  // by buffer
};

class GpuCounts : public ::testing::TestWithParam<std::string> {
 protected:
  // Of the schedule that the model of costs prefers.
  void Count(const std::string& text, Counts* counts) {
    Result<graph::Module> module = graph::ParseModule(text);
    ASSERT_TRUE(module.ok()) << module.status().ToString();
    Result<loop::Function> function = loop::LowerGraph(*module, 0, {});
    ASSERT_TRUE(function.ok()) << function.status().ToString();
    ASSERT_TRUE(loop::FuseKernels(*function, {}, nullptr).ok());
    ASSERT_EQ(function->kernels.size(), 1u);
    Result<Target> target = ParseTarget(GetParam());
    ASSERT_TRUE(target.ok());
    Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(*function, 0, *target);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    Result<ScheduledKernel> built = BuildKernel(*function, 0, records->front(), *target);
    ASSERT_TRUE(built.ok()) << built.status().ToString();
    counts->record = records->front();
    counts->dispatches = built->dispatches.size();
    for (const Dispatch& dispatch : built->dispatches) {
      const kernel::Kernel& kernel = built->kernels[dispatch.kernel];
      int64_t workitems = kernel.workgroup_size[0];
      for (Expr extent : dispatch.grid) workitems *= *function->exprs->AsConst(extent);
      for (const kernel::Op& op : kernel.ops) {
        counts->has_loops |= op.opcode == kernel::Opcode::kFor;
        if (op.opcode == kernel::Opcode::kFor) counts->last_unroll = op.immediates[0];
        if (op.opcode == kernel::Opcode::kConvert && op.type.dtype == DType::kF32 &&
            op.type.lanes > 1) {
          counts->widened += op.type.lanes;
        }
        const bool is_load =
            op.opcode == kernel::Opcode::kLoad || op.opcode == kernel::Opcode::kGather;
        const bool is_store =
            op.opcode == kernel::Opcode::kStore || op.opcode == kernel::Opcode::kScatter;
        if (!is_load && !is_store) continue;
        const kernel::Buffer& buffer = kernel.buffers[op.buffer];
        if (buffer.space != kernel::MemorySpace::kGlobal) continue;
        const int lanes = is_load ? op.type.lanes : kernel.values[op.operands[1]].type.lanes;
        Traffic& traffic = (is_load ? counts->loads : counts->stores)[buffer.name];
        traffic.elements += lanes * workitems;
        traffic.is_whole &= lanes * BitWidth(buffer.dtype) == 128 && op.immediates.size() == 1 &&
                            op.immediates[0] == lanes;
      }
    }
  }
};

constexpr int64_t kRows = 8192, kColumns = 4096;

std::string Softmax(const std::string& dtype) {
  return fmt::format(R"(graph g(%x: {0}[{1}, {2}]) -> ("y" = %y) {{
  %m = reduce_max %x {{axes = [1], keep_dims = 1}} : {0}[{1}, 1]
  %mb = broadcast %m {{shape = [{1}, {2}]}} : {0}[{1}, {2}]
  %d = sub %x, %mb : {0}[{1}, {2}]
  %e = exp %d : {0}[{1}, {2}]
  %s = reduce_sum %e {{axes = [1], keep_dims = 1}} : {0}[{1}, 1]
  %sb = broadcast %s {{shape = [{1}, {2}]}} : {0}[{1}, {2}]
  %y = div %e, %sb : {0}[{1}, {2}]
}}
)",
                     dtype, kRows, kColumns);
}

// Without scale and shift: those are read once per row.
std::string Normalised(const std::string& dtype) {
  return fmt::format(R"(graph g(%x: {0}[{1}, {2}]) -> ("y" = %y) {{
  %k0 = constant {0}[]{{0.000244140625}}
  %k = broadcast %k0 {{shape = [{1}, 1]}} : {0}[{1}, 1]
  %s = reduce_sum %x {{axes = [1], keep_dims = 1}} : {0}[{1}, 1]
  %mean = mul %s, %k : {0}[{1}, 1]
  %mb = broadcast %mean {{shape = [{1}, {2}]}} : {0}[{1}, {2}]
  %d = sub %x, %mb : {0}[{1}, {2}]
  %dd = mul %d, %d : {0}[{1}, {2}]
  %v = reduce_sum %dd {{axes = [1], keep_dims = 1}} : {0}[{1}, 1]
  %var = mul %v, %k : {0}[{1}, 1]
  %r = rsqrt %var : {0}[{1}, 1]
  %rb = broadcast %r {{shape = [{1}, {2}]}} : {0}[{1}, {2}]
  %y = mul %d, %rb : {0}[{1}, {2}]
}}
)",
                     dtype, kRows, kColumns);
}

TEST_P(GpuCounts, RowsAreReadOnceAndWrittenOnce) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const std::string& text : {Softmax(dtype), Normalised(dtype)}) {
      SCOPED_TRACE(text);
      Counts counts;
      Count(text, &counts);
      if (HasFatalFailure()) return;
      EXPECT_EQ(counts.dispatches, 1u);
      EXPECT_TRUE(counts.record.persistent) << FormatSchedule(counts.record);
      EXPECT_FALSE(counts.has_loops);  // so counting ops counts accesses
      ASSERT_EQ(counts.loads.size(), 1u);
      ASSERT_EQ(counts.stores.size(), 1u);
      for (const Traffic& traffic : {counts.loads.begin()->second, counts.stores.begin()->second}) {
        EXPECT_EQ(traffic.elements, kRows * kColumns);
        EXPECT_TRUE(traffic.is_whole);
      }
      // Each element once, when it is loaded: what the row keeps in registers stays f32.
      EXPECT_EQ(counts.widened, dtype == std::string("f32") ? 0 : kColumns / counts.record.team);
    }
  }
}

TEST_P(GpuCounts, ElementsGoInWholeVectors) {
  for (const char* dtype : {"f32", "bf16"}) {
    Counts counts;
    Count(fmt::format("graph g(%x: {0}[{1}, {2}], %b: {0}[{2}]) -> (\"y\" = %y) {{\n"
                      "  %bb = broadcast %b {{shape = [{1}, {2}]}} : {0}[{1}, {2}]\n"
                      "  %y = add %x, %bb : {0}[{1}, {2}]\n}}\n",
                      dtype, kRows, kColumns),
          &counts);
    if (HasFatalFailure()) return;
    EXPECT_EQ(counts.dispatches, 1u);
    ASSERT_EQ(counts.loads.size(), 2u);
    ASSERT_EQ(counts.stores.size(), 1u);
    for (const auto& [name, traffic] : counts.loads) {
      EXPECT_EQ(traffic.elements, kRows * kColumns) << name;
      EXPECT_TRUE(traffic.is_whole) << name;
    }
    EXPECT_EQ(counts.stores.begin()->second.elements, kRows * kColumns);
    EXPECT_TRUE(counts.stores.begin()->second.is_whole);
  }
}

TEST_P(GpuCounts, TransposesGoInWholeVectorsBothWays) {
  Counts counts;
  Count(fmt::format("graph g(%x: f32[{0}, {1}]) -> (\"y\" = %y) {{\n"
                    "  %y = transpose %x {{perm = [1, 0]}} : f32[{1}, {0}]\n}}\n",
                    kRows, kColumns),
        &counts);
  if (HasFatalFailure()) return;
  EXPECT_EQ(counts.record.kind, ScheduleKind::kGpuTranspose);
  EXPECT_EQ(counts.dispatches, 1u);
  for (const Traffic& traffic : {counts.loads.begin()->second, counts.stores.begin()->second}) {
    EXPECT_EQ(traffic.elements, kRows * kColumns);
    EXPECT_TRUE(traffic.is_whole);
  }
}

TEST_P(GpuCounts, LongReductionsTakeTwoDispatches) {
  const std::string shapes[] = {"axes = [0, 1]} : f32[]", "axes = [0]} : f32[64]"};
  for (const std::string& shape : shapes) {
    Counts counts;
    Count(
        "graph g(%x: f32[1048576, 64]) -> (\"y\" = %y) {\n"
        "  %y = reduce_sum %x {" +
            shape + "\n}\n",
        &counts);
    if (HasFatalFailure()) return;
    EXPECT_GT(counts.record.chunk, 0) << FormatSchedule(counts.record);
    EXPECT_EQ(counts.dispatches, 2u);
    // Parts are loaded ahead of their sum, where a workitem has several.
    const bool has_several = counts.record.columns || GetParam() == "cuda-sm90";
    EXPECT_EQ(counts.last_unroll > 1, has_several);
    if (!counts.record.columns) {
      EXPECT_EQ(counts.record.unroll, GetParam().starts_with("vulkan") ? 1 : 4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuCounts, ::testing::Values("cuda-sm90", "vulkan-8", "vulkan-32"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace halyard::schedule
