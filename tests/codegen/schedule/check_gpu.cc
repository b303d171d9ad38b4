// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/schedule/check_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/float16.h"
#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "tests/codegen/schedule/loop_evaluator.h"
#include "tests/codegen/schedule/run_on_device.h"
#include "tests/library_call_reference.h"
#include "tests/sanitized.h"

namespace halyard::schedule {
namespace {

void Append(std::vector<uint8_t>& bytes, DType dtype, double f, int64_t i) {
  const auto add = [&](auto v) {
    const auto* p = reinterpret_cast<const uint8_t*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof v);
  };
  switch (dtype) {
    case DType::kF32:
      return add(static_cast<float>(f));
    case DType::kF64:
      return add(f);
    case DType::kF16:
      return add(F16FromF32(static_cast<float>(f)));
    case DType::kBF16:
      return add(BF16FromF32(static_cast<float>(f)));
    case DType::kI64:
      return add(i);
    case DType::kI32:
      return add(static_cast<int32_t>(i));
    default:
      return add(static_cast<uint8_t>(i));
  }
}

std::vector<uint8_t> ToBytes(const TestBuffer& buffer, DType dtype) {
  std::vector<uint8_t> bytes;
  for (double v : buffer.f) Append(bytes, dtype, v, 0);
  for (int64_t v : buffer.i) Append(bytes, dtype, 0, v);
  return bytes;
}

double FloatAt(const std::vector<uint8_t>& bytes, DType dtype, size_t index) {
  const auto get = [&](auto v) {
    std::memcpy(&v, bytes.data() + index * sizeof v, sizeof v);
    return v;
  };
  if (dtype == DType::kF64) return get(0.0);
  if (dtype == DType::kF16) return F32FromF16(get(uint16_t{}));
  if (dtype == DType::kBF16) return F32FromBF16(get(uint16_t{}));
  return get(0.0f);
}

int64_t IntAt(const std::vector<uint8_t>& bytes, DType dtype, size_t index) {
  const auto get = [&](auto v) {
    std::memcpy(&v, bytes.data() + index * sizeof v, sizeof v);
    return v;
  };
  if (dtype == DType::kI64) return get(int64_t{});
  if (dtype == DType::kI32) return get(int32_t{});
  if (dtype == DType::kI8) return get(int8_t{});
  return get(uint8_t{});
}

Status Run(const ScheduledKernel& built, LoopEvaluator& evaluator, bool uses_library,
           std::vector<std::vector<uint8_t>>& bytes) {
  std::vector<std::vector<uint8_t>> constants;
  for (const PackedConstant& constant : built.constants) {
    HY_ASSIGN(std::vector<uint8_t> packed, PackConstant(constant.packing, bytes[constant.buffer]));
    if (static_cast<int64_t>(packed.size()) != constant.bytes) {
      return Internal("A packed constant has {} bytes, not {}.", packed.size(), constant.bytes);
    }
    constants.push_back(std::move(packed));
  }
  std::vector<std::vector<uint8_t>> workspaces;
  std::vector<bool> is_written(built.workspaces.size());
  for (size_t w = 0; w < built.workspaces.size(); ++w) {
    const Workspace& workspace = built.workspaces[w];
    workspaces.emplace_back(static_cast<size_t>(evaluator.Size(workspace.bytes)),
                            workspace.is_zero ? 0 : 0xfe);
    is_written[w] = workspace.is_zero;
  }
  for (const Dispatch& dispatch : built.dispatches) {
    const kernel::Kernel& kernel = built.kernels[dispatch.kernel];
    std::vector<kernel::BufferArgument> arguments;
    for (size_t i = 0; i < dispatch.bindings.size(); ++i) {
      const Binding& binding = dispatch.bindings[i];
      const bool is_workspace = binding.kind == Binding::Kind::kWorkspace;
      std::vector<uint8_t>& data = binding.kind == Binding::Kind::kConstant
                                       ? constants[binding.index]
                                   : is_workspace ? workspaces[binding.index]
                                                  : bytes[binding.index];
      kernel::BufferArgument argument;
      argument.data = data.data();
      argument.elements =
          static_cast<int64_t>(data.size()) / (BitWidth(kernel.buffers[i].dtype) / 8);
      argument.initialised = !is_workspace || is_written[binding.index];
      if (is_workspace && kernel.buffers[i].access != kernel::Access::kRead)
        is_written[binding.index] = true;
      arguments.push_back(argument);
    }
    std::vector<int64_t> scalars;
    for (Expr e : dispatch.scalars) scalars.push_back(evaluator.Size(e));
    int64_t grid[3];
    for (int axis = 0; axis < 3; ++axis) grid[axis] = evaluator.Size(dispatch.grid[axis]);
    ErrorRecord error{};
    const auto library = built.library_calls.find(dispatch.kernel);
    if (uses_library && library != built.library_calls.end()) {
      std::vector<uint8_t*> bindings;
      for (const kernel::BufferArgument& argument : arguments) {
        bindings.push_back(static_cast<uint8_t*>(argument.data));
      }
      ApplyLibraryCall(library->second, bindings);
      continue;
    }
    HY_TRY(kernel::Interpret(kernel, arguments, scalars, grid, &error));
    if (error.state != 0) return Internal("A kernel reports an error.");
  }
  return ZerosAgain(built, workspaces);
}

// The first element that differs; empty where none does.
std::string Difference(const loop::Function& function, const std::vector<TestBuffer>& expected,
                       const std::vector<std::vector<uint8_t>>& bytes, double tolerance) {
  for (size_t b = 0; b < expected.size(); ++b) {
    const loop::Buffer& buffer = function.buffers[b];
    // What only the kernel itself reads need not reach memory.
    if (buffer.role == loop::BufferRole::kLocal || buffer.role == loop::BufferRole::kTemp) continue;
    for (size_t i = 0; i < expected[b].i.size(); ++i) {
      const int64_t want = expected[b].i[i], got = IntAt(bytes[b], buffer.dtype, i);
      if (got != want) return fmt::format("{} at {}: {}, not {}", buffer.name, i, got, want);
    }
    for (size_t i = 0; i < expected[b].f.size(); ++i) {
      const double want = expected[b].f[i], got = FloatAt(bytes[b], buffer.dtype, i);
      const bool is_same = std::isnan(want) ? std::isnan(got)
                                            : got == want || std::fabs(got - want) <=
                                                                 tolerance * (1 + std::fabs(want));
      if (!is_same) return fmt::format("{} at {}: {}, not {}", buffer.name, i, got, want);
    }
  }
  return {};
}

// Multiples of 1/16 that fit 16-bit floats exactly.
std::vector<TestBuffer> RandomBuffers(const loop::Function& function, LoopEvaluator& evaluator) {
  std::mt19937 random(7);
  std::vector<TestBuffer> buffers(function.buffers.size());
  for (size_t b = 0; b < function.buffers.size(); ++b) {
    const loop::Buffer& buffer = function.buffers[b];
    const auto count = static_cast<size_t>(evaluator.Size(buffer.elements));
    const bool is_given =
        buffer.role == loop::BufferRole::kInput || buffer.role == loop::BufferRole::kConstant;
    for (size_t i = 0; i < count; ++i) {
      const auto v = std::uniform_int_distribution<int64_t>(-40, 40)(random);
      if (IsFloat(buffer.dtype)) {
        const bool is_narrow = BitWidth(buffer.dtype) < 32;
        const double f = is_narrow ? static_cast<double>(v) / 16
                                   : static_cast<float>(std::normal_distribution<double>()(random));
        buffers[b].f.push_back(is_given ? f : std::nan(""));
      } else {
        buffers[b].i.push_back(!is_given ? 77 : buffer.dtype == DType::kBool ? v & 1 : v / 8);
      }
    }
  }
  return buffers;
}

}  // namespace

