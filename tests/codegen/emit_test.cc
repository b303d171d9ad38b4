// SPDX-License-Identifier: Apache-2.0
// What emission promises beside the meaning of ops: errors instead of exits, the same bytes from
// several threads, large kernels, and a GEMM loop without spills.
#include "compiler/codegen/cpu/emit.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <thread>

#include "compiler/kernel/builder.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"
#include "tests/codegen/image_runner.h"
#include "tests/sanitized.h"

#if HALYARD_SANITIZED && __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#define HALYARD_HAS_LSAN 1
#else
#define HALYARD_HAS_LSAN 0
#endif

namespace halyard::testing {
namespace {

using kernel::Access;
using kernel::BufferId;
using kernel::Builder;
using kernel::Opcode;
using kernel::ValueId;

Target MakeTarget(const char* name) {
  Result<Target> target = ParseTarget(name);
  HY_CHECK(target.ok());
  return *target;
}

kernel::Module ModuleOf(kernel::Kernel k) {
  kernel::Module module;
  module.kernels.push_back(std::move(k));
  return module;
}

kernel::Kernel MakeScale(const std::string& name, double factor) {
  Builder b(name);
  const BufferId x = b.Parameter("x", DType::kF32, Access::kRead);
  const BufferId y = b.Parameter("y", DType::kF32, Access::kWrite);
  const ValueId n = b.Scalar("n");
  b.For(b.Index(0), n, b.Index(8), [&](ValueId i) {
    const ValueId mask = b.TailMask(b.Sub(n, i), 8);
    b.Store(y, i, b.Mul(b.Load(x, i, 8, mask), b.F32(factor, 8)), mask);
  });
  return std::move(b).Finish();
}

// A random expression of `ops` ops in nested loops with carried values and ifs.
kernel::Kernel MakeLarge(int ops, uint64_t seed) {
  Builder b(fmt::format("large_{}", seed));
  const BufferId in = b.Parameter("in", DType::kF32, Access::kRead);
  const BufferId out = b.Parameter("out", DType::kF32, Access::kWrite);
  std::mt19937_64 random(seed);
  const ValueId zero = b.Index(0);
  const ValueId one = b.Index(1);
  const auto pick = [&](const std::vector<ValueId>& pool) { return pool[random() % pool.size()]; };
  const std::vector<ValueId> inits = {b.F32(0, 8), b.F32(1, 8)};
  const auto outer =
      b.For(zero, b.Index(5), one, inits, [&](ValueId i, std::span<const ValueId> c) {
        const auto inner =
            b.For(zero, b.Add(i, one), one, c, [&](ValueId j, std::span<const ValueId> d) {
              std::vector<ValueId> pool = {d[0], d[1], b.Load(in, b.Add(i, j), 8)};
              for (int k = 0; k < ops; ++k) {
                const ValueId x = pick(pool);
                const ValueId y = pick(pool);
                switch (random() % 6) {
                  case 0:
                    pool.push_back(b.Add(x, y));
                    break;
                  case 1:
                    pool.push_back(b.Sub(x, b.Mul(y, b.F32(0.5))));
                    break;
                  case 2:
                    pool.push_back(b.Max(x, y));
                    break;
                  case 3:
                    pool.push_back(b.Select(b.Lt(x, y), x, b.Neg(y)));
                    break;
                  case 4:
                    pool.push_back(b.Fma(b.F32(0.25, 8), x, y));
                    break;
                  default:
                    pool.push_back(b.If(
                        b.Gt(b.Extract(x, 0), b.F32(0)),
                        [&] { return std::vector<ValueId>{b.Add(x, y)}; },
                        [&] { return std::vector<ValueId>{b.Min(x, y)}; })[0]);
                }
              }
              return std::vector<ValueId>{pool[pool.size() - 1], pool[pool.size() - 2]};
            });
        return std::vector<ValueId>{inner[1], inner[0]};
      });
  b.Store(out, b.Index(0), outer[0]);
  b.Store(out, b.Index(8), outer[1]);
  return std::move(b).Finish();
}

TEST(Emit, LargeNestedKernelMatchesInterpreter) {
  const kernel::Module module = ModuleOf(MakeLarge(1000, 3));
  ASSERT_TRUE(kernel::VerifyModule(module).ok()) << kernel::VerifyModule(module).ToString();
  for (const std::string& name : RunnableTargets()) {
    Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, MakeTarget(name.c_str()));
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    AlignedBytes in(32 * 4), got(32 * 4), want(32 * 4);
    for (int i = 0; i < 32; ++i)
      reinterpret_cast<float*>(in.data())[i] = static_cast<float>(i) * 0.37f - 4;
    void* const pointers[] = {in.data(), got.data()};
    const int64_t grid[3] = {1, 1, 1};
    ErrorRecord error{};
    ImageRunner(*image).Run(module.kernels[0].name, pointers, {}, grid, &error);
    const kernel::BufferArgument arguments[] = {{in.data(), 32}, {want.data(), 32, false}};
    const Status status = kernel::Interpret(module.kernels[0], arguments, {}, grid, &error);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (int i = 0; i < 32; ++i) {
      const float g = reinterpret_cast<float*>(got.data())[i];
      const float w = reinterpret_cast<float*>(want.data())[i];
      EXPECT_TRUE(std::memcmp(&g, &w, 4) == 0 || (g != g && w != w))
          << name << " " << i << ": " << g << " " << w;
    }
  }
}

TEST(Emit, SameBytesFromSeveralThreads) {
  const Target target = MakeTarget("cpu-avx512");
  std::vector<kernel::Module> modules;
  for (uint64_t i = 0; i < 6; ++i) modules.push_back(ModuleOf(MakeLarge(60, i)));
  std::vector<std::vector<uint8_t>> serial;
  for (const kernel::Module& module : modules) {
    Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, target);
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    serial.push_back(std::move(image->bytes));
  }
  std::vector<std::vector<uint8_t>> parallel[2];
  std::vector<std::thread> threads;
  for (auto& results : parallel) {
    threads.emplace_back([&modules, &target, &results] {
      for (const kernel::Module& module : modules) {
        Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, target);
        results.push_back(image.ok() ? std::move(image->bytes) : std::vector<uint8_t>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(parallel[0] == serial);
  EXPECT_TRUE(parallel[1] == serial);
}

TEST(Emit, HeaderNamesFeaturesAndEntries) {
  const Target target = MakeTarget("cpu-avx2");
  kernel::Module module = ModuleOf(MakeScale("first", 2));
  module.kernels.push_back(MakeScale("exp", 3));  // also a library function's name
  Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, target);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  CpuImageHeader header;
  std::memcpy(&header, image->bytes.data(), sizeof(header));
  EXPECT_EQ(header.magic, kCpuImageMagic);
  EXPECT_EQ(header.image_bytes, image->bytes.size());
  EXPECT_EQ(header.features, target.cpu_features);
  ASSERT_EQ(header.entry_count, 2u);
  CpuImageEntry entry;
  std::memcpy(&entry, image->bytes.data() + sizeof(header) + sizeof(entry), sizeof(entry));
  EXPECT_EQ(std::string(reinterpret_cast<char*>(image->bytes.data()) + entry.name_offset,
                        entry.name_bytes),
            "exp");
  EXPECT_EQ(entry.binding_count, 2u);
  EXPECT_EQ(entry.scalar_count, 1u);
  EXPECT_GE(entry.code_offset, 4096u);
}

TEST(Emit, FatalErrorInsideLlvmIsAStatus) {
  // A 32-bit CPU name on a 64-bit target ends LLVM with a fatal error.
  const kernel::Module module = ModuleOf(MakeScale("k", 2));
  const Target target = MakeTarget("cpu-avx2");
  for (int i = 0; i < 2; ++i) {
#if HALYARD_HAS_LSAN
    // What LLVM was building when it gave up hangs on its abandoned stack frames; nothing can free
    // it.
    const __lsan::ScopedDisabler no_leak_check;
#endif
    Result<cpu::CpuImage> image = cpu::internal::EmitWithLlvmCpu(module, target, "i386");
    ASSERT_FALSE(image.ok());
    EXPECT_EQ(image.status().code(), StatusCode::kInternal);
    EXPECT_NE(image.status().message().find("LLVM gave up"), std::string::npos)
        << image.status().ToString();
  }
  EXPECT_TRUE(cpu::EmitCpuImage(module, target).ok());  // and the process goes on
}

TEST(Emit, RefusesWhatItDoesNotHave) {
  Builder b("k");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kReadWrite);
  const ValueId at = b.Index(0);
  b.Store(x, at, b.Unary(Opcode::kExp, b.Load(x, at)));
  Result<cpu::CpuImage> image =
      cpu::EmitCpuImage(ModuleOf(std::move(b).Finish()), MakeTarget("cpu-avx2"));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(image.status().message().find("expand-math must run"), std::string::npos);

  Target target = MakeTarget("cpu-avx2");
  target.cpu_name = "nonsense";
  EXPECT_EQ(cpu::EmitCpuImage(ModuleOf(MakeScale("k", 2)), target).status().code(),
            StatusCode::kInvalidArgument);
  target = MakeTarget("cpu-avx2");
  target.triple = "aarch64-unknown-linux-gnu";
  EXPECT_EQ(cpu::EmitCpuImage(ModuleOf(MakeScale("k", 2)), target).status().code(),
            StatusCode::kInvalidArgument);
  target = MakeTarget("cpu-avx2");
  target.kind = TargetKind::kCuda;
  EXPECT_EQ(cpu::EmitCpuImage(ModuleOf(MakeScale("k", 2)), target).status().code(),
            StatusCode::kInvalidArgument);
}

// Reverses blocks of 64 through private memory and adds what a workgroup allocation and an aliasing
// buffer hold.
TEST(Emit, PrivateAndWorkgroupMemory) {
  Builder b("spaces");
  const BufferId x = b.Parameter("x", DType::kF32, Access::kReadWrite, false);
  const BufferId same = b.Parameter("same", DType::kF32, Access::kReadWrite, false);
  const BufferId slots = b.Allocate("slots", DType::kF32, 64);
  const BufferId flags = b.Allocate("flags", DType::kBool, 3, kernel::MemorySpace::kWorkgroup);
  const BufferId shared = b.Allocate("shared", DType::kF32, 64, kernel::MemorySpace::kWorkgroup);
  const ValueId zero = b.Index(0);
  const ValueId one = b.Index(1);
  const ValueId base = b.Mul(b.WorkgroupId(0), b.Index(64));
  b.Store(flags, one, b.ConstInt(DType::kBool, 1));
  b.For(zero, b.Index(64), b.Index(8), [&](ValueId i) {
    const ValueId v = b.Load(x, b.Add(base, i), 8);
    b.Store(slots, i, v);
    b.Store(shared, i, b.Mul(v, b.F32(3)));
  });
  b.For(zero, b.Index(64), one, [&](ValueId i) {
    const ValueId back = b.Load(slots, b.Sub(b.Index(63), i));
    const ValueId sum = b.Add(back, b.Load(shared, i));
    const ValueId at = b.Add(base, i);
    b.Store(x, at, b.Select(b.Load(flags, one), sum, back));
    b.Store(same, at, b.Add(b.Load(same, at), b.F32(1)));  // sees the store above
  });
  const kernel::Module module = ModuleOf(std::move(b).Finish());
  ASSERT_TRUE(kernel::VerifyModule(module).ok()) << kernel::VerifyModule(module).ToString();
  EXPECT_EQ(cpu::WorkgroupMemoryBytes(module.kernels[0]), 64 + 256);
  for (const std::string& name : RunnableTargets()) {
    Result<cpu::CpuImage> image = cpu::EmitCpuImage(module, MakeTarget(name.c_str()));
    ASSERT_TRUE(image.ok()) << image.status().ToString();
    AlignedBytes got(128 * 4);
    for (int i = 0; i < 128; ++i) reinterpret_cast<float*>(got.data())[i] = static_cast<float>(i);
    AlignedBytes want(got);
    void* const pointers[] = {got.data(), got.data()};
    const kernel::BufferArgument arguments[] = {{want.data(), 128}, {want.data(), 128}};
    const int64_t grid[3] = {2, 1, 1};
    ErrorRecord error{};
    ImageRunner(*image).Run("spaces", pointers, {}, grid, &error);
    const Status status = kernel::Interpret(module.kernels[0], arguments, {}, grid, &error);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(reinterpret_cast<float*>(want.data())[0], 64);  // 63 + 3 * 0 + 1
    EXPECT_EQ(std::memcmp(want.data(), got.data(), got.size()), 0) << name;
  }
}

// C[mr x nr] += A[mr x K] * B[K x nr], B packed; the accumulators live in registers.
kernel::Kernel MakeGemm(int mr, int vectors, int lanes, int64_t depth, int unroll) {
  Builder b("gemm");
  const BufferId a = b.Parameter("a", DType::kF32, Access::kRead);
  const BufferId packed = b.Parameter("b", DType::kF32, Access::kRead);
  const BufferId c = b.Parameter("c", DType::kF32, Access::kWrite);
  const int64_t nr = vectors * lanes;
  const std::vector<ValueId> inits(static_cast<size_t>(mr * vectors), b.F32(0, lanes));
  const ValueId zero = b.Index(0);
  const auto sums = b.For(
      zero, b.Index(depth), b.Index(1), inits,
      [&](ValueId k, std::span<const ValueId> acc) {
        std::vector<ValueId> columns;
        for (int j = 0; j < vectors; ++j) {
          columns.push_back(
              b.Load(packed, b.Add(b.Mul(k, b.Index(nr)), b.Index(j * lanes)), lanes));
        }
        std::vector<ValueId> next;
        for (int i = 0; i < mr; ++i) {
          const ValueId row = b.BroadcastLoad(a, b.Add(k, b.Index(i * depth)), lanes);
          for (int j = 0; j < vectors; ++j) {
            const size_t at = static_cast<size_t>(i * vectors + j);
            next.push_back(b.Fma(row, columns[static_cast<size_t>(j)], acc[at]));
          }
        }
        return next;
      },
      unroll);
  for (int i = 0; i < mr; ++i) {
    for (int j = 0; j < vectors; ++j) {
      b.Store(c, b.Index(i * nr + j * lanes), sums[static_cast<size_t>(i * vectors + j)]);
    }
  }
  return std::move(b).Finish();
}

struct Counts {
  int fma = 0;
  int stack = 0;  // vector moves to or from the stack
  int broadcasts = 0;
};

Counts CountInstructions(const std::string& assembly, const char* vector_register) {
  Counts counts;
  std::istringstream lines(assembly);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.find("vfmadd") != std::string::npos) ++counts.fma;
    if (line.find("vbroadcastss") != std::string::npos) ++counts.broadcasts;
    if ((line.find("(%rsp)") != std::string::npos || line.find("(%rbp)") != std::string::npos) &&
        line.find(vector_register) != std::string::npos) {
      ++counts.stack;
    }
  }
  return counts;
}

