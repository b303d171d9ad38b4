// SPDX-License-Identifier: Apache-2.0
// Workgroups in the interpreter: results that do not come from the code under test, and each fault
// that it finds in a GPU kernel beside the nearest kernel without that fault.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "base/float16.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

// Buffers x (f32, read), y (f32, readwrite), h (f16, read), n (i32, readwrite), workgroup t (f32),
// u (f16) and private p (f32), all of 1024 elements.
constexpr int64_t kElements = 1024;

struct Runner {
  std::vector<float> x = std::vector<float>(kElements);
  std::vector<float> y = std::vector<float>(kElements, -1);
  std::vector<uint16_t> h = std::vector<uint16_t>(kElements);
  std::vector<int32_t> n = std::vector<int32_t>(kElements, 0);

  Runner() {
    std::mt19937 random(7);
    for (float& v : x) v = static_cast<float>(random() % 2000) / 16 - 60;
    for (uint16_t& v : h) v = F16FromF32(static_cast<float>(random() % 64) / 8 - 4);
  }

  Status operator()(std::string_view head, std::string_view body, int64_t workgroups = 1,
                    int32_t subgroup_size = 32) {
    const std::string text = fmt::format(
        "kernel k {} {{\nbuffer x f32 global read\nbuffer y f32 global readwrite\nbuffer h f16 "
        "global read\nbuffer n i32 global readwrite\nbuffer t f32 workgroup readwrite [1024]\n"
        "buffer u f16 workgroup readwrite [1024]\nbuffer p f32 private readwrite [8]\n"
        "%90 = const i32 0\n%91 = const i32 1\n%92 = const i32 32\n%93 = const f32 1\n"
        "%94 = const i32 16\n%95 = const i32 4\n"
        "%99 = workitem_id i32 [0]\n%98 = workgroup_id i32 [0]\n{}\n}}\n",
        head, body);
    Result<Module> module = ParseModule(text);
    if (!module.ok()) return module.status();
    HY_TRY(VerifyModule(*module));
    const BufferArgument arguments[] = {
        {x.data(), kElements}, {y.data(), kElements}, {h.data(), kElements}, {n.data(), kElements}};
    const int64_t grid[3] = {workgroups, 1, 1};
    ErrorRecord error{};
    InterpreterOptions options;
    options.subgroup_size = subgroup_size;
    return Interpret(module->kernels[0], arguments, {}, grid, &error, options);
  }
};

TEST(GpuInterpreter, IdsOfEveryAxisAndSubgroup) {
  Runner run;
  ASSERT_TRUE(run("workgroup(4, 3, 2)", R"(
    %0 = workitem_id i64 [0]
    %1 = workitem_id i64 [1]
    %2 = workitem_id i64 [2]
    %3 = const i64 100
    %4 = const i64 10
    %5 = mul i64 %2, %3
    %6 = mul i64 %1, %4
    %7 = add i64 %5, %6
    %8 = add i64 %7, %0
    %9 = subgroup_id i64
    %10 = subgroup_lane i64
    %11 = subgroup_size i64
    %12 = mul i64 %9, %11
    %13 = add i64 %12, %10
    %14 = convert i32 %8
    store @n, %13, %14)",
                  1, 8)
                  .ok());
  for (int i = 0; i < 24; ++i) EXPECT_EQ(run.n[i], i % 4 + i / 4 % 3 * 10 + i / 12 * 100) << i;
}

TEST(GpuInterpreter, SubgroupReductionAtEverySubgroupSize) {
  for (int size : {1, 4, 8, 16, 32, 64}) {
    Runner run;
    std::string body = "%0 = load f32 @x, %99\n";
    int value = 0;
    for (int mask = 1; mask < size; mask *= 2) {
      body += fmt::format("%{} = subgroup_shuffle_xor f32 %{} [{}]\n%{} = add f32 %{}, %{}\n",
                          value + 1, value, mask, value + 2, value, value + 1);
      value += 2;
    }
    body += fmt::format("store @y, %99, %{}", value);
    const Status status = run("workgroup(64, 1, 1)", body, 1, size);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (int i = 0; i < 64; ++i) {
      float sum = 0;  // multiples of 1/16 below 2^13: exact in any order
      for (int j = 0; j < size; ++j) sum += run.x[static_cast<size_t>(i / size * size + j)];
      EXPECT_EQ(run.y[static_cast<size_t>(i)], sum) << size << " " << i;
    }
  }
}

