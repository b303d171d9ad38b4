// SPDX-License-Identifier: Apache-2.0
// Generated f32 GEMM, every candidate schedule of each shape, interleaved with Debian's oneDNN
// where that is installed. Prints GFLOP/s: the median over rounds, and the best round in brackets.
// One thread: tasks run one after the other. Usage: gemm_bench [rounds] [MxNxK...].
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/schedule/schedule.h"
#ifdef HALYARD_HAS_DNNL
#include <dnnl.hpp>
#endif

namespace halyard {
namespace {

struct Shape {
  int64_t m, n, k;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

float* Allocate(int64_t elements) {
  return static_cast<float*>(
      std::aligned_alloc(64, static_cast<size_t>(elements * 4 + 127) / 64 * 64));
}

// One schedule as code in memory, ready to call.
struct Candidate {
  std::string name;
  schedule::ScheduledKernel scheduled;
  uint8_t* base = nullptr;
  CpuKernelFunction function = nullptr;
  std::vector<void*> bindings;
  void* workgroup = nullptr;
  int64_t grid[3];
  std::vector<double> times;

  void Run() const {
    ErrorRecord error{};
    CpuDispatchArgs args{bindings.data(), nullptr, &error, workgroup, 0, 0};
    for (int64_t z = 0; z < grid[2]; ++z)
      for (int64_t y = 0; y < grid[1]; ++y)
        for (int64_t x = 0; x < grid[0]; ++x) function(&args, x, y, z);
  }
};

std::string Text(Shape s) {
  return fmt::format(R"(function {{
  buffer a: f32[{0}*{2}] input
  buffer b: f32[{1}*{2}] constant 0
  buffer c: f32[{0}*{1}] output
  kernel mm {{
    parallel i < {0} {{
      parallel j < {1} {{
        %0 = reduce sum l < {2} {{
          %1 = load a[{2}*i + l]
          %2 = load b[{1}*l + j]
          %3 = mul %1, %2
          yield %3
        }}
        store c[{1}*i + j], %0
      }}
    }}
  }}
}})",
                     s.m, s.n, s.k);
}

