// SPDX-License-Identifier: Apache-2.0
#include "runtime/probe/host_memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace halyard::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// 64 bytes, which a narrower CPU handles in parts.
using Vector = double __attribute__((vector_size(64), may_alias));
constexpr size_t kVectorBytes = sizeof(Vector);

// `count`: vectors of each array, a multiple of 4. Four sums, because an addition takes several
// clocks.
#define HY_DEFINE_LOOPS(suffix, attributes)                                                  \
  attributes double Read##suffix(const Vector* a, size_t count) {                            \
    Vector s0 = a[0], s1 = a[1], s2 = a[2], s3 = a[3];                                       \
    for (size_t i = 4; i < count; i += 4) {                                                  \
      s0 += a[i];                                                                            \
      s1 += a[i + 1];                                                                        \
      s2 += a[i + 2];                                                                        \
      s3 += a[i + 3];                                                                        \
    }                                                                                        \
    s0 += s1 + s2 + s3;                                                                      \
    return s0[0] + s0[3] + s0[7];                                                            \
  }                                                                                          \
  attributes void Copy##suffix(Vector* a, const Vector* b, size_t count) {                   \
    for (size_t i = 0; i < count; i += 4) {                                                  \
      a[i] = b[i];                                                                           \
      a[i + 1] = b[i + 1];                                                                   \
      a[i + 2] = b[i + 2];                                                                   \
      a[i + 3] = b[i + 3];                                                                   \
    }                                                                                        \
  }                                                                                          \
  attributes void Triad##suffix(Vector* a, const Vector* b, const Vector* c, size_t count) { \
    for (size_t i = 0; i < count; ++i) a[i] = b[i] + 0.75 * c[i];                            \
  }

HY_DEFINE_LOOPS(Plain, )
#if defined(__x86_64__)
HY_DEFINE_LOOPS(Avx2, __attribute__((target("avx2,fma"))))
HY_DEFINE_LOOPS(Avx512, __attribute__((target("avx512f"))))
#endif
#undef HY_DEFINE_LOOPS

struct Loops {
  double (*read)(const Vector*, size_t) = &ReadPlain;
  void (*copy)(Vector*, const Vector*, size_t) = &CopyPlain;
  void (*triad)(Vector*, const Vector*, const Vector*, size_t) = &TriadPlain;
};

Loops ChooseLoops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {&ReadAvx512, &CopyAvx512, &TriadAvx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {&ReadAvx2, &CopyAvx2, &TriadAvx2};
  }
#endif
  return {};
}

// The threads of one measurement, which begin each pass together.
class Streams {
 public:
  Streams(HostPattern pattern, int64_t threads, int64_t bytes_per_thread)
      : pattern_(pattern), loops_(ChooseLoops()) {
    const int64_t arrays = pattern == HostPattern::kRead   ? 1
                           : pattern == HostPattern::kCopy ? 2
                                                           : 3;
    count_ =
        std::max<size_t>(static_cast<size_t>(bytes_per_thread / arrays) / kVectorBytes / 4 * 4, 4);
    const auto bytes = static_cast<int64_t>(count_ * kVectorBytes) * arrays;
    pass_bytes_ = bytes * threads;
    // Passes of small sets are repeated, so that meeting costs little of them.
    repeats_ = static_cast<int>(std::clamp<int64_t>((int64_t{4} << 20) / bytes, 1, 4096));
    for (int64_t i = 0; i < threads; ++i) memory_.push_back(Allocate(static_cast<size_t>(bytes)));
  }
  bool has_memory() const {
    return std::all_of(memory_.begin(), memory_.end(),
                       [](const Memory& m) { return m != nullptr; });
  }
  // Seconds of one pass.
  std::vector<double> Run(double seconds) {
    std::vector<double> samples;
    std::vector<std::thread> threads;
    for (size_t i = 1; i < memory_.size(); ++i) threads.emplace_back([this, i] { Work(i); });
    const Clock::time_point start = Clock::now();
    const auto since = [](Clock::time_point from) {
      return std::chrono::duration<double>(Clock::now() - from).count();
    };
    Touch(0);
    for (int pass = 0; pass < 1000 && (pass < 6 || since(start) < seconds); ++pass) {
      const Clock::time_point begin = Clock::now();
      finished_.store(0, std::memory_order_relaxed);
      turn_.fetch_add(1, std::memory_order_acq_rel);
      turn_.notify_all();
      Pass(0);
      while (finished_.load(std::memory_order_acquire) + 1 < memory_.size()) {
        std::this_thread::yield();
      }
      if (pass > 0) samples.push_back(since(begin) / repeats_);  // the first also touches
    }
    is_over_.store(true, std::memory_order_release);
    turn_.fetch_add(1, std::memory_order_acq_rel);
    turn_.notify_all();
    for (std::thread& thread : threads) thread.join();
    return samples;
  }
  int64_t pass_bytes() const { return pass_bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<void, Free>;
  static Memory Allocate(size_t bytes) {
    return Memory(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  }

  // By the thread that uses it, so that it lies on that thread's memory node.
  void Touch(size_t index) {
    std::memset(memory_[index].get(), 0, static_cast<size_t>(pass_bytes_) / memory_.size());
  }
  void Pass(size_t index) {
    auto* a = static_cast<Vector*>(memory_[index].get());
    for (int r = 0; r < repeats_; ++r) {
      switch (pattern_) {
        case HostPattern::kRead:
          sink_.store(loops_.read(a, count_), std::memory_order_relaxed);
          break;
        case HostPattern::kCopy:
          loops_.copy(a, a + count_, count_);
          break;
        case HostPattern::kTriad:
          loops_.triad(a, a + count_, a + 2 * count_, count_);
          break;
      }
    }
  }
  void Work(size_t index) {
    Touch(index);
    for (int seen = 0;;) {
      turn_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (is_over_.load(std::memory_order_acquire)) return;
      Pass(index);
      finished_.fetch_add(1, std::memory_order_acq_rel);
    }
  }

  const HostPattern pattern_;
  const Loops loops_;
  size_t count_ = 0;
  int64_t pass_bytes_ = 0;
  int repeats_ = 1;
  std::vector<Memory> memory_;
  std::atomic<int> turn_{0};
  std::atomic<size_t> finished_{0};
  std::atomic<bool> is_over_{false};
  std::atomic<double> sink_{0};
};

}  // namespace

Result<HostMemoryTime> MeasureHostMemory(HostPattern pattern, int64_t threads,
                                         int64_t bytes_per_thread, double seconds) {
  Streams streams(pattern, threads, bytes_per_thread);
  if (!streams.has_memory()) {
    return OutOfMemory("{} threads with {} bytes each do not fit.", threads, bytes_per_thread);
  }
  return HostMemoryTime{Summarize(streams.Run(seconds)), streams.pass_bytes()};
}

}  // namespace halyard::runtime
