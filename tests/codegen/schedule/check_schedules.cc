// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/schedule/check_schedules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "compiler/schedule/schedule.h"
#include "tests/codegen/image_runner.h"
#include "tests/codegen/schedule/loop_evaluator.h"
#include "tests/sanitized.h"

namespace halyard::schedule {
namespace {

std::vector<uint8_t> BytesOf(const TestBuffer& buffer, DType dtype) {
  std::vector<uint8_t> bytes;
  auto add = [&](auto v) {
    const auto* p = reinterpret_cast<const uint8_t*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof v);
  };
  for (double v : buffer.f) dtype == DType::kF32 ? add(static_cast<float>(v)) : add(v);
  for (int64_t v : buffer.i) {
    if (dtype == DType::kI64)
      add(v);
    else if (dtype == DType::kI32)
      add(static_cast<int32_t>(v));
    else
      add(static_cast<uint8_t>(v));
  }
  return bytes;
}

TestBuffer FromBytes(const std::vector<uint8_t>& bytes, DType dtype) {
  TestBuffer buffer;
  auto size = static_cast<size_t>(BitWidth(dtype) / 8);
  for (size_t at = 0; at < bytes.size(); at += size) {
    auto get = [&](auto v) {
      std::memcpy(&v, bytes.data() + at, sizeof v);
      return v;
    };
    if (dtype == DType::kF32)
      buffer.f.push_back(get(0.0f));
    else if (dtype == DType::kF64)
      buffer.f.push_back(get(0.0));
    else if (dtype == DType::kI64)
      buffer.i.push_back(get(int64_t{}));
    else if (dtype == DType::kI32)
      buffer.i.push_back(get(int32_t{}));
    else
      buffer.i.push_back(get(uint8_t{}));
  }
  return buffer;
}

// Runs the dispatches on a copy of `start`, poisoned where nothing was given; `native`: as machine
// code.
Status RunScheduled(const loop::Function& function, const ScheduledKernel& built,
                    const Target& target, LoopEvaluator& evaluator,
                    const std::vector<TestBuffer>& start, bool native,
                    std::vector<std::vector<uint8_t>>* bytes) {
  bytes->clear();
  for (size_t b = 0; b < start.size(); ++b)
    bytes->push_back(BytesOf(start[b], function.buffers[b].dtype));
  std::vector<std::vector<uint8_t>> packed, workspaces;
  for (const PackedConstant& constant : built.constants) {
    HY_ASSIGN(std::vector<uint8_t> p, PackConstant(constant.packing, (*bytes)[constant.buffer]));
    if (static_cast<int64_t>(p.size()) != constant.bytes)
      return Internal("A packing has another size.");
    packed.push_back(std::move(p));
  }
  for (const Workspace& workspace : built.workspaces)
    workspaces.emplace_back(static_cast<size_t>(evaluator.Size(workspace.bytes)), 0xfe);
  std::set<uint32_t> filled;  // workspaces that an earlier dispatch wrote
  for (const Dispatch& dispatch : built.dispatches) {
    const kernel::Kernel& kernel = built.kernels[dispatch.kernel];
    std::vector<std::vector<uint8_t>*> data;
    for (const Binding& binding : dispatch.bindings)
      data.push_back(binding.kind == Binding::Kind::kBuffer     ? &(*bytes)[binding.index]
                     : binding.kind == Binding::Kind::kConstant ? &packed[binding.index]
                                                                : &workspaces[binding.index]);
    std::vector<int64_t> scalars;
    for (Expr e : dispatch.scalars) scalars.push_back(evaluator.Size(e));
    int64_t grid[3];
    for (int axis = 0; axis < 3; ++axis) grid[axis] = evaluator.Size(dispatch.grid[axis]);
    ErrorRecord error{};
    if (native) {
      kernel::ExpandMathOptions options;
      options.has_fma = target.vector_bytes >= 32;
      options.has_scale = target.vector_bytes >= 64;
      kernel::Module module;
      module.kernels = {
          kernel::ExpandMath(options.has_fma ? kernel : kernel::SplitFma(kernel), options)};
      HY_ASSIGN(cpu::CpuImage image, cpu::EmitCpuImage(module, target));
      std::vector<halyard::testing::AlignedBytes> memory;
      std::vector<void*> addresses;
      for (std::vector<uint8_t>* from : data) {
        memory.emplace_back(from->size());
        std::copy(from->begin(), from->end(), memory.back().data());
      }
      for (halyard::testing::AlignedBytes& m : memory) addresses.push_back(m.data());
      halyard::testing::ImageRunner(image).Run(kernel.name, addresses, scalars, grid, &error);
      for (size_t i = 0; i < data.size(); ++i)
        std::copy(memory[i].data(), memory[i].data() + data[i]->size(), data[i]->begin());
    } else {
      std::vector<kernel::BufferArgument> arguments;
      for (size_t i = 0; i < data.size(); ++i) {
        kernel::BufferArgument argument;
        argument.data = data[i]->data();
        argument.elements =
            static_cast<int64_t>(data[i]->size()) / (BitWidth(kernel.buffers[i].dtype) / 8);
        argument.initialised = dispatch.bindings[i].kind != Binding::Kind::kWorkspace ||
                               filled.count(dispatch.bindings[i].index) > 0;
        arguments.push_back(argument);
      }
      HY_TRY(kernel::Interpret(kernel, arguments, scalars, grid, &error));
      for (const Binding& binding : dispatch.bindings)
        if (binding.kind == Binding::Kind::kWorkspace) filled.insert(binding.index);
    }
    if (error.state != 0) return Internal("A kernel reports an error.");
  }
  return OkStatus();
}

}  // namespace

