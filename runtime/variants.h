// SPDX-License-Identifier: Apache-2.0
// Variants: the programs that were compiled for exact sizes beside a program for any sizes. Each is
// compiled once, on the thread that asks or on one of its own, and every compile is recorded.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace halyard::runtime {

class LoadedProgram;

enum class VariantMode : uint8_t {
  kFind,          // only what is there
  kCompile,       // compiles on this thread; two that ask for the same sizes wait for one compile
  kCompileLater,  // compiles on a thread of the library, meanwhile there is none
};

// What was compiled for new sizes.
struct CompiledVariant {
  std::string sizes;  // "n = 12, m = 3"
  double seconds = 0;
  bool is_background = false;
  Status outcome;
};

// Programs for sizes that are kept, each with its weights.
inline constexpr size_t kMostVariants = 16;

// Thread-safe. No lock is held while compiling. Its end waits for a compile that is going on.
class Variants {
 public:
  using Sizes = std::map<std::string, int64_t>;
  using Specializer = std::function<Result<std::shared_ptr<LoadedProgram>>(const Sizes& sizes)>;

  Variants() = default;
  ~Variants();
  Variants(const Variants&) = delete;
  Variants& operator=(const Variants&) = delete;

  // Before it is shared. Without one nothing can be compiled.
  void SetSpecializer(Specializer specializer) { specializer_ = std::move(specializer); }

  // kFind: NOT_FOUND when there is none. kCompile: the compile's failure, FAILED_PRECONDITION
  // without a specializer; the next call tries again. kCompileLater: null while there is none, also
  // when its compile has failed, which is not tried again, and without a specializer.
  Result<std::shared_ptr<LoadedProgram>> Get(const Sizes& sizes, VariantMode mode);

  // Grows when a compile on the library's thread has ended.
  uint64_t background_count() const { return background_count_.load(std::memory_order_acquire); }
  std::vector<CompiledVariant> compiled() const;

 private:
  struct Variant {
    std::mutex mutex;  // held while compiling
    std::shared_ptr<LoadedProgram> program;
  };
  std::shared_ptr<Variant> Find(const Sizes& sizes, bool may_add);
  // Under mutex_: what was used longest ago makes room. Whoever runs it keeps it meanwhile.
  void Use(const Sizes& sizes);
  // Under the variant's lock.
  Status Compile(Variant& variant, const Sizes& sizes, bool is_background);
  Status StartWorker();
  void Work();

  Specializer specializer_;
  mutable std::mutex mutex_;
  std::map<Sizes, std::shared_ptr<Variant>> variants_;
  std::list<Sizes> used_;  // of variants with a program; the last one used is at the end
  std::vector<CompiledVariant> compiled_;
  std::atomic<uint64_t> background_count_{0};

  std::deque<Sizes> queue_;  // of the worker; guarded by mutex_, as what follows
  std::condition_variable has_work_;
  bool is_ending_ = false;
  std::thread worker_;
};

}  // namespace halyard::runtime
