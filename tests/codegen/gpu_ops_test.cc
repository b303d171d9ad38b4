// SPDX-License-Identifier: Apache-2.0
// Every opcode, dtype and number of lanes on each kind of GPU that is there: generated code against
// the interpreter on random and special inputs, with poisoned outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/gpu_kernel_abi.h"
#include "compiler/kernel/expand_math.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/lane_math.h"
#include "compiler/kernel/opcode.h"
#include "compiler/kernel/text.h"
#include "hal/kernel_error.h"
#include "tests/codegen/device_runner.h"
#include "tests/codegen/gpu_cases.h"
#include "tests/codegen/op_cases.h"

namespace halyard::testing {
namespace {

using kernel::Opcode;

constexpr const char* kDevices[] = {"vulkan:0", "cuda:0"};

// Null where there is no such device.
DeviceRunner* Device(const std::string& path) {
  static std::map<std::string, std::unique_ptr<DeviceRunner>> runners;
  const auto [at, is_new] = runners.try_emplace(path);
  if (is_new) {
    Result<std::unique_ptr<DeviceRunner>> runner = DeviceRunner::Open(path);
    if (runner.ok()) at->second = std::move(*runner);
  }
  return at->second.get();
}

struct GpuBuffers {
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<kernel::BufferArgument> arguments;
};

// Devices that may take subnormal f32 for zero get none.
void FlushSubnormals(DType dtype, int64_t count, uint8_t* data) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) return;
  const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
  for (int64_t i = 0; i < count; ++i, data += size) {
    const uint16_t high = static_cast<uint16_t>(data[size - 2] | data[size - 1] << 8);
    if ((high & 0x7f80) != 0) continue;
    std::memset(data, 0, size);
    data[size - 1] = static_cast<uint8_t>(high >> 8 & 0x80);
  }
}

GpuBuffers MakeBuffers(const OpCase& c, int64_t elements, uint64_t seed, bool has_subnormals) {
  GpuBuffers buffers;
  std::mt19937_64 random(seed);
  for (const kernel::Buffer& b : c.kernel.buffers) {
    if (b.space != kernel::MemorySpace::kGlobal) continue;
    buffers.bytes.emplace_back(static_cast<size_t>(elements * BitWidth(b.dtype) / 8), 0xa5);
    uint8_t* data = buffers.bytes.back().data();
    if (b.access == kernel::Access::kRead) {
      FillRandom(b.dtype, c.small_indices, elements, &random, data);
      if (!has_subnormals) FlushSubnormals(b.dtype, elements, data);
    }
    if (b.name == "counters") {  // of last_arrival, which begins with zeros
      std::memset(data, 0, buffers.bytes.back().size());
    }
    if (b.access != kernel::Access::kRead && b.dtype == DType::kBool) {
      std::memset(data, 1, buffers.bytes.back().size());
    }
  }
  for (std::vector<uint8_t>& bytes : buffers.bytes) {
    buffers.arguments.push_back({bytes.data(), elements, true});
  }
  return buffers;
}

// What may differ from the interpreter in an op's floats, in units of the last place: what the
// device promises where its emitter's header names less than exactness.
double UlpsAllowed(const DeviceRunner& device, Opcode opcode) {
  if (device.target().kind != TargetKind::kVulkan) return 0;
  if (device.device_name().starts_with("llvmpipe")) return 0;
  if (opcode == Opcode::kDiv) return 2.5;
  return opcode == Opcode::kSqrt ? 4.5 : 0;
}

// Which zero min and max give is the target's choice.
bool HasAnyZero(Opcode opcode) {
  return opcode == Opcode::kMin || opcode == Opcode::kMax || opcode == Opcode::kReduceMin ||
         opcode == Opcode::kReduceMax;
}

bool IsClose(DType dtype, const void* want, const void* got, double ulps, bool any_zero) {
  if (SameElement(dtype, want, got)) return true;
  if (any_zero && IsFloat(dtype)) {
    uint64_t w = 0, g = 0;
    std::memcpy(&w, want, static_cast<size_t>(BitWidth(dtype)) / 8);
    std::memcpy(&g, got, static_cast<size_t>(BitWidth(dtype)) / 8);
    if (kernel::LaneToDouble(dtype, w) == 0 && kernel::LaneToDouble(dtype, g) == 0) return true;
  }
  if (ulps == 0 || dtype != DType::kF32) return false;
  float w = 0, g = 0;
  std::memcpy(&w, want, 4);
  std::memcpy(&g, got, 4);
  // Beyond 2^-126 to 2^126 nothing is promised.
  if (!(std::abs(w) > 0x1p-126f && std::abs(w) < 0x1p+126f)) return true;
  const float next = std::nextafterf(std::abs(w), 0);
  return std::abs(double{w} - double{g}) <= ulps * (std::abs(double{w}) - double{next}) * 2;
}