Target GpuTargetOf(std::string_view name) {
  constexpr std::string_view interpreted = "-interpreted";
  if (name.ends_with(interpreted)) {
    name.remove_suffix(interpreted.size());
    Target target = GpuTargetOf(name);
    target.gpu.features |= static_cast<uint64_t>(GpuFeature::kKernelIr);
    return target;
  }
  constexpr std::string_view suffix = "-matrix";
  const bool has_matrix = name.ends_with(suffix);
  if (has_matrix) name.remove_suffix(suffix.size());
  Result<Target> target = ParseTarget(name);
  EXPECT_TRUE(target.ok()) << target.status().ToString();
  if (has_matrix) {
    target->gpu.features |=
        static_cast<uint64_t>(GpuFeature::kMatrix) | static_cast<uint64_t>(GpuFeature::kBFloat16);
    target->gpu.matrix_shapes = {{DType::kF16, DType::kF32, 16, 16, 16},
                                 {DType::kBF16, DType::kF32, 16, 16, 16},
                                 {DType::kI8, DType::kI32, 16, 16, 32}};
    target->gpu.workgroup_memory_bytes = 48 << 10;
  }
  return *target;
}

int64_t WorkgroupBytes(const kernel::Kernel& kernel) {
  int64_t bytes = 0;
  for (const kernel::Buffer& buffer : kernel.buffers) {
    if (buffer.space != kernel::MemorySpace::kWorkgroup) continue;
    bytes += (buffer.elements * BitWidth(buffer.dtype) / 8 + 15) / 16 * 16;
  }
  return bytes;
}