TEST(Emit, GemmTileHasNoSpill) {
  struct Tile {
    const char* target;
    int mr, vectors, lanes;
    const char* vector_register;
  };
  for (const Tile& tile :
       {Tile{"cpu-avx512", 8, 3, 16, "%zmm"}, Tile{"cpu-avx512", 12, 2, 16, "%zmm"},
        Tile{"cpu-avx512", 6, 4, 16, "%zmm"}, Tile{"cpu-avx2", 6, 2, 8, "%ymm"}}) {
    const int unroll = 4;
    const kernel::Module module =
        ModuleOf(MakeGemm(tile.mr, tile.vectors, tile.lanes, 256, unroll));
    ASSERT_TRUE(kernel::VerifyModule(module).ok()) << kernel::VerifyModule(module).ToString();
    Result<std::string> assembly = cpu::EmitCpuAssembly(module, MakeTarget(tile.target));
    ASSERT_TRUE(assembly.ok()) << assembly.status().ToString();
    const Counts counts = CountInstructions(*assembly, tile.vector_register);
    EXPECT_EQ(counts.fma, tile.mr * tile.vectors * unroll) << *assembly;
    EXPECT_EQ(counts.stack, 0) << tile.target << " " << tile.mr << "x" << tile.vectors << "\n"
                               << *assembly;
  }
}

}  // namespace
}  // namespace halyard::testing