// Where the loaded kernel differs from what the interpreter makes of `oracle`, one sentence per
// buffer.
std::vector<std::string> Mismatches(DeviceRunner& device, uint32_t index, const OpCase& c,
                                    const kernel::Kernel& oracle, const int64_t (&grid)[3],
                                    int64_t elements = kCaseElements + kCaseSlack, double ulps = 0,
                                    bool any_zero = false) {
  const int64_t scalar_values[] = {1, -7};
  const std::span<const int64_t> scalars(scalar_values, c.kernel.scalars.size());
  const bool has_subnormals =
      device.target().kind != TargetKind::kVulkan ||
      (device.target().gpu.features & static_cast<uint64_t>(GpuFeature::kDenormPreserve)) != 0 ||
      device.device_name().starts_with("llvmpipe");
  GpuBuffers expected = MakeBuffers(c, elements, 17, has_subnormals);
  GpuBuffers actual = MakeBuffers(c, elements, 17, has_subnormals);
  ErrorRecord error{};
  kernel::InterpreterOptions options;
  options.subgroup_size = device.target().gpu.subgroup_size;
  const Status status =
      kernel::Interpret(oracle, expected.arguments, scalars, grid, &error, options);
  if (!status.ok()) return {status.ToString() + kernel::FormatKernel(oracle)};
  const std::vector<std::span<uint8_t>> spans(actual.bytes.begin(), actual.bytes.end());
  const Status ran = device.Run(index, spans, scalars, grid);
  const Status wanted = hal::StatusFromErrorRecord(error, "", device.entry(index));
  if (ran.code() != wanted.code() || ran.message() != wanted.message()) {
    return {fmt::format("{} ends with '{}', not '{}'", c.kernel.name, ran.ToString(),
                        wanted.ToString())};
  }
  if (!ran.ok()) return {};  // the buffers are undefined
  std::vector<std::string> mismatches;
  for (size_t i = 0; i < expected.bytes.size(); ++i) {
    const DType dtype = c.kernel.buffers[i].dtype;
    const size_t size = static_cast<size_t>(BitWidth(dtype)) / 8;
    for (size_t e = 0; e < expected.bytes[i].size() / size; ++e) {
      const uint8_t* want = expected.bytes[i].data() + e * size;
      const uint8_t* have = actual.bytes[i].data() + e * size;
      if (IsClose(dtype, want, have, ulps, any_zero)) continue;
      uint64_t w = 0, h = 0;
      std::memcpy(&w, want, size);
      std::memcpy(&h, have, size);
      mismatches.push_back(fmt::format("{} buffer {}[{}]: expected {:#x}, got {:#x}", c.kernel.name,
                                       c.kernel.buffers[i].name, e, w, h));
      break;
    }
  }
  return mismatches;
}

// One scalar case and one of several memory accesses; between them the emitters do nothing new.
bool IsTried(const OpCase& c) {
  int lanes = 1;
  for (const kernel::Value& value : c.kernel.values) {
    lanes = std::max<int>(lanes, value.type.lanes);
  }
  return lanes == 1 || lanes == 8;
}

// llvmpipe folds x + 0, 0 - x, 0 * x and 0 / x with a constant zero, whatever the execution modes
// ask for (lp_build_add and its siblings in Mesa's gallivm).
bool IsKnownDefect(const DeviceRunner& device, const OpCase& c, Opcode opcode) {
  const bool folds = opcode == Opcode::kAdd || opcode == Opcode::kSub || opcode == Opcode::kMul ||
                     opcode == Opcode::kDiv;
  return folds && IsFloat(c.kernel.buffers[0].dtype) && c.kernel.name.ends_with("_c1") &&
         device.device_name().starts_with("llvmpipe");
}

std::string NameOf(const std::string& device, std::string_view what) {
  return device.substr(0, device.find(':')) + "_" + std::string(what);
}

class GpuOps : public ::testing::TestWithParam<std::tuple<const char*, Opcode>> {};