void AddSplitRecords(std::vector<ScheduleRecord>* records) {
  for (size_t i = 0, count = records->size(); i < count; ++i) {
    ScheduleRecord record = (*records)[i];
    if (record.kind == ScheduleKind::kContraction && record.kc > 0) {
      for (int64_t parts : {2, 3}) {
        ScheduleRecord blocked = (*records)[i];
        blocked.kc /= parts;
        if ((*records)[i].kc % parts != 0 ||
            blocked.kc % std::max(blocked.unroll, blocked.lanes) != 0 || blocked.kc == 0)
          continue;
        blocked.pack_a |= parts == 3;
        records->push_back(blocked);
      }
    }
    if (record.kind != ScheduleKind::kGpuTeam || record.chunk > 0) continue;
    record.chunk = int64_t{record.team} * record.lanes * 2;
    record.persistent = false;
    if (!record.columns) record.team = record.workgroup;
    records->push_back(record);
  }
}

namespace {

void Compare(const loop::Function& function, const std::vector<TestBuffer>& expected,
             const std::vector<std::vector<uint8_t>>& bytes, double tolerance) {
  for (size_t b = 0; b < expected.size(); ++b) {
    const loop::Buffer& buffer = function.buffers[b];
    if (buffer.role == loop::BufferRole::kLocal) continue;
    TestBuffer got = FromBytes(bytes[b], buffer.dtype);
    for (size_t i = 0; i < got.i.size(); ++i)
      ASSERT_EQ(got.i[i], expected[b].i[i]) << buffer.name << " at " << i;
    for (size_t i = 0; i < got.f.size(); ++i) {
      double want = expected[b].f[i];
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got.f[i])) << buffer.name << " at " << i;
      } else if (got.f[i] != want) {  // equal infinities have no distance
        ASSERT_NEAR(got.f[i], want, tolerance * (1 + std::fabs(want)))
            << buffer.name << " at " << i;
      }
    }
  }
}

}  // namespace

