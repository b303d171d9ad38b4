// SPDX-License-Identifier: Apache-2.0
// Schedules of asynchronous products through NVRTC for sm_90a. Where a disassembler is found in
// PATH or in the toolkit's folder, also what became of them: every product is one instruction of
// the matrix unit, no register is spilled, and products are waited for only where the kernel says
// so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler/codegen/cuda/emit.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/loop/text.h"
#include "compiler/schedule/schedule.h"
#include "tests/codegen/cuda/nvrtc_place.h"

namespace halyard::testing {
namespace {

struct Variant {
  const char* name;
  const char* dtype;
  bool transposes_b;  // rows of B along k
  int64_t m, n, k;
  const char* record;  // fields of its tile
  bool adds = false;   // an operand as large as the result, which is loaded ahead
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

std::string LoopText(const Variant& v) {
  const std::string b_at =
      v.transposes_b ? fmt::format("j*{} + l", v.k) : fmt::format("l*{} + j", v.n);
  const std::string last =
      v.adds ? fmt::format(
                   "    %9 = load r[i*{} + j]\n    %6 = convert.f32 %9\n    %7 = add %5, %6\n", v.n)
             : "    %6 = const.f32 0.0\n    %7 = max %5, %6\n";
  return fmt::format(
      "function {{\n  buffer a: {0}[{1}*{3}] input\n  buffer b: {0}[{3}*{2}] constant 0\n"
      "  buffer bias: f32[{2}] constant 1\n  buffer r: {0}[{1}*{2}] input\n"
      "  buffer c: {0}[{1}*{2}] output\n"
      "  kernel mm contraction(m: i; n: j; k: l; product: %1, %2; sum: %0) {{\n"
      "    parallel i < {1} {{\n    parallel j < {2} {{\n    %0 = reduce sum l < {3} {{\n"
      "      %11 = load a[i*{3} + l]\n      %1 = convert.f32 %11\n      %12 = load b[{4}]\n"
      "      %2 = convert.f32 %12\n      %3 = mul %1, %2\n      yield %3\n    }}\n"
      "    %4 = load bias[j]\n    %5 = add %0, %4\n{5}"
      "    %8 = convert.{0} %7\n    store c[i*{2} + j], %8\n    }}\n    }}\n  }}\n}}",
      v.dtype, v.m, v.n, v.k, b_at, last);
}

int64_t Count(const std::string& text, std::string_view word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// The machine code as text; empty where no disassembler is found.
std::string Disassemble(const std::vector<uint8_t>& cubin) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("wgmma_{}.cubin", ::getpid());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(cubin.data()),
             static_cast<std::streamsize>(cubin.size()));
  std::string text;
  const std::string command = fmt::format(
      "PATH=$PATH:/usr/local/cuda/bin; command -v nvdisasm > /dev/null && nvdisasm -c {}",
      file.string());
  if (FILE* pipe = ::popen(command.c_str(), "r")) {
    char line[4096];
    while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
    ::pclose(pipe);
  }
  std::filesystem::remove(file);
  return text;
}

class Wgmma : public ::testing::TestWithParam<Variant> {};

TEST_P(Wgmma, CompilesToMatrixInstructions) {
  PlaceNvrtc();
  const Variant& v = GetParam();
  const Result<Target> target = ParseTarget("cuda-sm90");
  ASSERT_TRUE(target.ok());
  ExprArena exprs;
  Result<loop::Function> function = loop::ParseFunction(LoopText(v), exprs);
  ASSERT_TRUE(function.ok()) << function.status().ToString();
  const auto record = schedule::ParseSchedule(
      fmt::format("gpu-wgmma lanes=1 unroll=1 swap=0 k=64 split=1 raster=8 async=1 {}", v.record));
  ASSERT_TRUE(record.ok()) << record.status().ToString();
  const auto built = schedule::BuildKernel(*function, 0, *record, *target);
  ASSERT_TRUE(built.ok()) << built.status().ToString();
  const kernel::Kernel& kernel = built->kernels[0];
  EXPECT_LE(cuda::WorkgroupMemoryBytes(kernel), target->gpu.workgroup_memory_bytes);
  const Result<std::string> source = cuda::EmitCudaSource({&kernel, 1}, *target);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const auto cubin = cuda::CompileCubin(kernel.name, *source, target->gpu.compute_capability);
  ASSERT_TRUE(cubin.ok()) << cubin.status().ToString() << *source;
  const schedule::GpuTile& tile = record->tile;
  const int64_t products = tile.item_m / 64 * (tile.k / 16);
  EXPECT_EQ(Count(*source, "wgmma.mma_async.sync.aligned"), products);
  const std::string code = Disassemble(*cubin);
  if (code.empty()) GTEST_SKIP() << "nvdisasm is not found: the machine code is not looked at.";
  EXPECT_EQ(Count(code, "HGMMA."), products);
  EXPECT_EQ(Count(code, "LDL") + Count(code, "STL"), 0);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(All, Wgmma, ::testing::Values(
    Variant{"wide", "bf16", false, 8192, 8192, 8192, "m=128 n=256 itemm=64 itemn=256 stages=4"},
    Variant{"two_halves", "f16", false, 8192, 8192, 8192, "m=256 n=128 itemm=128 itemn=128 stages=4"},
    Variant{"three_quads", "f16", false, 6304, 3072, 768, "m=192 n=192 itemm=64 itemn=192 stages=4"},
    Variant{"three_wide_quads", "f16", false, 6304, 768, 3072, "m=192 n=256 itemm=64 itemn=256 stages=3"},
    Variant{"three_columns", "bf16", true, 4096, 2304, 768, "m=128 n=192 itemm=64 itemn=192 stages=5"},
    Variant{"sum", "f16", false, 4096, 768, 3072, "m=128 n=256 itemm=64 itemn=256 stages=4", true},
    Variant{"sum_of_three_quads", "f16", false, 6304, 768, 768, "m=192 n=192 itemm=64 itemn=192 stages=4", true},
    Variant{"sum_of_three_wide_quads", "f16", false, 6304, 768, 768, "m=192 n=256 itemm=64 itemn=256 stages=3", true},
    Variant{"edges", "f16", false, 1000, 1000, 1000, "m=128 n=128 itemm=64 itemn=128 stages=4"},
    Variant{"small", "f16", true, 200, 72, 96, "m=64 n=64 itemm=64 itemn=64 stages=5"}),
    [](const auto& info) { return std::string(info.param.name); });
// clang-format on

}  // namespace
}  // namespace halyard::testing