TEST(GpuInterpreter, BranchesAndLoopsOfUnequalLength) {
  Runner run;
  ASSERT_TRUE(run("workgroup(37, 1, 1)", R"(
    %0 = rem i32 %99, %95
    %1 = for i32 %2 = %90 to %0 step %91 carry(i32 %3 = %90) unroll 0 {
      %4 = add i32 %3, %99
      yield %4
    }
    %5 = lt bool %99, %94
    %6 = if (i32) %5 {
      yield %1
    } else {
      %7 = neg i32 %1
      yield %7
    }
    store @n, %99, %6)")
                  .ok());
  for (int i = 0; i < 37; ++i) EXPECT_EQ(run.n[i], (i < 16 ? 1 : -1) * (i % 4) * i) << i;
  EXPECT_EQ(run.n[37], 0);
}

TEST(GpuInterpreter, BarrierLetsWorkitemsExchange) {
  Runner run;
  const Status status = run("workgroup(64, 1, 1)", R"(
    %0 = load f32 @x, %99
    store @t, %99, %0
    barrier
    %1 = const i32 63
    %2 = sub i32 %1, %99
    %3 = load f32 @t, %2
    store @y, %99, %3)");
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(run.y[i], run.x[63 - i]);
}

TEST(GpuInterpreter, FragmentsMultiplyInEveryLayoutAndShape) {
  const struct { int m, n, k; } shapes[] = {{16, 16, 16}, {8, 8, 4}, {16, 8, 16}, {4, 12, 5}};
  for (const auto& s : shapes) {
    for (int layout : {0, 1}) {
      Runner run;
      const Status status =
          run("workgroup(32, 1, 1) subgroup(32)", fmt::format(R"(
    %0 = const i32 20
    %1 = fragment_load f16.a.{0}x{2} @h, %90, %0 [{3}]
    %2 = fragment_load f16.b.{2}x{1} @h, %92, %0 [{3}]
    %3 = fragment_fill f32.c.{0}x{1} %93
    %4 = for i32 %5 = %90 to %95 step %91 carry(f32.c.{0}x{1} %6 = %3) unroll 0 {{
      %7 = fragment_mma f32.c.{0}x{1} %1, %2, %6
      yield %7
    }}
    %8 = add f32.c.{0}x{1} %4, %4
    fragment_store @y, %91, %8, %0 [{3}])",
                                                              s.m, s.n, s.k, layout));
      ASSERT_TRUE(status.ok()) << status.ToString();
      const auto at = [&](int row, int col) {
        return static_cast<size_t>(layout == 0 ? row * 20 + col : row + col * 20);
      };
      for (int r = 0; r < s.m; ++r) {
        for (int c = 0; c < s.n; ++c) {
          float sum = 0;  // multiples of 1/64 below 2^13: exact
          for (int i = 0; i < s.k; ++i) {
            sum += F32FromF16(run.h[at(r, i)]) * F32FromF16(run.h[32 + at(i, c)]);
          }
          ASSERT_EQ(run.y[1 + at(r, c)], 2 * (1 + 4 * sum)) << r << " " << c;
        }
      }
    }
  }
}