namespace {

void CheckOn(std::span<const char* const> targets, std::string_view text, const Dims& dims,
             double tolerance, int64_t index_limit, std::vector<std::string>* seen, bool compile) {
  std::set<std::string> runnable;
  for (const std::string& name : halyard::testing::RunnableTargets()) runnable.insert(name);
  std::vector<std::vector<TestBuffer>> known;  // after each kernel, whatever the target
  for (const char* name : targets) {
    Result<Target> target = ParseTarget(name);
    ASSERT_TRUE(target.ok()) << target.status().ToString();
    target->worker_count = 3;
    ExprArena exprs;
    Result<loop::Function> parsed = loop::ParseFunction(text, exprs);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    const loop::Function& function = *parsed;
    Status valid = loop::VerifyFunction(function);
    ASSERT_TRUE(valid.ok()) << valid.ToString();
    LoopEvaluator evaluator(function, dims);
    std::mt19937 random(7);
    std::vector<TestBuffer> start(function.buffers.size());
    for (size_t b = 0; b < start.size(); ++b) {
      const loop::Buffer& buffer = function.buffers[b];
      auto count = static_cast<size_t>(evaluator.Size(buffer.elements));
      bool given =
          buffer.role == loop::BufferRole::kInput || buffer.role == loop::BufferRole::kConstant;
      for (size_t i = 0; i < count; ++i) {
        if (IsFloat(buffer.dtype)) {
          auto v = static_cast<float>(std::normal_distribution<double>()(random));
          start[b].f.push_back(given ? v : std::nan(""));
        } else {
          std::uniform_int_distribution<int64_t> any(-index_limit, index_limit - 1);
          int64_t v = buffer.dtype == DType::kBool ? any(random) & 1 : any(random);
          start[b].i.push_back(given ? v : 77);
        }
      }
    }
    for (uint32_t k = 0; k < function.kernels.size(); ++k) {
      if (known.size() == k) {
        known.push_back(start);
        evaluator.Run(k, known.back());
      }
      const std::vector<TestBuffer>& expected = known[k];
      Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(function, k, *target);
      ASSERT_TRUE(records.ok()) << records.status().ToString();
      ASSERT_FALSE(records->empty());
      const size_t enumerated = records->size();
      AddSplitRecords(&*records);
      size_t rank = 0;
      for (const ScheduleRecord& record : *records) {
        std::string record_text = FormatSchedule(record);
        if (seen) seen->push_back(record_text);
        Result<ScheduleRecord> again = ParseSchedule(record_text);
        ASSERT_TRUE(again.ok()) << again.status().ToString();
        ASSERT_EQ(*again, record);
        Result<ScheduledKernel> built = BuildKernel(function, k, record, *target);
        // Of those that were added: blocks need sizes that are known, and whole runs of a window.
        if (!built.ok() && rank >= enumerated &&
            built.status().message().find("block") != std::string::npos)
          continue;
        ASSERT_TRUE(built.ok()) << built.status().ToString();
        for (const kernel::Kernel& made : built->kernels) {
          Status status = kernel::VerifyKernel(made);
          ASSERT_TRUE(status.ok()) << status.ToString() << kernel::FormatKernel(made);
        }
        bool is_tried = rank < 2 || rank >= enumerated;
        ++rank;
        if (seen && rank > enumerated) seen->push_back(record_text + " (added)");
        bool native = is_tried && compile && runnable.count(name) > 0;
        // Under a sanitizer every schedule is built and some are interpreted, as in check_gpu.cc.
        const int first = halyard::IsTurn(6) ? 0 : 1;
        for (int way = first; way < (native ? 2 : 1); ++way) {
          SCOPED_TRACE(fmt::format("{} kernel {} '{}' {}", name, k, record_text,
                                   way == 0 ? "interpreted" : "native"));
          std::vector<std::vector<uint8_t>> bytes;
          Status status =
              RunScheduled(function, *built, *target, evaluator, start, way == 1, &bytes);
          ASSERT_TRUE(status.ok()) << status.ToString();
          Compare(function, expected, bytes, tolerance);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
      start = expected;
    }
  }
}

}  // namespace

void CheckAll(std::string_view text, const Dims& dims, double tolerance, int64_t index_limit,
              std::vector<std::string>* seen, bool compile) {
  const char* const targets[] = {"cpu-sse4.2", "cpu-avx2", "cpu-avx512"};
  CheckOn(targets, text, dims, tolerance, index_limit, seen, compile);
}

void CheckOnGpus(std::string_view text, const Dims& dims, double tolerance, int64_t index_limit,
                 std::vector<std::string>* seen) {
  const char* const targets[] = {"cuda-sm90", "vulkan-8", "vulkan-32"};
  CheckOn(targets, text, dims, tolerance, index_limit, seen, false);
}

}  // namespace halyard::schedule
