// SPDX-License-Identifier: Apache-2.0
// Generated f32 GEMM against Debian's oneDNN, where that is installed. B is constant and packed by
// both sides beforehand. Every candidate schedule of a shape is timed first, interleaved, as a race
// does; then the fastest runs A B A B against oneDNN, which lives in a process of its own that
// sleeps meanwhile: its OpenMP threads spin for a while after a call. Prints GFLOP/s, median and
// best, and at the end the geometric mean of the ratios.
//
//   gemm_bench [--threads N] [--rounds N] [--candidates] [--schedule RECORD]... [MxNxK]...
//
// --candidates prints each schedule of the race; with --schedule those race that are named, in the
// text form of explain.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/cpu_kernel_abi.h"
#include "bench/must.h"
#include "compiler/codegen/cpu/emit.h"
#include "compiler/kernel/verifier.h"
#include "compiler/loop/text.h"
#include "compiler/schedule/schedule.h"
#include "drivers/cpu/executor.h"
#include "drivers/cpu/team.h"
#ifdef HALYARD_HAS_DNNL
#include <dnnl.hpp>
#endif

namespace halyard {
namespace {

// Some time for a sample: 3 ms at 130 GFLOP/s.
constexpr double kSampleFlops = 4e8;
constexpr int64_t kSpinUs = 50;  // HALYARD_SPIN_US
// How long OpenMP's threads may spin after a sample of the rival.
constexpr std::chrono::milliseconds kQuiet(20);

struct Shape {
  int64_t m, n, k;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  int repeat() const { return std::max(4, static_cast<int>(kSampleFlops / flops())); }
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

float* Allocate(int64_t elements) {
  return static_cast<float*>(
      std::aligned_alloc(64, static_cast<size_t>(elements * 4 + 127) / 64 * 64));
}

// Small integers, so that every order of the sum gives the same.
struct Operands {
  explicit Operands(Shape s)
      : a(Allocate(s.m * s.k)), b(Allocate(s.n * s.k)), c(Allocate(s.m * s.n)) {
    std::mt19937 random(3);
    for (int64_t i = 0; i < s.m * s.k; ++i) a[i] = static_cast<float>(random() % 17) - 8;
    for (int64_t i = 0; i < s.n * s.k; ++i) b[i] = static_cast<float>(random() % 13) - 6;
  }
  ~Operands() {
    std::free(a);
    std::free(b);
    std::free(c);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  float *a, *b, *c;
};

double Median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double Least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

// One schedule as code in memory, ready to call: a recording of one dispatch.
class Candidate final : public drivers::cpu::StagedWork {
 public:
  Candidate(const schedule::ScheduleRecord& record, const loop::Function& function,
            const Operands& operands, Shape s, const Target& target)
      : name(schedule::FormatSchedule(record)) {
    schedule::ScheduledKernel scheduled = Must(schedule::BuildKernel(function, 0, record, target));
    kernel::Module module;
    module.kernels = scheduled.kernels;
    cpu::CpuImage image = Must(cpu::EmitCpuImage(module, target));
    auto* base = static_cast<uint8_t*>(mmap(nullptr, image.bytes.size(), PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(base, image.bytes.data(), image.bytes.size());
    mprotect(base, image.bytes.size(), PROT_READ | PROT_EXEC);
    const auto* entry = reinterpret_cast<const CpuImageEntry*>(base + sizeof(CpuImageHeader));
    function_ = reinterpret_cast<CpuKernelFunction>(base + entry->code_offset);
    workgroup_bytes_ = static_cast<size_t>(entry->workgroup_memory_bytes);
    const schedule::Dispatch& dispatch = scheduled.dispatches[0];
    for (int i = 0; i < 3; ++i) grid_[i] = *function.exprs->AsConst(dispatch.grid[i]);
    for (const schedule::Binding& binding : dispatch.bindings) {
      if (binding.kind == schedule::Binding::Kind::kConstant) {
        std::span<const uint8_t> source(reinterpret_cast<uint8_t*>(operands.b),
                                        static_cast<size_t>(s.n * s.k * 4));
        std::vector<uint8_t> packed =
            Must(schedule::PackConstant(scheduled.constants[binding.index].packing, source));
        float* copy = Allocate(static_cast<int64_t>(packed.size() / 4));
        std::memcpy(copy, packed.data(), packed.size());
        bindings_.push_back(copy);
      } else {
        float* const buffers[] = {operands.a, operands.b, operands.c};
        bindings_.push_back(buffers[binding.index]);
      }
    }
  }

  // The repetitions of a sample are the stages of one run, as the layers of a model are: the
  // helpers wake up once.
  size_t stage_count() const override { return static_cast<size_t>(repeat_); }
  int64_t unit_count(size_t) const override { return grid_[0] * grid_[1] * grid_[2]; }
  void Run(size_t, int64_t begin, int64_t end) override {
    thread_local std::vector<uint8_t> memory;
    if (memory.size() < workgroup_bytes_ + 64) memory.resize(workgroup_bytes_ + 64);
    auto aligned = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
    ErrorRecord error{};
    CpuDispatchArgs args{bindings_.data(), nullptr, &error, reinterpret_cast<void*>(aligned), 0, 0};
    for (int64_t i = begin; i < end; ++i)
      function_(&args, i % grid_[0], i / grid_[0] % grid_[1], i / grid_[0] / grid_[1]);
  }
  bool is_failed() const override { return false; }

  // Seconds of one call.
  double Sample(int repeat, drivers::cpu::Executor& executor) {
    repeat_ = repeat;
    const double start = Seconds();
    drivers::cpu::RunStaged(*this, executor, kSpinUs, false, length_);
    return (Seconds() - start) / repeat;
  }

  std::string name;
  std::vector<double> times;

 private:
  CpuKernelFunction function_ = nullptr;
  int repeat_ = 1;
  drivers::cpu::RunLength length_;
  size_t workgroup_bytes_ = 0;
  std::vector<void*> bindings_;
  int64_t grid_[3];
};

// The process of the rival: it answers each shape with the seconds of one call.
class Rival {
 public:
#ifdef HALYARD_HAS_DNNL
  explicit Rival(int threads) {
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) return;
    const pid_t child = fork();
    if (child < 0) return;
    to_ = fdopen(child == 0 ? up[1] : down[1], "w");
    from_ = fdopen(child == 0 ? down[0] : up[0], "r");
    close(child == 0 ? up[0] : up[1]);
    close(child == 0 ? down[1] : down[0]);
    if (child != 0) return;
    // Of the OpenMP library that oneDNN has brought.
    auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (set_threads) set_threads(threads);
    Serve();
    std::_Exit(0);
  }
#else
  explicit Rival(int) {}
#endif
  ~Rival() {
    if (to_) std::fclose(to_);
    if (from_) std::fclose(from_);
  }

  bool is_there() const { return to_ && from_; }
  double Sample(Shape s) {
    std::fprintf(to_, "%ld %ld %ld\n", s.m, s.n, s.k);
    std::fflush(to_);
    double seconds = 0;
    char name[64] = {};
    if (std::fscanf(from_, "%lf %63s", &seconds, name) != 2) {
      std::fprintf(stderr, "gemm_bench: the process of the rival has ended.\n");
      std::exit(1);
    }
    implementation = name;
    return seconds;
  }

  std::string implementation;

 private:
#ifdef HALYARD_HAS_DNNL
  void Serve() {
    using dnnl::memory;
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    Shape s{};
    Shape last{};
    std::unique_ptr<Operands> operands;
    dnnl::matmul matmul;
    memory a, b, c;
    std::string name;
    while (std::fscanf(from_, "%ld %ld %ld", &s.m, &s.n, &s.k) == 3) {
      auto call = [&] {
        matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
        stream.wait();
      };
      if (s.m != last.m || s.n != last.n || s.k != last.k) {
        operands = std::make_unique<Operands>(s);
        memory::desc a_desc({s.m, s.k}, memory::data_type::f32, memory::format_tag::ab);
        memory::desc b_any({s.k, s.n}, memory::data_type::f32, memory::format_tag::any);
        memory::desc b_plain({s.k, s.n}, memory::data_type::f32, memory::format_tag::ab);
        memory::desc c_desc({s.m, s.n}, memory::data_type::f32, memory::format_tag::ab);
        dnnl::matmul::primitive_desc described(dnnl::matmul::desc(a_desc, b_any, c_desc), engine);
        matmul = dnnl::matmul(described);
        name = described.impl_info_str();
        a = memory(a_desc, engine, operands->a);
        c = memory(c_desc, engine, operands->c);
        memory plain(b_plain, engine, operands->b);
        b = memory(described.weights_desc(), engine);
        dnnl::reorder(plain, b).execute(stream, plain, b);
        stream.wait();
        last = s;
        call();
      }
      const double start = Seconds();
      for (int r = 0; r < s.repeat(); ++r) call();
      std::fprintf(to_, "%.9g %s\n", (Seconds() - start) / s.repeat(), name.c_str());
      std::fflush(to_);
    }
  }
#endif

  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
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

void Check(Candidate& candidate, const Operands& operands, Shape s,
           drivers::cpu::Executor& executor) {
  std::memset(operands.c, 0xff, static_cast<size_t>(s.m * s.n * 4));
  candidate.Sample(1, executor);
  std::mt19937 random(5);
  for (int check = 0; check < 50; ++check) {
    int64_t i = random() % s.m, j = random() % s.n;
    double want = 0;
    for (int64_t k = 0; k < s.k; ++k)
      want += double{operands.a[i * s.k + k]} * operands.b[k * s.n + j];
    HY_CHECK(operands.c[i * s.n + j] == static_cast<float>(want), "c[{}, {}] is {}, not {}", i, j,
             operands.c[i * s.n + j], want);
  }
}

struct Options {
  int rounds = 15;
  bool prints_candidates = false;
  std::vector<schedule::ScheduleRecord> schedules;  // empty: those that the compiler races
};

// The rival's time over ours.
struct Ratios {
  double median = 0, best = 0;  // 0: no rival
};

Ratios Bench(Shape s, const Options& options, const Target& target,
             drivers::cpu::Executor& executor, Rival& rival) {
  ExprArena exprs;
  loop::Function function = Must(loop::ParseFunction(Text(s), exprs));
  Operands operands(s);
  std::vector<std::unique_ptr<Candidate>> candidates;
  for (const schedule::ScheduleRecord& record :
       options.schedules.empty() ? Must(schedule::EnumerateSchedules(function, 0, target))
                                 : options.schedules) {
    if (record.kind != schedule::ScheduleKind::kContraction) continue;
    candidates.push_back(std::make_unique<Candidate>(record, function, operands, s, target));
    Check(*candidates.back(), operands, s, executor);
  }
  auto rate = [&](double seconds) { return s.flops() / seconds * 1e-9; };
  for (int round = 0; round < options.rounds; ++round)
    for (auto& candidate : candidates)
      candidate->times.push_back(candidate->Sample(s.repeat(), executor));
  Candidate* winner = candidates.front().get();
  for (auto& candidate : candidates) {
    if (options.prints_candidates)
      std::printf("  %6.1f [%6.1f]  %s\n", rate(Median(candidate->times)),
                  rate(Least(candidate->times)), candidate->name.c_str());
    if (Median(candidate->times) < Median(winner->times)) winner = candidate.get();
  }
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; rival.is_there() && round < options.rounds; ++round) {
    winner->Sample(1, executor);
    ours.push_back(winner->Sample(s.repeat(), executor));
    theirs.push_back(rival.Sample(s));
    ratios.push_back(theirs.back() / ours.back());
    std::this_thread::sleep_for(kQuiet);
  }
  if (ours.empty()) ours = winner->times;
  std::printf("%5ld x %5ld x %5ld  %6.1f [%6.1f]", s.m, s.n, s.k, rate(Median(ours)),
              rate(Least(ours)));
  if (!ratios.empty())
    std::printf("  %s %6.1f [%6.1f]  ratio %.2f", rival.implementation.c_str(),
                rate(Median(theirs)), rate(Least(theirs)), Median(ratios));
  std::printf("  %s\n", winner->name.c_str());
  std::fflush(stdout);
  if (ratios.empty()) return {};
  return {Median(ratios), Least(theirs) / Least(ours)};
}

int Main(int threads, const Options& options, const std::vector<Shape>& shapes) {
  Rival rival(threads);  // before any thread of ours
  __builtin_cpu_init();
  const char* name = __builtin_cpu_supports("avx512f") ? "cpu-avx512"
                     : __builtin_cpu_supports("avx2")  ? "cpu-avx2"
                                                       : "cpu-sse4.2";
  Target target = Must(ParseTarget(name));
  if (const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE); bytes > 0) target.l1_bytes = bytes;
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes > 0) target.l2_bytes = bytes;
  target.worker_count = threads;
  auto executor = Must(drivers::cpu::MakeExecutor(threads, {}));
  std::vector<double> medians, bests;
  for (Shape s : shapes) {
    const Ratios ratios = Bench(s, options, target, *executor, rival);
    if (ratios.median == 0) continue;
    medians.push_back(ratios.median);
    bests.push_back(ratios.best);
  }
  if (medians.empty()) return 0;
  auto mean = [](const std::vector<double>& ratios) {
    double sum = 0;
    for (double ratio : ratios) sum += std::log(ratio);
    return std::exp(sum / static_cast<double>(ratios.size()));
  };
  std::printf(
      "%d threads, %zu shapes, oneDNN's time / ours: geometric mean of medians %.3f (worst %.2f), "
      "of "
      "best samples %.3f (worst %.2f)\n",
      threads, medians.size(), mean(medians), Least(medians), mean(bests), Least(bests));
  return 0;
}

}  // namespace
}  // namespace halyard

int main(int argc, char** argv) {
  using halyard::Shape;
  int threads = 1;
  halyard::Options options;
  std::vector<Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    Shape s{};
    if (word == "--threads" && i + 1 < argc) {
      threads = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--rounds" && i + 1 < argc) {
      options.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--schedule" && i + 1 < argc) {
      options.schedules.push_back(halyard::Must(halyard::schedule::ParseSchedule(argv[++i])));
    } else if (word == "--candidates") {
      options.prints_candidates = true;
    } else if (std::sscanf(argv[i], "%ldx%ldx%ld", &s.m, &s.n, &s.k) == 3) {
      shapes.push_back(s);
    } else {
      std::fprintf(
          stderr,
          "usage: gemm_bench [--threads N] [--rounds N] [--candidates] [--schedule RECORD]... "
          "[MxNxK]...\n");
      return 1;
    }
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
  return halyard::Main(threads, options, shapes);
}