void Bench(Shape s, int rounds, const Target& target) {
  ExprArena exprs;
  loop::Function function = Must(loop::ParseFunction(Text(s), exprs));
  std::mt19937 random(3);
  float *a = Allocate(s.m * s.k), *b = Allocate(s.n * s.k), *c = Allocate(s.m * s.n);
  for (int64_t i = 0; i < s.m * s.k; ++i) a[i] = static_cast<float>(random() % 17) - 8;
  for (int64_t i = 0; i < s.n * s.k; ++i) b[i] = static_cast<float>(random() % 13) - 6;
  std::vector<Candidate> candidates;
  for (const schedule::ScheduleRecord& record :
       Must(schedule::EnumerateSchedules(function, 0, target))) {
    if (record.kind != schedule::ScheduleKind::kContraction) continue;
    Candidate candidate;
    candidate.name = schedule::FormatSchedule(record);
    double start = Seconds();
    candidate.scheduled = Must(schedule::BuildKernel(function, 0, record, target));
    kernel::Module module;
    module.kernels = candidate.scheduled.kernels;
    cpu::CpuImage image = Must(cpu::EmitCpuImage(module, target));
    candidate.name += fmt::format(" ({:.0f} ms)", 1e3 * (Seconds() - start));
    candidate.base = static_cast<uint8_t*>(mmap(nullptr, image.bytes.size(), PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(candidate.base, image.bytes.data(), image.bytes.size());
    mprotect(candidate.base, image.bytes.size(), PROT_READ | PROT_EXEC);
    const auto* entry =
        reinterpret_cast<const CpuImageEntry*>(candidate.base + sizeof(CpuImageHeader));
    candidate.function = reinterpret_cast<CpuKernelFunction>(candidate.base + entry->code_offset);
    candidate.workgroup = std::aligned_alloc(64, (entry->workgroup_memory_bytes + 127) / 64 * 64);
    const schedule::Dispatch& dispatch = candidate.scheduled.dispatches[0];
    for (int i = 0; i < 3; ++i) candidate.grid[i] = *exprs.AsConst(dispatch.grid[i]);
    for (const schedule::Binding& binding : dispatch.bindings) {
      if (binding.kind == schedule::Binding::Kind::kConstant) {
        std::span<const uint8_t> source(reinterpret_cast<uint8_t*>(b),
                                        static_cast<size_t>(s.n * s.k * 4));
        std::vector<uint8_t> packed = Must(
            schedule::PackConstant(candidate.scheduled.constants[binding.index].packing, source));
        float* copy = Allocate(static_cast<int64_t>(packed.size() / 4));
        std::memcpy(copy, packed.data(), packed.size());
        candidate.bindings.push_back(copy);
      } else {
        candidate.bindings.push_back(binding.index == 0 ? a : binding.index == 1 ? b : c);
      }
    }
    candidates.push_back(std::move(candidate));
  }
#ifdef HALYARD_HAS_DNNL
  using dnnl::memory;
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  memory::desc a_desc({s.m, s.k}, memory::data_type::f32, memory::format_tag::ab);
  memory::desc b_any({s.k, s.n}, memory::data_type::f32, memory::format_tag::any);
  memory::desc b_plain({s.k, s.n}, memory::data_type::f32, memory::format_tag::ab);
  memory::desc c_desc({s.m, s.n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::matmul::desc op(a_desc, b_any, c_desc);
  dnnl::matmul::primitive_desc primitive_desc(op, engine);
  dnnl::matmul matmul(primitive_desc);
  memory a_memory(a_desc, engine, a), b_memory(b_plain, engine, b), c_memory(c_desc, engine, c);
  memory b_packed(primitive_desc.weights_desc(), engine);
  dnnl::reorder(b_memory, b_packed).execute(stream, b_memory, b_packed);
  stream.wait();
  std::vector<double> rival;
#endif
  double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  int repeat = std::max(1, static_cast<int>(2e7 / flops));
  for (Candidate& candidate : candidates) {
    std::memset(c, 0xff, static_cast<size_t>(s.m * s.n * 4));
    candidate.Run();
    for (int check = 0; check < 50; ++check) {
      int64_t i = random() % s.m, j = random() % s.n;
      double want = 0;
      for (int64_t k = 0; k < s.k; ++k) want += double{a[i * s.k + k]} * b[k * s.n + j];
      HY_CHECK(c[i * s.n + j] == static_cast<float>(want), "c[{}, {}] is {}, not {}", i, j,
               c[i * s.n + j], want);
    }
  }
  for (int round = 0; round < rounds; ++round) {
    for (Candidate& candidate : candidates) {
      double start = Seconds();
      for (int r = 0; r < repeat; ++r) candidate.Run();
      candidate.times.push_back((Seconds() - start) / repeat);
    }
#ifdef HALYARD_HAS_DNNL
    double start = Seconds();
    for (int r = 0; r < repeat; ++r) {
      matmul.execute(
          stream,
          {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_packed}, {DNNL_ARG_DST, c_memory}});
      stream.wait();
    }
    rival.push_back((Seconds() - start) / repeat);
#endif
  }
  auto report = [&](const std::string& name, std::vector<double> times) {
    std::sort(times.begin(), times.end());
    std::printf("%5ld x %5ld x %5ld  %6.1f [%6.1f] GFLOP/s  %s\n", s.m, s.n, s.k,
                flops / times[times.size() / 2] * 1e-9, flops / times[0] * 1e-9, name.c_str());
  };
  for (const Candidate& candidate : candidates) report(candidate.name, candidate.times);
#ifdef HALYARD_HAS_DNNL
  report("oneDNN " + std::string(primitive_desc.impl_info_str()), rival);
#endif
  std::fflush(stdout);
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  using halyard::Shape;
  int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::vector<Shape> shapes;
  for (int i = 2; i < argc; ++i) {
    Shape s{};
    if (std::sscanf(argv[i], "%ldx%ldx%ld", &s.m, &s.n, &s.k) == 3) shapes.push_back(s);
  }
  if (shapes.empty()) {
    for (int64_t x : {64, 128, 256, 512, 1024, 2048}) shapes.push_back({x, x, x});
    for (int64_t m : {1, 16, 128, 384})
      for (auto [n, k] : {std::pair<int64_t, int64_t>{384, 384},
                          {768, 768},
                          {3072, 768},
                          {768, 3072},
                          {384, 1536},
                          {1536, 384}})
        shapes.push_back({m, n, k});
  }
  __builtin_cpu_init();
  const char* name = __builtin_cpu_supports("avx512f") ? "cpu-avx512"
                     : __builtin_cpu_supports("avx2")  ? "cpu-avx2"
                                                       : "cpu-sse4.2";
  halyard::Target target = halyard::Must(halyard::ParseTarget(name));
  if (__builtin_cpu_supports("avx512f")) target.l1_bytes = 48 << 10, target.l2_bytes = 2 << 20;
  target.worker_count = 1;
  for (Shape s : shapes) halyard::Bench(s, rounds, target);
}