TEST_P(GpuOps, MatchInterpreter) {
  const auto [path, opcode] = GetParam();
  DeviceRunner* device = Device(path);
  if (!device) GTEST_SKIP() << "There is no " << path << ".";
  std::vector<OpCase> cases;
  kernel::Module module;
  for (OpCase& c : CasesFor(opcode, true)) {
    if (!IsTried(c) || IsKnownDefect(*device, c, opcode)) continue;
    module.kernels.push_back(c.kernel);
    cases.push_back(std::move(c));
  }
  const Status loaded = device->Load(module);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  const bool ids = opcode == Opcode::kWorkgroupId;
  const int64_t grid[3] = {ids ? 2 : 1, ids ? 3 : 1, ids ? 2 : 1};
  const bool fuses = (device->target().gpu.features & static_cast<uint64_t>(GpuFeature::kFma)) != 0;
  int failures = 0;
  for (uint32_t n = 0; n < cases.size() && failures < 12; ++n) {
    const kernel::Kernel oracle =
        opcode == Opcode::kFma && !fuses ? kernel::SplitFma(cases[n].kernel) : cases[n].kernel;
    for (const std::string& mismatch :
         Mismatches(*device, n, cases[n], oracle, grid, kCaseElements + kCaseSlack,
                    UlpsAllowed(*device, opcode), HasAnyZero(opcode))) {
      ADD_FAILURE() << mismatch;
      ++failures;
    }
  }
}

class GpuFamilies : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

// What only GPUs have, on the device's own subgroup size and matrix shapes.
TEST_P(GpuFamilies, MatchInterpreter) {
  const auto& [path, family] = GetParam();
  DeviceRunner* device = Device(path);
  if (!device) GTEST_SKIP() << "There is no " << path << ".";
  const std::vector<GpuCase> cases = GpuCasesFor(family, device->target().gpu);
  if (cases.empty()) GTEST_SKIP() << device->device_name() << " has no " << family << ".";
  kernel::Module module;
  for (const GpuCase& c : cases) module.kernels.push_back(c.c.kernel);
  const Status loaded = device->Load(module);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  int failures = 0;
  for (uint32_t n = 0; n < cases.size() && failures < 12; ++n) {
    const GpuCase& c = cases[n];
    for (const std::string& mismatch :
         Mismatches(*device, n, c.c, c.c.kernel, c.grid, c.elements)) {
      ADD_FAILURE() << mismatch;
      ++failures;
    }
  }
}

class GpuPerturbation : public ::testing::TestWithParam<const char*> {};

// The comparison sees a wrong result, in every dtype.
TEST_P(GpuPerturbation, IsSeen) {
  DeviceRunner* device = Device(GetParam());
  if (!device) GTEST_SKIP() << "There is no " << GetParam() << ".";
  kernel::Module module;
  std::vector<OpCase> cases;
  for (OpCase& c : CasesFor(Opcode::kSub, true)) {
    if (!IsTried(c) || cases.size() > 60) continue;
    kernel::Kernel wrong = c.kernel;
    for (kernel::Op& op : wrong.ops) {
      if (op.opcode == Opcode::kSub) op.opcode = Opcode::kMax;
    }
    module.kernels.push_back(std::move(wrong));
    cases.push_back(std::move(c));
  }
  const Status loaded = device->Load(module);
  ASSERT_TRUE(loaded.ok()) << loaded.ToString();
  for (uint32_t n = 0; n < cases.size(); n += 5) {
    EXPECT_EQ(Mismatches(*device, n, cases[n], cases[n].kernel, {1, 1, 1}).size(), 1u)
        << cases[n].kernel.name;
  }
}

std::vector<Opcode> GpuOpsToTest() {
  std::vector<Opcode> ops;
  for (int i = 0; i < kernel::kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const kernel::OpcodeInfo& info = kernel::InfoOf(opcode);
    if (info.transcendental || info.op_class == kernel::OpClass::kCpu) continue;
    if (opcode == Opcode::kSubgroupSize) continue;  // of a CPU kernel it is 1
    if (!CasesFor(opcode, true).empty()) ops.push_back(opcode);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, GpuOps,
                         ::testing::Combine(::testing::ValuesIn(kDevices),
                                            ::testing::ValuesIn(GpuOpsToTest())),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param),
                                         kernel::FormatOpcode(std::get<1>(info.param)));
                         });
INSTANTIATE_TEST_SUITE_P(All, GpuFamilies,
                         ::testing::Combine(::testing::ValuesIn(kDevices),
                                            ::testing::ValuesIn(GpuCaseFamilies())),
                         [](const auto& info) {
                           return NameOf(std::get<0>(info.param), std::get<1>(info.param));
                         });
INSTANTIATE_TEST_SUITE_P(All, GpuPerturbation, ::testing::ValuesIn(kDevices),
                         [](const auto& info) { return NameOf(info.param, "sub"); });

}  // namespace
}  // namespace halyard::testing