// Lane l has rows l / 4 and 8 below it, of columns 2 (l % 4) and the next, and of those 8 further
// on.
TEST(GpuInterpreter, WorkitemsHaveElementsOfFragments) {
  Runner run;
  const Status status = run("workgroup(32, 1, 1) subgroup(32)", R"(
    release_dispatches
    await_dispatches
    %1 = fragment_load f32.c.16x16 @x, %90, %94 [0]
    %2 = fragment_elements f32x8 %1
    %3 = const i32 8
    %4 = mul i32 %99, %3
    store @y, %4, %2
    %5 = fragment_of f32.c.16x16 %2
    %6 = const i32 256
    fragment_store @y, %6, %5, %94 [0]
    %7 = convert f16x8 %2
    %8 = fragment_of f16.a.16x16 %7
    %9 = fragment_load f16.b.16x16 @h, %90, %94 [0]
    %10 = fragment_fill f32.c.16x16 %93
    %11 = fragment_mma f32.c.16x16 %8, %9, %10
    %12 = const i32 512
    fragment_store @y, %12, %11, %94 [0])");
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t lane = 0; lane < 32; ++lane) {
    const size_t row = lane / 4, col = lane % 4 * 2;
    const size_t at[8] = {row * 16 + col,           row * 16 + col + 1,      (row + 8) * 16 + col,
                          (row + 8) * 16 + col + 1, row * 16 + col + 8,      row * 16 + col + 9,
                          (row + 8) * 16 + col + 8, (row + 8) * 16 + col + 9};
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(run.y[lane * 8 + i], run.x[at[i]]) << lane << " " << i;
  }
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(run.y[256 + i], run.x[i]);
    float sum = 1;  // multiples of 1/128 below 2^15: exact
    for (size_t k = 0; k < 16; ++k)
      sum += run.x[i / 16 * 16 + k] * F32FromF16(run.h[k * 16 + i % 16]);
    EXPECT_EQ(run.y[512 + i], sum);
  }
}

TEST(GpuInterpreter, AsyncCopiesTakeEffectAtTheWait) {
  Runner run;
  // Two groups in flight; the second is masked off for half of the workitems.
  const Status status = run("workgroup(32, 1, 1)", R"(
    %0 = mul i32 %99, %95
    %1 = lt bool %99, %94
    %2 = const i32 128
    %3 = add i32 %0, %2
    async_copy @t, %0, %0 [0, 4]
    async_commit
    async_copy @t, %3, %3, %1 [0, 4]
    async_commit
    async_wait [1]
    barrier
    %4 = const i32 31
    %5 = sub i32 %4, %99
    %6 = mul i32 %5, %95
    %7 = load f32x4 @t, %6 align=4
    store @y, %0, %7 align=4
    async_wait [0]
    barrier
    %8 = add i32 %6, %2
    %9 = load f32x4 @t, %8 align=4
    store @y, %3, %9 align=4)");
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t i = 0; i < 128; ++i) {
    const size_t from = (31 - i / 4) * 4 + i % 4;
    EXPECT_EQ(run.y[i], run.x[from]) << i;
    EXPECT_EQ(run.y[128 + i], from < 64 ? run.x[128 + from] : 0) << i;
  }
}

TEST(GpuInterpreter, AtomicsOfWorkgroupsAdd) {
  Runner run;
  ASSERT_TRUE(run("workgroup(64, 1, 1)", "atomic_add @n, %90, %99", 3).ok());
  EXPECT_EQ(run.n[0], 3 * 63 * 32);
}

struct Fault {
  const char* name;
  const char* head;
  const char* body;
  const char* message;  // empty: no fault
  int workgroups = 1;
};