std::vector<GpuSeen> CheckGpu(std::string_view text, const Dims& dims, const GpuCheck& check) {
  std::vector<GpuSeen> seen;
  std::vector<std::vector<TestBuffer>> known;  // after each kernel, whatever the target
  testing::DeviceRunner* const device = DeviceUnderTest();
  const auto run = [&](const std::string& name) {
    const Target target = device != nullptr ? device->target() : GpuTargetOf(name);
    ExprArena exprs;
    Result<loop::Function> parsed = loop::ParseFunction(text, exprs);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    const loop::Function& function = *parsed;
    const Status valid = loop::VerifyFunction(function);
    ASSERT_TRUE(valid.ok()) << valid.ToString();
    LoopEvaluator evaluator(function, dims);
    std::vector<TestBuffer> start = RandomBuffers(function, evaluator);
    for (uint32_t k = 0; k < function.kernels.size(); ++k) {
      if (known.size() == k) {
        known.push_back(start);
        evaluator.Run(k, known.back());
      }
      const std::vector<TestBuffer>& expected = known[k];
      Result<std::vector<ScheduleRecord>> records = EnumerateSchedules(function, k, target);
      ASSERT_TRUE(records.ok()) << records.status().ToString();
      if (!check.records.empty()) records->clear();
      for (const std::string& record : check.records) {
        Result<ScheduleRecord> given = ParseSchedule(record);
        ASSERT_TRUE(given.ok()) << given.status().ToString();
        records->push_back(*given);
      }
      for (const ScheduleRecord& record : *records) {
        const std::string record_text = FormatSchedule(record);
        const auto starts = [&](const std::string& kind) { return record_text.starts_with(kind); };
        if (!check.kinds.empty() && std::none_of(check.kinds.begin(), check.kinds.end(), starts))
          continue;
        SCOPED_TRACE(fmt::format("{} kernel {} '{}'", name, k, record_text));
        Result<ScheduleRecord> again = ParseSchedule(record_text);
        ASSERT_TRUE(again.ok()) << again.status().ToString();
        ASSERT_EQ(*again, record);
        Result<ScheduledKernel> built = BuildKernel(function, k, record, target);
        if (!built.ok() && device != nullptr && !check.records.empty()) continue;
        ASSERT_TRUE(built.ok()) << built.status().ToString();
        for (const kernel::Kernel& made : built->kernels) {
          const Status status = kernel::VerifyKernel(made);
          ASSERT_TRUE(status.ok()) << status.ToString() << kernel::FormatKernel(made);
          EXPECT_LE(WorkgroupBytes(made), target.gpu.workgroup_memory_bytes);
          EXPECT_LE(made.workgroup_size[0], target.gpu.max_workgroup_size);
        }
        // Under a sanitizer every schedule is built; what kernels compute is checked without it.
        if (!check.breaks && !IsTurn(24)) {
          seen.push_back({name, record, std::move(*built)});
          continue;
        }
        std::vector<std::vector<uint8_t>> bytes;
        for (size_t b = 0; b < start.size(); ++b)
          bytes.push_back(ToBytes(start[b], function.buffers[b].dtype));
        const auto size = [&](Expr e) -> Result<int64_t> { return evaluator.Size(e); };
        if (check.breaks) {
          for (kernel::Kernel& made : built->kernels) check.breaks(made);
        }
        const Status status = device != nullptr ? RunOnDevice(*device, *built, size, bytes)
                                                : Run(*built, evaluator, check.uses_library, bytes);
        const std::string difference = Difference(function, expected, bytes, check.tolerance);
        if (check.breaks) {
          ASSERT_TRUE(!status.ok() || !difference.empty());
          continue;
        }
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_EQ(difference, "");
        seen.push_back({name, record, std::move(*built)});
      }
      start = expected;
    }
  };
  for (const std::string& name : check.targets) {
    run(name);
    if (::testing::Test::HasFatalFailure() || device != nullptr) break;
  }
  return seen;
}

}  // namespace halyard::schedule
