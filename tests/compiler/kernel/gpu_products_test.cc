// SPDX-License-Identifier: Apache-2.0
// Asynchronous products: values against sums written out here, with operands placed by a formula of
// this file, each fault that the interpreter finds, text and what the verifier refuses.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "base/float16.h"
#include "compiler/kernel/interpreter.h"
#include "compiler/kernel/text.h"
#include "compiler/kernel/verifier.h"

namespace halyard::kernel {
namespace {

constexpr int kSide = 64, kDepth = 64;  // of both tiles

// Byte of element (side, depth) of a tile: 16-byte chunks of rows of 128 bytes, exchanged by row.
size_t ByteOf(bool is_side_major, int side, int depth) {
  const int row = is_side_major ? depth : side, col = is_side_major ? side : depth;
  return static_cast<size_t>(row * 128 + ((col / 8) ^ (row % 8)) * 16 + col % 8 * 2);
}

// One quad: copies both tiles, multiplies them in four products, stores 64 x 64 sums.
struct Parts {
  std::string before_barrier = "async_wait [0]\nasync_fence\n";
  std::string barrier = "barrier\n";
  std::string begin = "%9 = mma_begin f32.p.16x64 %8\n";
  std::string commit = "mma_commit\n";
  std::string wait = "mma_wait [0]\n";
  std::string end = "%14 = mma_end f32.c.16x64 %13\n";
  std::string after;
  int left = 0, right = 0;  // layouts
  std::string workgroup = "128";
};

std::string Write(const Parts& p) {
  std::string text = fmt::format(
      "kernel k workgroup({}, 1, 1) subgroup(32) {{\n"
      "buffer ha f16 global read\nbuffer hb f16 global read\nbuffer y f32 global readwrite\n"
      "buffer a f16 workgroup readwrite [4096]\nbuffer b f16 workgroup readwrite [4096]\n"
      "%0 = workitem_id i32 [0]\n%1 = const i32 8\n%2 = mul i32 %0, %1\n%3 = const i32 4096\n"
      "%4 = const i32 1024\n%20 = const i32 0\n%21 = const i32 64\n%22 = subgroup_id i32\n"
      "for i32 %5 = %2 to %3 step %4 carry() unroll 0 {{\n"
      "  async_copy @a, %5, %5 [0, 8]\n  %6 = load f16x8 @hb, %5\n  store @b, %5, %6\n  yield\n}}\n"
      "async_commit\n{}{}",
      p.workgroup, p.before_barrier, p.barrier);
  text += "%7 = const f32 0\n%8 = fragment_fill f32.c.16x64 %7\n" + p.begin;
  for (int k = 0; k < 4; ++k) {
    text += fmt::format("%{} = const i32 {}\n%{} = const i32 {}\n", 30 + k,
                        k * (p.left == 0 ? 16 : 1024), 40 + k, k * (p.right == 0 ? 16 : 1024));
    text +=
        fmt::format("%{} = mma_async f32.p.16x64 @a, %{}, %{}, %{} [4, {}, {}, {}, {}]\n", 10 + k,
                    9 + k, 30 + k, 40 + k, p.left, p.right, p.left * 4096, p.right * 4096);
  }
  text += p.commit + p.wait + p.end;
  text += "%15 = mul i32 %22, %4\nfragment_store @y, %15, %14, %21 [0]\n" + p.after + "}\n";
  return text;
}

struct ProductRunner {
  std::vector<uint16_t> a = std::vector<uint16_t>(kSide * kDepth), b = a;
  std::vector<float> y = std::vector<float>(kSide * kSide, -1e9f);