constexpr const char* k64 = "workgroup(64, 1, 1)";
const Fault kFaults[] = {
    {"bounds", k64, "%0 = mul i32 %99, %94\n%1 = add i32 %0, %94\n%2 = load f32 @x, %1",
     "Op 'load' of workitem 63 reaches index 1024 of buffer 'x', which has 1024 elements."},
    {"workgroup memory bounds", k64, "%0 = sub i32 %99, %91\nstore @t, %0, %93",
     "Op 'store' of workitem 0 reaches index -1 of buffer 't'"},
    {"private memory bounds", k64, "store @p, %94, %93", "reaches index 16 of buffer 'p'"},
    {"uninitialised workgroup memory", k64, "%0 = load f32 @t, %99",
     "Op 'load' of workitem 0 reads index 0 of buffer 't', which was never written."},
    {"uninitialised private memory", k64,
     "%0 = eq bool %99, %91\nif () %0 {\nstore @p, %90, %93\nyield\n} else {\nyield\n}\n"
     "%1 = load f32 @p, %90",
     "Op 'load' of workitem 0 reads index 0 of buffer 'p', which was never written."},
    {"private memory is per workitem", k64, "store @p, %90, %93\n%1 = load f32 @p, %90", ""},
    {"workgroup memory does not outlive its workgroup", k64,
     "%0 = eq bool %98, %90\nif () %0 {\nstore @t, %99, %93\nyield\n} else {\n%1 = load f32 @t, "
     "%99\nyield\n}",
     "'t', which was never written", 2},
    {"misaligned load", k64, "%0 = add i32 %95, %91\n%1 = load f32x4 @x, %0 align=4",
     "Op 'load' of workitem 0 reaches index 5 of buffer 'x', no multiple of its align 4."},
    {"misaligned store", k64,
     "%0 = mul i32 %99, %95\n%1 = splat f32x2 %93\n"
     "store @y, %0, %1 align=8",
     "Op 'store' of workitem 1 reaches index 4 of buffer 'y', no multiple of its align 8."},
    {"aligned", k64, "%0 = mul i32 %99, %95\n%1 = splat f32x4 %93\nstore @y, %0, %1 align=4", ""},
    {"barrier in a branch", k64,
     "%0 = lt bool %99, %92\nif () %0 {\nbarrier\nyield\n} else {\nyield\n}",
     "A barrier is reached by 32 of the 64 workitems of the workgroup; workitem 32 does not"},
    {"barrier in both branches", k64,
     "%0 = gt bool %99, %90\nif () %0 {\nbarrier\nyield\n} else {\nbarrier\nyield\n}",
     "workitem 0 does not reach it"},
    {"barrier in a uniform branch", k64,
     "%0 = eq bool %98, %91\nif () %0 {\nbarrier\nyield\n} else {\nyield\n}", "", 2},
    {"barrier in a loop of unequal length", k64,
     "for i32 %0 = %90 to %99 step %91 carry() unroll 0 {\nbarrier\nyield\n}",
     "A barrier is reached by 63 of the 64"},
    {"shuffle in a branch", k64,
     "%0 = lt bool %99, %94\nif () %0 {\n%1 = subgroup_shuffle_xor f32 %93 [1]\nyield\n} else "
     "{\nyield\n}",
     "Op 'subgroup_shuffle_xor' is reached by 16 of the 32 workitems of subgroup 0."},
    {"shuffle in one subgroup", k64,
     "%0 = lt bool %99, %92\nif () %0 {\n%1 = subgroup_shuffle_xor f32 %93 [1]\nyield\n} else "
     "{\nyield\n}",
     ""},
    {"shuffle from a lane that does not exist", k64, "%1 = subgroup_shuffle f32 %93, %99",
     "Op 'subgroup_shuffle' of workitem 32 reads lane 32 of subgroup 1, which has 32 active"},
    {"shuffle in a partial subgroup", "workgroup(40, 1, 1)",
     "%1 = subgroup_shuffle_xor f32 %93 [8]", "of workitem 32 reads lane 8 of subgroup 1, which"},
    {"fragment with different indices", k64, "%0 = fragment_load f16.a.16x16 @h, %99, %92 [0]",
     "Op 'fragment_load' gets 0 from workitem 0 and 1 from workitem 1 of one subgroup"},
    {"fragment with different fills", k64,
     "%0 = convert f32 %99\n%1 = fragment_fill f32.c.16x16 %0",
     "Op 'fragment_fill' gets 0 from workitem 0 and 1 from workitem 1"},
    {"fragment in a branch", k64,
     "%0 = lt bool %99, %94\nif () %0 {\n%1 = fragment_fill f32.c.8x8 %93\nyield\n} else "
     "{\nyield\n}",
     "Op 'fragment_fill' is reached by 16 of the 32 workitems of subgroup 0."},
    {"fragment in a partial subgroup", "workgroup(40, 1, 1)", "%1 = fragment_fill f32.c.8x8 %93",
     "runs in subgroup 1, which has 8 of 32 workitems"},
    {"fragment out of bounds", k64,
     "%0 = const i32 1016\n%1 = fragment_load f16.a.16x16 @h, %0, %94 [0]",
     "Op 'fragment_load' of subgroup 0 reaches index 1024 of buffer 'h'"},
    {"misaligned fragment stride", k64,
     "%0 = const i32 20\n%1 = fragment_load f16.a.16x16 @h, %90, %0 [0] align=8",
     "reaches index 20 of buffer 'h', no multiple of its align 8"},
    {"race of stores", k64, "store @t, %90, %93",
     "Data race: op 'store' of workitem 1 writes index 0 of buffer 't', which workitem 0 wrote "
     "with no barrier between."},
    {"race of a load with a store", k64,
     "store @t, %99, %93\n%0 = xor i32 %99, %91\n%1 = load f32 @t, %0",
     "Data race: op 'load' of workitem 0 reads index 1 of buffer 't', which workitem 1 wrote"},
    {"race of a store with a load", k64,
     "%0 = xor i32 %99, %91\n%1 = load f32 @y, %0\nstore @y, %99, %1",
     "Data race: op 'store' of workitem 0 writes index 0 of buffer 'y', which workitem 1 read"},
    {"race of a store with several loads", k64, "%0 = load f32 @y, %90\nstore @y, %99, %0",
     "which several workitems read with no barrier"},
    {"stores with a barrier between", k64,
     "%2 = eq bool %99, %90\nif () %2 {\nstore @t, %90, %93\nyield\n} else {\nyield\n}\nbarrier\n"
     "%0 = load f32 @t, %90\nbarrier\n%1 = eq bool %99, %91\nif () %1 {\nstore @t, %90, "
     "%0\nyield\n} else {\nyield\n}",
     ""},
    {"race of a plain store with an atomic", k64,
     "%0 = eq bool %99, %90\nif () %0 {\nstore @n, %90, %99\nyield\n} else {\nyield\n}\n"
     "atomic_add @n, %90, %99",
     "op 'atomic_add' of workitem 1 writes index 0 of buffer 'n', which workitem 0 wrote"},
    {"race between workgroups", k64, "%0 = add i32 %99, %98\nstore @y, %0, %93",
     "writes index 1 of buffer 'y', which workitem 1 of the workgroup with the linear id 0 wrote "
     "in "
     "the same dispatch",
     2},
    {"race of a load in another workgroup", k64,
     "%0 = add i32 %99, %98\n%1 = mul i32 %0, %92\n%2 = const i32 1023\n%3 = and i32 %1, %2\n%4 = "
     "mul i32 %98, %92\n%5 = load f32 @y, %4\n%6 = eq bool %98, %91\nif () %6 {\nstore @y, %90, "
     "%93\nyield\n} else {\nyield\n}",
     "of workitem 0 writes index 0 of buffer 'y', which several workitems of the workgroup with "
     "the "
     "linear id 0 read in the same dispatch",
     2},
    {"workgroups that write their own part", k64,
     "%1 = const i32 64\n%2 = mul i32 %98, %1\n%3 = add i32 %2, %99\nstore @y, %3, %93", "", 3},
    {"race of a subgroup with itself", "workgroup(32, 1, 1)",
     "%0 = fragment_load f16.a.16x16 @h, %90, %94 [0]\n%1 = fragment_load f16.b.16x16 @h, %90, "
     "%94 [0]\n%2 = const f16 0\n%3 = fragment_fill f16.c.16x16 %2\n%4 = fragment_mma f16.c.16x16 "
     "%0, %1, %3\nfragment_store @u, %90, %4, %94 [0]\n%5 = fragment_load f16.a.16x16 @u, %90, "
     "%94 [0]",
     "Data race: op 'fragment_load' of subgroup 0 reads index 0 of buffer 'u', which subgroup 0 "
     "wrote with no barrier between."},
    {"an accumulator read back", "workgroup(32, 1, 1)",
     "%1 = fragment_fill f32.c.16x16 %93\nfragment_store @t, %90, %1, %94 [0]\n%5 = fragment_load "
     "f32.c.16x16 @t, %90, %94 [0]",
     ""},
    {"read of a pending copy", "workgroup(32, 1, 1)",
     "%0 = mul i32 %99, %95\nasync_copy @t, %0, %0 [0, 4]\nasync_commit\nasync_wait [1]\n"
     "%1 = load f32 @t, %0",
     "Op 'load' of workitem 0 reads index 0 of buffer 't', which a pending async copy writes."},
    {"copy waited for without a barrier", "workgroup(32, 1, 1)",
     "%0 = mul i32 %99, %95\nasync_copy @t, %0, %0 [0, 4]\nasync_commit\nasync_wait [0]\n"
     "%1 = xor i32 %0, %95\n%2 = load f32 @t, %1",
     "op 'load' of workitem 0 reads index 4 of buffer 't', which workitem 1 wrote"},
    {"copy that was not committed", "workgroup(32, 1, 1)",
     "%0 = mul i32 %99, %95\nasync_copy @t, %0, %0 [0, 4]\nasync_wait [0]\n%2 = load f32 @t, %0",
     "which a pending async copy writes"},
    {"two copies to one place", "workgroup(32, 1, 1)", "async_copy @t, %90, %90 [0, 4]",
     "Op 'async_copy' of workitem 1 writes index 0 of buffer 't', which a pending"},
    {"last arrival orders what was written before", k64,
     "%0 = const i32 3\n%1 = const i32 64\n%2 = mul i32 %98, %1\n%3 = add i32 %2, %99\n"
     "store @y, %3, %93\n%4 = last_arrival bool @n, %90, %0\nif () %4 {\n%5 = load f32 @y, %99\n"
     "yield\n} else {\nyield\n}",
     "", 3},
    {"read without the arrival of its writer", k64,
     "%1 = const i32 64\n%2 = mul i32 %98, %1\n%3 = add i32 %2, %99\nstore @y, %3, %93\n"
     "%4 = last_arrival bool @n, %98, %91\nif () %4 {\n%5 = load f32 @y, %99\nyield\n} else {\n"
     "yield\n}",
     "reads index 0 of buffer 'y', which workitem 0 of the workgroup with the linear id 0 wrote",
     2},
    {"read of what was written after the arrival", k64,
     "%0 = const i32 2\n%1 = const i32 64\n%2 = mul i32 %98, %1\n%3 = add i32 %2, %99\n"
     "%4 = last_arrival bool @n, %90, %0\nstore @y, %3, %93\nif () %4 {\n%5 = load f32 @y, %99\n"
     "yield\n} else {\nyield\n}",
     "reads index 0 of buffer 'y', which workitem 0 of the workgroup with the linear id 0 wrote",
     2},
    {"a counter that starts above its count", k64,
     "%0 = last_arrival bool @n, %90, %90",
     "makes element 0 of buffer 'n' 1; it counts to 0"},
    {"last arrival of a part of the workgroup", k64,
     "%0 = lt bool %99, %92\nif () %0 {\n%1 = last_arrival bool @n, %90, %91\nyield\n} else {\n"
     "yield\n}",
     "A barrier is reached by 32 of the 64 workitems"},
    {"workitems that disagree about the counter", k64, "%0 = last_arrival bool @n, %99, %91",
     "gets index 1 and count 1 from workitem 1, 0 and 1 from workitem 0, where all must agree"},
    {"misaligned copy", "workgroup(32, 1, 1)", "async_copy @t, %99, %90 [0, 2]",
     "of workitem 1 reaches index 1 of buffer 't', no multiple of its align 2"},
    {"copy out of bounds", "workgroup(32, 1, 1)",
     "%0 = mul i32 %99, %95\n%1 = const i32 1000\n%2 = add i32 %0, %1\nasync_copy @t, %0, %2 [0, "
     "4]",
     "Op 'async_copy' of workitem 6 reaches index 1024 of buffer 'x'"},
};

class GpuInterpreterFault : public ::testing::TestWithParam<Fault> {};

TEST_P(GpuInterpreterFault, IsNamed) {
  const Fault& fault = GetParam();
  Runner run;
  const Status status = run(fault.head, fault.body, fault.workgroups);
  if (fault.message[0] == '\0') {
    EXPECT_TRUE(status.ok()) << fault.name << ": " << status.ToString();
    return;
  }
  ASSERT_FALSE(status.ok()) << fault.name;
  EXPECT_TRUE(status.code() == StatusCode::kFailedPrecondition ||
              status.code() == StatusCode::kOutOfRange)
      << status.ToString();
  EXPECT_NE(status.message().find(fault.message), std::string::npos)
      << fault.name << ": " << status.message();
  EXPECT_NE(status.ToString().find("interpreting workgroup ("), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, GpuInterpreterFault, ::testing::ValuesIn(kFaults),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace halyard::kernel