  Status operator()(const std::string& text) {
    Result<Module> module = ParseModule(text);
    if (!module.ok()) return module.status();
    HY_TRY(VerifyModule(*module));
    const BufferArgument arguments[] = {
        {a.data(), 4096}, {b.data(), 4096}, {y.data(), static_cast<int64_t>(y.size())}};
    ErrorRecord error{};
    return Interpret(module->kernels[0], arguments, {}, {1, 1, 1}, &error);
  }
};

TEST(GpuProducts, MultiplyInEveryLayout) {
  std::mt19937 random(3);
  for (int left : {0, 1}) {
    for (int right : {0, 1}) {
      ProductRunner run;
      std::vector<float> a(kSide * kDepth), b(kSide * kDepth);
      for (int side = 0; side < kSide; ++side) {
        for (int depth = 0; depth < kDepth; ++depth) {
          const auto at = static_cast<size_t>(side * kDepth + depth);
          a[at] = static_cast<float>(random() % 64) / 8 - 4;
          b[at] = static_cast<float>(random() % 64) / 8 - 4;
          run.a[ByteOf(left == 1, side, depth) / 2] = F16FromF32(a[at]);
          run.b[ByteOf(right == 1, side, depth) / 2] = F16FromF32(b[at]);
        }
      }
      Parts parts;
      parts.left = left, parts.right = right;
      const Status status = run(Write(parts));
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (size_t i = 0; i < kSide; ++i) {
        for (size_t j = 0; j < kSide; ++j) {
          float sum = 0;  // multiples of 1/64 below 2^11: exact in any order
          for (size_t k = 0; k < kDepth; ++k) sum += a[i * kDepth + k] * b[j * kDepth + k];
          ASSERT_EQ(run.y[i * kSide + j], sum) << left << right << " at " << i << ", " << j;
        }
      }
    }
  }
}

TEST(GpuProducts, TextRoundTrips) {
  Parts parts;
  parts.right = 1;
  Result<Module> module = ParseModule(Write(parts));
  ASSERT_TRUE(module.ok()) << module.status().ToString();
  const std::string text = FormatModule(*module);
  Result<Module> again = ParseModule(text);
  ASSERT_TRUE(again.ok()) << again.status().ToString() << text;
  EXPECT_EQ(FormatModule(*again), text);
  for (const char* line : {"mma_begin f32.p.16x64 %", "[4, 0, 1, 0, 4096]", "mma_wait [0]",
                           "async_fence", "mma_commit", "mma_end f32.c.16x64 %"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

// Each fault beside the kernel without it, which runs.
TEST(GpuProducts, FaultsAreFound) {
  EXPECT_TRUE(ProductRunner()(Write(Parts())).ok());
  struct Fault {
    const char* what;
    std::function<void(Parts&)> add;
    const char* message;
  };
  const Fault faults[] = {
      {"no fence", [](Parts& p) { p.before_barrier = "async_wait [0]\n"; }, "no async_fence"},
      {"the fence before the copies arrived",
       [](Parts& p) { p.before_barrier = "async_fence\nasync_wait [0]\n"; }, "no async_fence"},
      {"the fence of another workitem than the writer",
       [](Parts& p) {
         p.before_barrier =
             "async_wait [0]\n%50 = lt bool %0, %21\nif () %50 {\nasync_fence\nyield\n} else "
             "{\nyield\n}\n";
       },
       "no async_fence"},
      {"copies still pending", [](Parts& p) { p.before_barrier = "async_fence\n"; },
       "a pending async copy writes"},
      {"no barrier", [](Parts& p) { p.barrier.clear(); }, "Data race"},
      {"no wait", [](Parts& p) { p.wait.clear(); }, "with products pending"},
      {"a wait for too few", [](Parts& p) { p.wait = "mma_wait [1]\n"; }, "with products pending"},
      {"no commit", [](Parts& p) { p.commit.clear(); }, "with products pending"},
      {"a write under a pending product",
       [](Parts& p) {
         p.commit = "mma_commit\nbarrier\n%51 = load f16 @hb, %0\nstore @b, %0, %51\n";
       },
       "which a pending mma_async reads"},
      {"a write of another quad's tile with no barrier behind the wait",
       [](Parts& p) { p.after = "%51 = load f16x8 @hb, %2\nstore @a, %2, %51\n"; }, "Data race"},
      {"a copy under a pending product",
       [](Parts& p) { p.commit = "mma_commit\nbarrier\nasync_copy @a, %2, %2 [0, 8]\n"; },
       "which a pending mma_async reads"},
      {"two of four subgroups",
       [](Parts& p) {
         p.commit = "%52 = lt bool %0, %21\nif () %52 {\nmma_commit\nyield\n} else {\nyield\n}\n";
       },
       "a part of the four subgroups"},
  };
  for (const Fault& fault : faults) {
    Parts parts;
    fault.add(parts);
    const Status status = ProductRunner()(Write(parts));
    EXPECT_FALSE(status.ok()) << fault.what;
    EXPECT_NE(status.ToString().find(fault.message), std::string::npos)
        << fault.what << ": " << status.ToString();
  }
  Parts parts;
  parts.after = "barrier\n%51 = load f16x8 @hb, %2\nstore @a, %2, %51\n";
  const Status status = ProductRunner()(Write(parts));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(GpuProducts, IndicesAgreeAndAreAligned) {
  const std::string text = Write(Parts());
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string other = text;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return other.replace(at, from.size(), to);
  };
  Status status = ProductRunner()(changed("%31 = const i32 16", "%31 = const i32 4"));
  EXPECT_NE(status.ToString().find("no multiple of its align 8"), std::string::npos)
      << status.ToString();
  status = ProductRunner()(changed("%31 = const i32 16", "%31 = mul i32 %22, %1"));
  EXPECT_NE(status.ToString().find("of one quad"), std::string::npos) << status.ToString();
}

TEST(GpuProducts, VerifierRefuses) {
  struct Case {
    std::string from, to, message;
  };
  const Case cases[] = {
      {"%14 = mma_end f32.c.16x64 %13", "%14 = add f32.p.16x64 %13, %13", "accumulators only"},
      {"%14 = mma_end f32.c.16x64 %13", "%14 = mma_end f32.p.16x64 %13", "takes and gives"},
      {"%9 = mma_begin f32.p.16x64 %8", "%9 = fragment_fill f32.p.16x64 %7", "fills a fragment"},
      {"fragment_store @y, %15, %14", "fragment_store @y, %15, %13", "moves f32.p.16x64"},
      {"[4, 0, 0, 0, 0]", "[4, 0, 2, 0, 0]", "has the layout 2"},
      {"[4, 0, 0, 0, 0]", "[4, 0, 1, 0, 100]", "has the stride 100"},
      {"[4, 0, 0, 0, 0]", "[4, 0, 0, 64, 0]", "has the stride 64"},
      {"[4, 0, 0, 0, 0]", "[1, 0, 0, 0, 0]", "which is not in workgroup memory"},
      {"[4, 0, 0, 0, 0]", "[9, 0, 0, 0, 0]", "names buffer 9"},
      {"workgroup(128,", "workgroup(96,", "a multiple of 128 workitems"},
      {"mma_wait [0]", "mma_wait [8]", "leaves 8 groups pending"},
      {"buffer b f16 workgroup", "buffer b bf16 workgroup", ""},
  };
  for (const Case& c : cases) {
    std::string text = Write(Parts());
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, c.from.size(), c.to);
    Result<Module> module = ParseModule(text);
    ASSERT_TRUE(module.ok()) << module.status().ToString() << text;
    const Status status = VerifyModule(*module);
    EXPECT_FALSE(status.ok()) << c.to;
    EXPECT_NE(status.ToString().find(c.message), std::string::npos)
        << c.to << ": " << status.ToString();
  }
}

}  // namespace
}  // namespace halyard::kernel
